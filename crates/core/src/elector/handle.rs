//! The remote control of an elector.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::event::{EventLog, Events};
use super::leadership::Permit;
use super::status::{ElectionStatus, ElectorState, Health, Present, StatusCell, Statuses};
use crate::clock::Clock;
use crate::name::{CandidateId, ElectionName};
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
    /// The store did not answer the release in time; it is repeated until the lease must have run out.
    #[error("the store has not answered the release yet")]
    Unanswered,
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
    mail: Mutex<Mail>,
}

#[derive(Default)]
struct Mail {
    /// There is none most of the time.
    unread: Option<Box<Letter>>,
    /// Nobody will ever read.
    closed: bool,
    /// The loop, if it waits; nobody else reads.
    reader: Option<Waker>,
}

struct Letter {
    command: Command,
    next: Option<Box<Letter>>,
}

impl Mailbox {
    /// Leaves a command; gives it back if nobody will ever read it.
    fn send(&self, command: Command) -> Result<(), Command> {
        // Under the lock that closing takes: a command is either read or refused.
        let mut mail = self.mail();
        if mail.closed {
            return Err(command);
        }
        let mut end = &mut mail.unread;
        while let Some(letter) = end {
            end = &mut letter.next;
        }
        *end = Some(Box::new(Letter { command, next: None }));
        let reader = mail.reader.take();
        drop(mail);
        if let Some(reader) = reader {
            reader.wake();
        }
        Ok(())
    }

