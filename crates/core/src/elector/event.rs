//! What happened, in order, to whoever listens.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use super::handle::Board;
use crate::flaw::{Flaw, flawed};
use crate::name::{CandidateId, ElectionName, RequestId};
use crate::store::{RecordState, StoreError};
use crate::token::FencingToken;

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The elector was stopped.
    Stopped,
    /// The work ended by itself: the closure returned, or the last `Leadership` was dropped.
    WorkEnded,
    /// The leader gave up the term, by itself or because an operator asked.
    Resigned,
    /// The leader gave the term to a successor.
    HandedOff {
        /// Who was named.
        to: CandidateId,
    },
    /// The store said that the lease is somebody else's or gone.
    Lost,
    /// The store gave no answer in time.
    DeadlinePassed,
    /// `on_elected` failed, and the settings say to resign then.
    CallbackFailed,
}

impl EndReason {
    /// Tells whether the term was taken away rather than given up.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost | Self::DeadlinePassed)
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::WorkEnded => f.write_str("work ended"),
            Self::Resigned => f.write_str("resigned"),
            Self::HandedOff { to } => write!(f, "handed off to {to}"),
            Self::Lost => f.write_str("lost"),
            Self::DeadlinePassed => f.write_str("deadline passed"),
            Self::CallbackFailed => f.write_str("on_elected failed"),
        }
    }
}

/// Something that happened in an election, as this candidate saw it.
#[derive(Clone, Debug)]
pub struct ElectionEvent {
    /// Which election.
    pub election: ElectionName,
    /// Which candidate tells.
    pub candidate: CandidateId,
    /// Counts this elector's events from 0, without gaps.
    pub sequence: u64,
    /// When, for people.
    pub at: SystemTime,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// A follower saw that the leader changed; `None` while nobody leads.
    LeaderChanged {
        /// Who leads now.
        leader: Option<CandidateId>,
        /// The highest token seen; zero if other software holds the lease, in no term.
        token: FencingToken,
    },
    /// Nobody leads, and nobody is elected now; told once for each reason.
    Waiting {
        /// Why.
        state: RecordState,
        /// For how long, as far as the store knows.
        opens_in: Option<Duration>,
    },
    /// A bid was not answered with an outcome.
    BidFailed {
        /// What the store said.
        error: StoreError,
    },
    /// This candidate leads.
    Elected {
        /// The term's number.
        token: FencingToken,
        /// Bids of this campaign; 1 = got it at the first try.
        attempts: u32,
    },
    /// A renewal was not answered with an outcome; leadership is kept until the deadline.
    RenewFailed {
        /// The term.
        token: FencingToken,
        /// What the store said.
        error: StoreError,
        /// What is left until the deadline.
        left: Duration,
    },
    /// An operator's request arrived.
    Requested {
        /// The term.
        token: FencingToken,
        /// The request.
        id: RequestId,
    },
    /// Somebody else renewed this candidate's own lease: the process or its machine was cloned.
    IdentityShared {
        /// The term.
        token: FencingToken,
    },
    /// A callback failed or panicked.
    CallbackFailed {
        /// The term.
        token: FencingToken,
        /// Which callback.
        callback: &'static str,
        /// What it said.
        error: String,
    },
    /// Work did not stop in time.
    Overrun {
        /// The term.
        token: FencingToken,
    },
    /// The lease was lost, or ran out, while the work of an ending term was being stopped: somebody else may lead, and what
    /// still runs must be stopped at once.
    LostWhileDraining {
        /// The term.
        token: FencingToken,
    },
    /// The term ended and all its work has stopped.
    TermEnded {
        /// The term.
        token: FencingToken,
        /// Why.
        reason: EndReason,
    },
    /// A release was not answered yet; it is repeated until the lease must have run out.
    ReleaseFailed {
        /// The term.
        token: FencingToken,
        /// What the store said.
        error: StoreError,
    },
    /// Several terms in a row were shorter than a renew interval: the elector waits before it stands again.
    Flapping {
        /// How many.
        terms: u32,
        /// How long it waits.
        wait: Duration,
    },
    /// The elector has stopped; nothing follows.
    Stopped,
}

/// Events kept for a listener that does not read.
const KEPT: usize = 1024;

/// Where an elector's events go. Takes no memory of its own while nobody listens.
#[derive(Debug)]
pub(crate) struct EventLog {
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    next: u64,
    /// What was not heard yet; the listeners have it. `None` once nothing follows.
    kept: Option<Weak<Kept>>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self { log: Mutex::new(Log { next: 0, kept: Some(Weak::new()) }) }
    }
}

