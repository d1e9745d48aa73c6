//! The elector: takes part in one election, for as long as it runs.
//!
//! ```text
//!            bid refused                     renewed
//!             ┌──────┐                       ┌─────┐
//!             │      ▼       acquired        │     ▼
//!  start ──▶ Following ───────────────────▶ Leading ──── lost, deadline passed, stop, resign, hand off, work ended
//!             ▲      │                                          │
//!             │      │ stop                                     ▼
//!             │      │                                   Draining: permission off, the lease is kept
//!             │      │                                          │ all work has ended
//!             │      ▼                                          ▼
//!             │   Stopped ◀────────────── stop ────── publish, then release
//!             │                                                 │
//!             └─────────────────────────────────────────────────┘
//! ```
//!
//! The loop stands in `Worker::run`, each state in a file of its own: `follower.rs`, `leader.rs`.

mod alarm;
mod callbacks;
mod calls;
mod deadline;
mod event;
mod follower;
mod handle;
mod leader;
mod leadership;
mod release;
mod renewer;
mod settings;
mod status;

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::oneshot;

pub use event::{ElectionEvent, EndReason, EventKind, Events, Heard};
pub use handle::{CommandError, ElectorHandle, Finish};
pub use leadership::{Leadership, NotLeader, Permit};
pub use settings::{InvalidSettings, OnElectedFailure, OnOverrun, Profile, Settings, Timing};
pub use status::{ElectionStatus, ElectorState, ElectorStopped, Health, Statuses};

pub(crate) use callbacks::Callbacks;
use callbacks::Called;
use follower::Campaign;
use handle::Command;
pub(crate) use handle::{Board, Machine};

use crate::clock::Moment;
use crate::elections::{Elections, LeadError, Shared};
use crate::name::{ElectionName, InvalidName};
use crate::store::{Changes, Holder, LeaseRecord, LeaseStore, RecordState, StoreError};
use crate::token::FencingToken;

/// Any error of a callback.
pub type CallbackError = Box<dyn std::error::Error + Send + Sync>;

/// Why an elector could not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The election's name breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The settings break rules.
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    /// This candidate takes part in that election already.
    #[error(
        "this process takes part in election {0:?} already: use the elector it has, stop that first, or name a second \
         candidate (Elections::builder(store).candidate(…))"
    )]
    AlreadyStanding(ElectionName),
    /// The elections are closing.
    #[error("these elections are closing: they take no new ones")]
    Closing,
    /// There is no runtime to run in.
    #[error("an elector needs a tokio runtime around it: start it from async code")]
    NoRuntime,
}

/// Why `run` has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The work panicked; its term has ended and the lease is given back.
    #[error("the work {0}")]
    Panicked(String),
    /// It was stopped before the work returned.
    #[error("stopped before the work was done")]
    Stopped,
}

/// How long a campaign goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Limit {
    #[default]
    Never,
    /// Until the first definite answer.
    Try,
    Until(Moment),
}

/// Takes part in one election.
///
/// ```
/// # use tenure_core::{elector::Elector, embedded::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let token = Elector::new(MemoryStore::new(), "billing")
///     .run(|leadership| async move {
///         leadership.check().expect("just elected");
///         leadership.token()
///     })
///     .await?;
/// # assert_eq!(token.0, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "an elector does nothing before it is started"]
pub struct Elector {
    shared: Arc<Shared>,
    name: String,
    settings: Settings,
    callbacks: Callbacks,
    give_up_after: Option<Duration>,
}

impl Elector {
    /// Takes part in `election` on `store`, as this process.
    pub fn new(store: impl LeaseStore, election: impl Into<String>) -> Self {
        Elections::new(store).elector(election)
    }

    pub(crate) fn within(shared: Arc<Shared>, name: String, settings: Settings) -> Self {
        Self { shared, name, settings, callbacks: Callbacks::default(), give_up_after: None }
    }

    /// Sets how it keeps time.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Stops if it is not elected within `wait` of its start; with zero, if the first answer is a refusal. A term that began
    /// in time is led to its end.
    pub fn give_up_after(mut self, wait: Duration) -> Self {
        self.give_up_after = Some(wait);
        self
    }