    /// Waits for the next command. Nothing is lost if this is dropped.
    pub(crate) async fn recv(&self) -> Command {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Answers the next command, or wakes the task when there is one.
    pub(crate) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Command> {
        let mut mail = self.mail();
        if let Some(letter) = mail.unread.take() {
            mail.unread = letter.next;
            return Poll::Ready(letter.command);
        }
        if mail.reader.as_ref().is_none_or(|reader| !reader.will_wake(context.waker())) {
            let before = mail.reader.replace(context.waker().clone());
            // The lock is given back first: the last waker of a task may drop the task.
            drop(mail);
            drop(before);
        }
        Poll::Pending
    }

    /// Whoever waits for a reply hears that the elector has stopped, because the reply is dropped.
    pub(crate) fn close(&self) {
        let mut mail = self.mail();
        mail.closed = true;
        let unread = mail.unread.take();
        drop(mail);
        drop(unread);
    }

    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who takes part, and by which clock: the same for all elections of a candidate.
pub(crate) struct Machine {
    pub(crate) candidate: CandidateId,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Where the loop leaves what its handles ask without waiting for it.
pub(crate) struct Board {
    pub(crate) election: ElectionName,
    pub(crate) machine: Arc<Machine>,
    pub(crate) status: StatusCell,
    pub(crate) events: EventLog,
    pub(crate) commands: Mailbox,
    runtime: Handle,
    /// Handles that keep the elector running.
    keepers: AtomicU32,
    detached: AtomicBool,
    stop_asked: AtomicBool,
    /// Leads once, until the last clone of the leadership is dropped.
    once: bool,
}

impl Board {
    pub(crate) fn new(election: ElectionName, machine: Arc<Machine>, runtime: Handle, once: bool) -> Self {
        Self {
            election,
            status: StatusCell::new(Present::new(machine.clock.now())),
            machine,
            events: EventLog::default(),
            commands: Mailbox::default(),
            runtime,
            keepers: AtomicU32::new(0),
            detached: AtomicBool::new(false),
            stop_asked: AtomicBool::new(false),
            once,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Arc<Self> {
        let candidate = CandidateId::new("c").unwrap();
        let machine = Arc::new(Machine { candidate, clock: Arc::new(crate::clock::SystemClock) });
        Arc::new(Self::new(ElectionName::new("e").unwrap(), machine, Handle::current(), false))
    }

    /// Returns the latest status.
    pub(crate) fn status(&self) -> ElectionStatus {
        self.status.look().of(&self.election, &self.machine.candidate)
    }

    fn ask_to_stop(&self) {
        self.stop_asked.store(true, Ordering::Release);
        // A loop that is gone has stopped already.
        drop(self.commands.send(Command::Stop));
    }
}

/// The remote control of a running elector. When the last clone is dropped, the elector stops, unless it was
/// [detached](Self::detach).
#[must_use = "dropping the handle stops the elector: keep it, or detach it"]
pub struct ElectorHandle {
    board: Arc<Board>,
    keeps_running: bool,
}

impl Clone for ElectorHandle {
    fn clone(&self) -> Self {
        if self.keeps_running { Self::new(Arc::clone(&self.board)) } else { self.observer() }
    }
}

impl Drop for ElectorHandle {
    fn drop(&mut self) {
        let last = self.keeps_running && self.board.keepers.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && !self.board.detached.load(Ordering::Acquire) {
            // Only asks the loop; the loop does it.
            self.board.ask_to_stop();
        }
    }
}

impl ElectorHandle {
    /// Makes a handle that keeps the elector running.
    pub(crate) fn new(board: Arc<Board>) -> Self {
        board.keepers.fetch_add(1, Ordering::AcqRel);
        Self { board, keeps_running: true }
    }

    /// Makes a handle that does not keep the elector running.
    pub(crate) fn watching(board: Arc<Board>) -> Self {
        Self { board, keeps_running: false }
    }

    /// Returns a handle that does not keep the elector running.
    pub fn observer(&self) -> Self {
        Self::watching(Arc::clone(&self.board))
    }

    /// Lets the elector run on when its handles are dropped, for as long as its runtime runs.
    pub fn detach(&self) {
        if self.keeps_running {
            self.board.detached.store(true, Ordering::Release);
        }
    }

    /// Tells whether it was asked to stop, or leads once and whoever led has let go: it ends by itself, soon.
    pub(crate) fn is_ending(&self) -> bool {
        if self.board.stop_asked.load(Ordering::Acquire) {
            return true;
        }
        self.board.once && self.board.status.look().permit.as_ref().is_some_and(Permit::is_let_go)
    }

    /// Returns what the store said last, if it was not an outcome.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.board.status.look().failure.as_deref().cloned()
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
        self.board.status.look().permit.as_ref().is_some_and(Permit::is_leader)
    }

    /// Returns the latest status, without asking the store.
    #[must_use]
    pub fn status(&self) -> ElectionStatus {
        self.board.status()
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
        self.status().health(self.board.machine.clock.now(), limit)
    }

    /// Ends the present term; somebody else may lead. Completes when the work has stopped and the release went out.
    /// The elector stands again after a retry interval, or after `pause`.
    ///
    /// # Errors
    /// If this candidate does not lead.
    pub async fn resign(&self, pause: Option<Duration>) -> Result<(), CommandError> {
        self.ask(|reply| Command::Resign { pause, reply }).await
    }

    /// Ends the present term because its work is done. Completes when the work has stopped and the store has answered the
    /// release, or has not in time.
    ///
    /// # Errors
    /// If this candidate does not lead, also if that turns out by the release, or the release is not answered in time.
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
        write!(f, "ElectorHandle({:?})", self.status())
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn commands_are_read_in_their_order_and_refused_once_nobody_reads() {
        let mailbox = Mailbox::default();
        assert!(mailbox.recv().now_or_never().is_none());
        for seconds in [1, 2, 3] {
            let (reply, _) = oneshot::channel();
            let pause = Some(Duration::from_secs(seconds));
            assert!(mailbox.send(Command::Resign { pause, reply }).is_ok());
        }
        for seconds in [1, 2] {
            let read = mailbox.recv().now_or_never();
            let pause = Some(Duration::from_secs(seconds));
            assert!(matches!(read, Some(Command::Resign { pause: read, .. }) if read == pause));
        }
        mailbox.close();
        assert!(mailbox.recv().now_or_never().is_none());
        assert!(mailbox.send(Command::Stop).is_err());
    }

    #[tokio::test]
    async fn a_command_wakes_whoever_waits_for_it() {
        let mailbox = Arc::new(Mailbox::default());
        let waiting = Arc::clone(&mailbox);
        let reader = tokio::spawn(async move { waiting.recv().await });
        tokio::task::yield_now().await;
        assert!(mailbox.send(Command::Stop).is_ok());
        assert!(matches!(reader.await, Ok(Command::Stop)));
    }
}