#[derive(Debug, Default)]
struct Kept {
    events: Mutex<VecDeque<Arc<ElectionEvent>>>,
    arrived: Notify,
}

impl Kept {
    fn events(&self) -> MutexGuard<'_, VecDeque<Arc<ElectionEvent>>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventLog {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never waits for a listener.
    pub(crate) fn publish(
        &self,
        election: &ElectionName,
        candidate: &CandidateId,
        at: SystemTime,
        kind: EventKind,
    ) {
        let mut log = self.log();
        let sequence = log.next;
        // What goes on behind an elector that has stopped (a release that is repeated) is for the log file.
        let Some(kept) = &log.kept else { return };
        let kept = kept.upgrade();
        log.next += 1;
        let Some(kept) = kept else { return };
        let mut events = kept.events();
        if events.len() == KEPT || (flawed(Flaw::MergedEvents) && !events.is_empty()) {
            events.pop_front();
        }
        let event =
            ElectionEvent { election: election.clone(), candidate: candidate.clone(), sequence, at, kind };
        events.push_back(Arc::new(event));
        drop((events, log));
        kept.arrived.notify_waiters();
    }

    pub(crate) fn close(&self) {
        let kept = self.log().kept.take();
        if let Some(kept) = kept.and_then(|kept| kept.upgrade()) {
            kept.arrived.notify_waiters();
        }
    }
}

/// What a listener gets.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The next event.
    Event(Arc<ElectionEvent>),
    /// This many events were lost because the listener read too slowly.
    Missed(u64),
}

/// A listener's place in the sequence of events.
pub struct Events {
    board: Arc<Board>,
    kept: Arc<Kept>,
    next: u64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events(from {})", self.next)
    }
}

impl Events {
    /// Listens from now on.
    pub(crate) fn of(board: &Arc<Board>) -> Self {
        let mut log = board.events.log();
        let kept = log.kept.as_ref().and_then(Weak::upgrade).unwrap_or_default();
        if let Some(heard) = &mut log.kept {
            *heard = Arc::downgrade(&kept);
        }
        let next = log.next;
        drop(log);
        Self { board: Arc::clone(board), kept, next }
    }

    /// Waits for the next event; `None` after the elector has stopped and everything was heard.
    pub async fn next(&mut self) -> Option<Heard> {
        let kept = Arc::clone(&self.kept);
        loop {
            // Registered before looking: an event between the look and the wait wakes us.
            let mut arrived = std::pin::pin!(kept.arrived.notified());
            arrived.as_mut().enable();
            if let Some(heard) = self.take() {
                return Some(heard);
            }
            self.board.events.log().kept.as_ref()?;
            arrived.await;
        }
    }

    /// Takes the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Heard> {
        self.take()
    }

    fn take(&mut self) -> Option<Heard> {
        let log = self.board.events.log();
        let events = self.kept.events();
        let first = log.next - events.len() as u64;
        if self.next < first {
            let missed = first - self.next;
            self.next = first;
            return Some(Heard::Missed(missed));
        }
        let index = usize::try_from(self.next - first).unwrap_or(usize::MAX);
        let event = events.get(index).cloned()?;
        self.next += 1;
        Some(Heard::Event(event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(log: &EventLog, count: u64) {
        let (election, candidate) = (ElectionName::new("e").unwrap(), CandidateId::new("c").unwrap());
        for _ in 0..count {
            log.publish(&election, &candidate, SystemTime::UNIX_EPOCH, EventKind::Stopped);
        }
    }

    #[tokio::test]
    async fn a_listener_hears_everything_in_order_from_when_it_began() {
        let board = Board::for_tests();
        publish(&board.events, 3);
        let mut events = Events::of(&board);
        publish(&board.events, 2);
        board.events.close();
        for wanted in [3, 4] {
            assert!(matches!(events.next().await, Some(Heard::Event(event)) if event.sequence == wanted));
        }
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn a_listener_that_never_reads_learns_how_much_it_missed_and_delays_nobody() {
        let board = Board::for_tests();
        let mut events = Events::of(&board);
        publish(&board.events, KEPT as u64 + 7);
        assert!(matches!(events.next().await, Some(Heard::Missed(7))));
        assert!(matches!(events.next().await, Some(Heard::Event(event)) if event.sequence == 7));
    }

    #[tokio::test]
    async fn nothing_is_kept_while_nobody_listens() {
        let board = Board::for_tests();
        drop(Events::of(&board));
        publish(&board.events, 10);
        assert!(board.events.log().kept.as_ref().unwrap().upgrade().is_none());
    }
}