    /// Calls `f` when elected. It may return at once or work for as long as it leads; either way it counts as work
    /// of the term.
    pub fn on_elected<F, Fut>(mut self, mut f: F) -> Self
    where
        F: FnMut(Leadership) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), CallbackError>> + Send + 'static,
    {
        self.callbacks.elected =
            Some(Arc::new(Mutex::new(move |leadership| -> Called { Box::pin(f(leadership)) })));
        self
    }

    /// Calls `f` when a term was taken away: the lease was lost, or the store gave no answer in time. Not when the
    /// elector stops or resigns.
    pub fn on_lost<F, Fut>(mut self, mut f: F) -> Self
    where
        F: FnMut(EndReason) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), CallbackError>> + Send + 'static,
    {
        self.callbacks.lost = Some(Arc::new(Mutex::new(move |reason| -> Called { Box::pin(f(reason)) })));
        self
    }

    /// Calls `f` at the end of every term and waits for it before the lease is given back: stop the workers here.
    pub fn on_term_end<F, Fut>(mut self, mut f: F) -> Self
    where
        F: FnMut(EndReason) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), CallbackError>> + Send + 'static,
    {
        self.callbacks.term_end = Some(Arc::new(Mutex::new(move |reason| -> Called { Box::pin(f(reason)) })));
        self
    }

    /// Starts to take part, in a task of its own.
    ///
    /// # Errors
    /// If name or settings break rules, or this candidate takes part already.
    pub fn start(self) -> Result<ElectorHandle, StartError> {
        self.begin()
    }

    /// Runs `work` while leading and returns what it returns.
    ///
    /// When the term ends before that, [`Leadership::cancelled`] completes; `work` then has `drain_timeout` to return
    /// before it is dropped (no time at all if the lease is somebody else's already). After that the elector stands
    /// again, and `work` is called anew when it is elected again.
    ///
    /// Dropping the returned future stops the elector; its term then ends in order, in the background.
    ///
    /// # Errors
    /// If it cannot start, if `work` panics, or if the elections are closed meanwhile.
    pub async fn run<F, Fut, T>(mut self, mut work: F) -> Result<T, RunError>
    where
        F: FnMut(Leadership) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let set = move |value| *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        self.callbacks.ends_term = true;
        self.callbacks.elected = Some(Arc::new(Mutex::new(move |leadership: Leadership| -> Called {
            let set = set.clone();
            let permit = leadership.permit();
            let work = catch_unwind(AssertUnwindSafe(|| work(leadership)));
            Box::pin(async move {
                let done = match work {
                    Ok(work) => AssertUnwindSafe(work).catch_unwind().await,
                    Err(panic) => Err(panic),
                };
                match done {
                    // What was made after the term had ended is not a result: the next term makes its own.
                    Ok(value) if permit.is_leader() => set(Ok(value)),
                    Ok(_) => {}
                    Err(panic) => {
                        let text = callbacks::panic_text(panic.as_ref());
                        set(Err(text.clone()));
                        return Err(text.into());
                    }
                }
                Ok(())
            })
        })));
        let slot = Arc::clone(&result);
        let done = move || slot.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        self.callbacks.done = Some(Box::new(done));
        self.shared.wait_for_ending(&self.name).await;
        let handle = self.begin()?;
        let mut statuses = handle.statuses();
        // An error says that it has stopped, too.
        drop(statuses.wait_for(|status| status.state == ElectorState::Stopped).await);
        let value = result.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.map_or(Err(RunError::Stopped), |value| value.map_err(RunError::Panicked))
    }

    /// Leads once: hands the leadership out and stops when the last clone of it was dropped.
    pub(crate) async fn lead(mut self, limit: Limit) -> Result<Option<Leadership>, LeadError> {
        let (sender, receiver) = oneshot::channel();
        let mut sender = Some(sender);
        self.callbacks.elected = Some(Arc::new(Mutex::new(move |leadership| -> Called {
            if let Some(sender) = sender.take() {
                // Nobody waits any more: the leadership is dropped here, which ends the term.
                drop(sender.send(leadership));
            }
            Box::pin(std::future::ready(Ok(())))
        })));
        self.callbacks.ends_with_last_drop = true;
        self.callbacks.limit = limit;
        self.callbacks.once = true;
        let name = self.name.clone();
        let shared = Arc::clone(&self.shared);
        shared.wait_for_ending(&name).await;
        let handle = self.begin()?;
        match receiver.await {
            Ok(leadership) => {
                // From here on the leadership keeps the elector running, not this handle.
                handle.detach();
                Ok(Some(leadership))
            }
            Err(_) => {
                handle.stop().await;
                handle.failure().map_or(Ok(None), |error| Err(LeadError::Store(error)))
            }
        }
    }

    fn begin(mut self) -> Result<ElectorHandle, StartError> {
        let shared = self.shared;
        if let Some(wait) = self.give_up_after {
            let now = shared.clock.now();
            self.callbacks.limit = if wait.is_zero() { Limit::Try } else { Limit::Until(now.plus(wait)) };
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StartError::NoRuntime)?;
        let election = ElectionName::new(&self.name)?;
        let timing = shared.timing(&self.settings)?;
        let machine = Arc::clone(&shared.machine);
        let board = Arc::new(Board::new(election.clone(), machine, runtime.clone(), self.callbacks.once));
        shared.enter(&election, &board)?;
        // With the place taken: whoever had it before has raised the floor by now.
        let seen = shared.floor(&election);
        board.status.change_quietly(|status| status.token = seen);
        let handle = ElectorHandle::new(Arc::clone(&board));
        let nothing = self.callbacks.is_empty();
        let callbacks = if nothing { Arc::clone(&shared.nothing) } else { Arc::new(self.callbacks) };
        let worker = Worker {
            seen,
            shared,
            timing,
            board,
            stopping: false,
            leads: false,
            changes: None,
            callbacks,
            short_terms: 0,
            waits: None,
            rest: None,
        };
        // In a box: a task's own memory comes in steps of 128 bytes.
        runtime.spawn(Box::pin(worker.run()));
        Ok(handle)
    }
}

