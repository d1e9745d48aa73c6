//! The remote control of an elector.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};

use super::event::{EventLog, Events};
use super::leadership::Permit;
use super::status::{ElectionStatus, ElectorState, Health, StatusCell, Statuses};
use crate::clock::Clock;
use crate::name::CandidateId;
use crate::store::StoreError;

/// Why a leader's command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// Only a leader can do that.
    #[error("this candidate does not lead")]
    NotLeading,
    /// The elector has stopped.
    #[error("the elector has stopped")]
    Stopped,
    /// A leader cannot be its own successor.
    #[error("{0} leads already: name another candidate")]
    OwnSuccessor(CandidateId),
}

/// How a term ends whose work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Finish {
    /// The work succeeded; the store keeps how long ago that was.
    pub succeeded: bool,
    /// Nobody leads for this long afterwards.
    pub cool_down: Duration,
    /// This candidate does not stand again for this long.
    pub pause: Duration,
}

pub(crate) enum Command {
    Stop,
    /// End the term and stand again after `pause`.
    Resign {
        pause: Option<Duration>,
        reply: oneshot::Sender<Result<(), CommandError>>,
    },
    /// End the term because its work is done.
    Finish {
        finish: Finish,
        reply: oneshot::Sender<Result<(), CommandError>>,
    },
    /// End the term in favour of `to`.
    HandOff {
        to: CandidateId,
        reply: oneshot::Sender<Result<(), CommandError>>,
    },
}

/// Where handles leave commands for the loop. A queue that takes no memory while it is empty: a process may have a
/// hundred thousand of them.
#[derive(Default)]
pub(crate) struct Mailbox {
    waiting: Mutex<VecDeque<Command>>,
    closed: AtomicBool,
    arrived: Notify,
}

impl Mailbox {
    /// Leaves a command; gives it back if nobody will ever read it.
    fn send(&self, command: Command) -> Result<(), Command> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock that closing takes: a command is either read or refused.
        if self.closed.load(Ordering::Acquire) {
            return Err(command);
        }
        waiting.push_back(command);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for the next command. Nothing is lost if this is dropped.
    pub(crate) async fn recv(&self) -> Command {
        loop {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            match next {
                Some(command) => return command,
                None => self.arrived.notified().await,
            }
        }
    }

    /// Whoever waits for a reply hears that the elector has stopped, because the reply is dropped.
    pub(crate) fn close(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.closed.store(true, Ordering::Release);
        waiting.clear();
    }
}

/// Where the loop leaves what its handles ask without waiting for it.
pub(crate) struct Board {
    pub(crate) status: StatusCell,
    pub(crate) events: EventLog,
    pub(crate) commands: Mailbox,
    pub(crate) clock: Arc<dyn Clock>,
    permit: Mutex<Option<Permit>>,
    runtime: Handle,
    /// What the store said last, if it was not an outcome.
    pub(crate) failure: Mutex<Option<StoreError>>,
    stop_asked: AtomicBool,
    /// Leads once, until the last clone of the leadership is dropped.
    once: bool,
}

impl Board {
    pub(crate) fn new(status: ElectionStatus, clock: Arc<dyn Clock>, runtime: Handle, once: bool) -> Self {
        Self {
            status: StatusCell::new(status),
            events: EventLog::default(),
            commands: Mailbox::default(),
            clock,
            permit: Mutex::new(None),
            runtime,
            failure: Mutex::new(None),
            stop_asked: AtomicBool::new(false),
            once,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Arc<Self> {
        let name = |name: &str| name.to_owned();
        let status = ElectionStatus {
            election: name("e").try_into().expect("a name"),
            candidate: name("c").try_into().expect("a name"),
            state: ElectorState::Following,
            leader: None,
            token: crate::token::FencingToken::ZERO,
            attempts: 0,
            terms: 0,
            renewals: 0,
            renew_total: 0,
            last_answer: None,
            last_error: None,
            failed_callback: None,
            next_turn: crate::clock::Moment::default(),
            overrun: false,
        };
        Arc::new(Self::new(status, Arc::new(crate::clock::SystemClock), Handle::current(), false))
    }

    fn ask_to_stop(&self) {
        self.stop_asked.store(true, Ordering::Release);
        // A loop that is gone has stopped already.
        drop(self.commands.send(Command::Stop));
    }

    /// Shows the permit of a term that begins; that of the term before has ended for good.
    pub(crate) fn set_permit(&self, permit: Permit) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }
}

/// The remote control of a running elector. When the last clone is dropped, the elector stops, unless it was
/// [detached](Self::detach).
#[derive(Clone)]
#[must_use = "dropping the handle stops the elector: keep it, or detach it"]
pub struct ElectorHandle {
    board: Arc<Board>,
    stop_on_drop: Option<Arc<StopOnDrop>>,
}

/// Only asks the loop to stop; the loop does it.
struct StopOnDrop {
    board: Arc<Board>,
    detached: AtomicBool,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if !self.detached.load(Ordering::Acquire) {
            self.board.ask_to_stop();
        }
    }
}

