//! What the leader holds: permission, token, cancellation, and the count of its work.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;

use super::deadline::Permission;
use crate::clock::{Clock, Moment};
use crate::name::ElectionName;
use crate::store::{Lease, Term};
use crate::token::FencingToken;

/// The shortest time between two runs of [`Leadership::every`].
const SHORTEST_PERIOD: Duration = Duration::from_millis(1);

/// This candidate does not lead (any more).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("term {token} of election {election:?} is over: stop")]
pub struct NotLeader {
    /// Which election.
    pub election: ElectionName,
    /// The term that is over.
    pub token: FencingToken,
}

/// What all clones of a [`Leadership`] share.
#[derive(Debug)]
pub(crate) struct TermState {
    pub(crate) election: ElectionName,
    pub(crate) token: FencingToken,
    pub(crate) attempts: u32,
    pub(crate) previous: Option<Arc<Term>>,
    /// The term before this one was this candidate's own.
    previous_is_own: bool,
    pub(crate) permission: Permission,
    pub(crate) clock: Arc<dyn Clock>,
    cancelled: AtomicBool,
    cancelling: Notify,
    work: AtomicUsize,
    /// The elector's loop, if it waits for the end of the work; nobody else does.
    work_ended: AtomicWaker,
}

impl TermState {
    pub(crate) fn new(clock: Arc<dyn Clock>, lease: &Lease, attempts: u32, deadline: Moment) -> Arc<Self> {
        let previous = lease.previous.clone();
        Arc::new(Self {
            election: lease.election.clone(),
            token: lease.token,
            attempts,
            previous_is_own: previous.as_ref().is_some_and(|previous| previous.candidate == lease.candidate),
            previous,
            permission: Permission::until(deadline),
            clock,
            cancelled: AtomicBool::new(false),
            cancelling: Notify::new(),
            work: AtomicUsize::new(0),
            work_ended: AtomicWaker::new(),
        })
    }

    /// Ends permission and tells the work.
    pub(crate) fn cancel(&self) {
        self.permission.end();
        self.cancelled.store(true, Ordering::Release);
        self.cancelling.notify_waiters();
    }

    async fn cancelled(&self) {
        let mut cancelling = std::pin::pin!(self.cancelling.notified());
        // Registered before looking, so that a cancellation in between is not missed.
        cancelling.as_mut().enable();
        if !self.cancelled.load(Ordering::Acquire) {
            cancelling.await;
        }
    }

    /// Waits until no clone of the leadership is left.
    pub(crate) async fn work_ended(&self) {
        poll_fn(|context| self.poll_work_ended(context)).await;
    }

    /// Answers whether no clone of the leadership is left, or wakes the task when there is none.
    pub(crate) fn poll_work_ended(&self, context: &mut Context<'_>) -> Poll<()> {
        // Registered before looking, so that an end in between is not missed.
        self.work_ended.register(context.waker());
        if self.work.load(Ordering::Acquire) == 0 { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Leadership of one term.
///
/// Clones are counted as work: the lease is not given back before the last one is dropped. Hand a [`Permit`] to
/// whoever only asks.
pub struct Leadership {
    term: Arc<TermState>,
}

impl Leadership {
    pub(crate) fn new(term: Arc<TermState>) -> Self {
        term.work.fetch_add(1, Ordering::AcqRel);
        Self { term }
    }

    /// Tells whether this candidate may act as leader now; ask right before each act.
    ///
    /// The answer comes from the clocks, not from a flag: it is `false` at the deadline even if nothing else in the
    /// process runs. Once `false`, it stays `false`. What no clock can see is a machine that was paused with its clocks:
    /// guard what matters with the [token](Self::token).
    #[inline]
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.term.permission.holds_at(self.term.clock.now())
    }

    /// Does as [`is_leader`](Self::is_leader), for use with `?`.
    ///
    /// # Errors
    /// Once the term is over.
    #[inline]
    pub fn check(&self) -> Result<(), NotLeader> {
        if self.is_leader() { Ok(()) } else { Err(self.not_leader()) }
    }

    #[cold]
    fn not_leader(&self) -> NotLeader {
        NotLeader { election: self.term.election.clone(), token: self.term.token }
    }

    /// Returns the term's number, for the [fence](crate::fence) of what the leader writes to.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.term.token
    }

    /// Returns which election is led.
    #[must_use]
    pub fn election(&self) -> &ElectionName {
        &self.term.election
    }

    /// Returns until when permission lasts if nothing more is heard from the store; `None` once it ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        self.term.permission.deadline()
    }

    /// Completes when the term ends: stop then, within `drain_timeout`.
    pub async fn cancelled(&self) {
        self.term.cancelled().await;
    }

    /// Returns how many bids this campaign took; 1 = got it at the first try.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.term.attempts
    }

    /// Returns the term before this one, as far as the store knows.
    #[must_use]
    pub fn previous(&self) -> Option<&Term> {
        self.term.previous.as_deref()
    }

    /// Tells whether anybody else may have led since this candidate's own term `token`: then what it knows from that
    /// term may be stale. Unknown counts as yes.
    #[must_use]
    pub fn others_led_since(&self, token: FencingToken) -> bool {
        !(self.term.previous_is_own && self.previous().is_some_and(|previous| previous.token == token))
    }

    /// Returns something to ask for permission that does not count as work.
    #[must_use]
    pub fn permit(&self) -> Permit {
        Permit::of(&self.term)
    }

    /// Runs `task` every `period` while leading, the first time at once; returns when the term ends. One run is over
    /// before the next begins; a run that overlaps its next time is not made up for. A period below a millisecond
    /// counts as one, so that no task of the process starves beside it.
    pub async fn every<F, Fut>(&self, period: Duration, mut task: F)
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = ()>,
    {
        let clock = Arc::clone(&self.term.clock);
        let period = period.max(SHORTEST_PERIOD);
        let mut next = clock.now();
        while self.is_leader() {
            tokio::select! {
                biased;
                () = self.cancelled() => return,
                () = task() => {}
            }
            let now = clock.now();
            next = next.plus(period);
            if next.has_passed(now) {
                next = now.plus(period);
            }
            tokio::select! {
                biased;
                () = self.cancelled() => return,
                () = clock.sleep_until(next.by_boot()) => {}
            }
        }
    }
}

impl Clone for Leadership {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.term))
    }
}

impl Drop for Leadership {
    fn drop(&mut self) {
        // Only tells the elector; whatever has to be done is done there.
        if self.term.work.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.term.work_ended.wake();
        }
    }
}

impl fmt::Debug for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Leadership({} {:?})", self.term.election, self.term.token)
    }
}

/// Asks for permission on behalf of a [`Leadership`], without counting as its work.
#[derive(Clone)]
pub struct Permit {
    term: Arc<TermState>,
}

impl Permit {
    pub(crate) fn of(term: &Arc<TermState>) -> Self {
        Self { term: Arc::clone(term) }
    }

    /// Tells whether this candidate may act as leader now; see [`Leadership::is_leader`].
    #[inline]
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.term.permission.holds_at(self.term.clock.now())
    }

    /// Returns the term's number.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.term.token
    }

    /// Tells whether the last clone of the leadership was dropped.
    pub(crate) fn is_let_go(&self) -> bool {
        self.term.work.load(Ordering::Acquire) == 0
    }

    /// Completes when the term ends.
    pub async fn cancelled(&self) {
        self.term.cancelled().await;
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Permit({} {:?})", self.term.election, self.term.token)
    }
}