impl fmt::Debug for Elector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elector({:?})", self.name)
    }
}

/// The loop of one elector and what it remembers between its states.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    timing: Arc<Timing>,
    board: Arc<Board>,
    stopping: bool,
    /// Counted among the leaders.
    leads: bool,
    changes: Option<Changes>,
    callbacks: Arc<Callbacks>,
    /// The highest token seen of others, and of own ended terms.
    seen: FencingToken,
    /// Why nobody is elected although nobody leads, as it was told last.
    waits: Option<Box<RecordState>>,
    short_terms: u32,
    /// Do not stand again before this long after the end of the term.
    rest: Option<Duration>,
}

impl Worker {
    #[allow(clippy::manual_async_fn)] // An `async fn` would hold the worker twice.
    fn run(mut self) -> impl Future<Output = ()> {
        async move {
            loop {
                // Each state in a box of its own: a process may lead a hundred thousand elections, and the room for
                // campaigning and ending is then taken only while that goes on.
                match Box::pin(self.campaign()).await {
                    Campaign::Won(mut reign) => {
                        let reason = self.hold(&mut reign).await;
                        Box::pin(self.end_term(*reign, reason)).await;
                    }
                    Campaign::Ended => break,
                }
                if self.stopping || self.callbacks.is_done() {
                    break;
                }
            }
        }
    }

    fn publish(&self, kind: EventKind) {
        let (election, candidate) = (&self.board.election, &self.shared.candidate);
        self.board.events.publish(election, candidate, self.shared.clock.wall(), kind);
    }

    /// The loop will turn again at `next` at the latest.
    fn turn(&self, next: Moment) {
        // For whoever asks for health; nobody is woken by it.
        self.board.status.change_quietly(|status| status.next_turn = next);
    }

    fn store_answered(&self) {
        let now = self.shared.clock.now();
        self.board.status.change(|status| {
            status.last_answer = now;
            status.failure = None;
        });
    }

    fn store_failed(&self, error: &StoreError) {
        self.board.status.change(|status| status.failure = Some(Box::new(error.clone())));
    }

    /// Takes in what a record shows about who leads.
    fn note(&mut self, record: &LeaseRecord, own_bid: Option<crate::name::BidId>) {
        let leader = record.leader().map(|holder| holder.candidate.clone());
        if record.holder.as_ref().is_none_or(|holder| Some(holder.bid) != own_bid) {
            self.seen = self.seen.max(record.token);
        }
        let token = record.token;
        let changed = {
            let status = self.board.status.look();
            status.leader != leader || (leader.is_some() && status.token != token)
        };
        if changed {
            self.board.status.change(|status| {
                status.leader.clone_from(&leader);
                status.token = status.token.max(token);
            });
            tracing::debug!(election = %self.board.election, ?leader, %token, "leader changed");
            let token =
                if record.leader().is_some_and(Holder::is_foreign) { FencingToken::ZERO } else { token };
            self.publish(EventKind::LeaderChanged { leader, token });
        }
        self.note_waiting(record);
    }

    /// Tells, once, why nobody is elected although nobody leads.
    fn note_waiting(&mut self, record: &LeaseRecord) {
        let closed = !matches!(record.state, RecordState::Held | RecordState::Free);
        let waits = closed.then_some(&record.state);
        if self.waits.as_deref() != waits {
            self.waits = waits.cloned().map(Box::new);
            if let Some(state) = waits.cloned() {
                self.publish(EventKind::Waiting { state, opens_in: record.opens_in });
            }
        }
    }

    /// Takes what handles ask while nothing is led.
    fn obey_as_follower(&mut self, command: Command) {
        match command {
            Command::Stop => self.stopping = true,
            Command::Resign { reply, .. }
            | Command::Finish { reply, .. }
            | Command::HandOff { reply, .. } => {
                // Whoever asked may be gone.
                drop(reply.send(Err(CommandError::NotLeading)));
            }
        }
    }
}

impl Drop for Worker {
    /// Also when the loop is dropped with its runtime: whoever waits for the end hears of it.
    fn drop(&mut self) {
        self.leads_no_more();
        self.shared.raise_floor(&self.board.election, self.seen);
        // The place is free before anybody hears of it: whoever waited for the end may start anew.
        self.shared.leave(&self.board.election);
        self.publish(EventKind::Stopped);
        self.board.events.close();
        self.board.status.change(|status| status.state = ElectorState::Stopped);
        self.board.commands.close();
    }
}