impl ElectorHandle {
    pub(crate) fn new(board: Arc<Board>) -> Self {
        let stop = StopOnDrop { board: Arc::clone(&board), detached: AtomicBool::new(false) };
        Self { board, stop_on_drop: Some(Arc::new(stop)) }
    }

    /// Returns a handle that does not keep the elector running.
    pub fn observer(&self) -> Self {
        Self { board: Arc::clone(&self.board), stop_on_drop: None }
    }

    /// Lets the elector run on when its handles are dropped, for as long as its runtime runs.
    pub fn detach(&self) {
        if let Some(stop) = &self.stop_on_drop {
            stop.detached.store(true, Ordering::Release);
        }
    }

    /// Tells whether it was asked to stop, or leads once and whoever led has let go: it ends by itself, soon.
    pub(crate) fn is_ending(&self) -> bool {
        if self.board.stop_asked.load(Ordering::Acquire) {
            return true;
        }
        let permit = self.board.permit.lock().unwrap_or_else(PoisonError::into_inner);
        self.board.once && permit.as_ref().is_some_and(Permit::is_let_go)
    }

    /// Returns what the store said last, if it was not an outcome.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.board.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the elector has stopped.
    pub(crate) async fn stopped(&self) {
        let mut statuses = self.statuses();
        // An error says that it has stopped, too.
        drop(statuses.wait_for(|status| status.state == ElectorState::Stopped).await);
    }

    /// Tells whether this candidate may act as leader now, by the clocks; see
    /// [`Leadership::is_leader`](super::Leadership::is_leader).
    #[must_use]
    pub fn is_leader(&self) -> bool {
        let permit = self.board.permit.lock().unwrap_or_else(PoisonError::into_inner);
        permit.as_ref().is_some_and(Permit::is_leader)
    }

    /// Returns the latest status, without asking the store.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        self.board.status.look().clone()
    }

    /// Returns the latest status as something to wait on.
    #[must_use]
    pub fn statuses(&self) -> Statuses {
        Statuses::of(&self.board)
    }

    /// Begins to listen to events, from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        Events::of(&self.board)
    }

    /// Calls `f` with each new status, in a task of its own, until the elector stops. Statuses may be skipped.
    pub fn on_change<F, Fut>(&self, mut f: F)
    where
        F: FnMut(ElectionStatus) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let mut statuses = self.statuses();
        self.board.runtime.spawn(async move {
            while let Ok(status) = statuses.changed().await {
                f(status).await;
            }
        });
    }

    /// Judges whether the elector does its job: unhealthy if its loop or the store is silent for longer than `limit`.
    #[must_use]
    pub fn health(&self, limit: Duration) -> Health {
        self.board.status.look().health(self.board.clock.now(), limit)
    }

    /// Ends the present term; somebody else may lead. Completes when the work has stopped and the release went out.
    /// The elector stands again after a retry interval, or after `pause`.
    ///
    /// # Errors
    /// If this candidate does not lead.
    pub async fn resign(&self, pause: Option<Duration>) -> Result<(), CommandError> {
        self.ask(|reply| Command::Resign { pause, reply }).await
    }

    /// Ends the present term because its work is done. Completes when the work has stopped and the release went out; a
    /// release that was not answered is told by the event [`ReleaseFailed`](super::EventKind::ReleaseFailed).
    ///
    /// # Errors
    /// If this candidate does not lead.
    pub async fn finish(&self, finish: Finish) -> Result<(), CommandError> {
        self.ask(|reply| Command::Finish { finish, reply }).await
    }

    /// Ends the present term in favour of `to`, which alone may take it at first. Completes when the work has stopped
    /// and the release went out.
    ///
    /// # Errors
    /// If this candidate does not lead, or is named itself.
    pub async fn handoff(&self, to: CandidateId) -> Result<(), CommandError> {
        self.ask(|reply| Command::HandOff { to, reply }).await
    }

    async fn ask(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), CommandError>>) -> Command,
    ) -> Result<(), CommandError> {
        let (reply, answer) = oneshot::channel();
        self.board.commands.send(command(reply)).map_err(|_| CommandError::Stopped)?;
        answer.await.map_err(|_| CommandError::Stopped)?
    }

    /// Asks the elector to stop, without waiting.
    pub(crate) fn ask_to_stop(&self) {
        self.board.ask_to_stop();
    }

    /// Stops the elector: ends its term in order, gives the lease back, withdraws its bid. Safe to repeat.
    pub async fn stop(&self) {
        self.ask_to_stop();
        self.stopped().await;
    }
}

impl fmt::Debug for ElectorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ElectorHandle({:?})", *self.board.status.look())
    }
}
