//! The wrapper's side: gives the orders, reads the reports, and takes over when the guardian fails.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitid, waitpid,
};
use tenure::clock::{Clock, Moment, SystemClock};
use tokio::io::Interest;
use tokio::net::UnixDatagram;
use tokio::signal::unix::{SignalKind, signal};

use super::alarm;
use super::cgroup::Cgroup;
use super::killer::Killer;
use super::post::{Mail, Post};
use super::protocol::{Ending, FromGuardian, Hello, Survivor, ToGuardian};
use super::supervisor::{THIS_PROGRAM, again};
use super::terminal::Terminal;
use super::tree::{self, Process};
use crate::args::Isolate;

/// How long the guardian may take to get ready, on a machine that is loaded or has to read the program from a slow disk.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// How long it may take to clear a guardian away that did not get ready. The command has not run: what is left then
/// does no harm, and the reason is worth more.
const FAILED_START_PATIENCE: Duration = Duration::from_secs(5);

/// How long the guardian may be silent once it has said that it kills: it makes a round twice a second.
const KILLING_PATIENCE: Duration = Duration::from_secs(2);

/// How long an extension may go unacknowledged before the next one condemns the guardian.
const ACKNOWLEDGEMENT_PATIENCE: Duration = Duration::from_secs(1);

/// How long a guardian that is dismissed may take to exit; nothing runs below it.
const CLOSE_PATIENCE: Duration = Duration::from_secs(1);

/// How a guardian is started.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) isolate: Isolate,
    pub(crate) command: Vec<OsString>,
    /// The terminal, if the command gets it.
    pub(crate) terminal: Option<OwnedFd>,
    /// Kept open by the guardian until everything below it is gone.
    pub(crate) life: Option<OwnedFd>,
    /// What wake-up, kill and reaping may take.
    pub(crate) latency: Duration,
}

/// One run of the command.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) term: u64,
    /// Added to the wrapper's own environment.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) deadline: Moment,
    pub(crate) must_stop: Moment,
    /// What `__record` needs to record a successful end, if the wrapper dies before it has.
    pub(crate) record: Option<serde_json::Value>,
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Started {
        pid: i32,
    },
    /// The terminal stopped the command; the wrapper is in the foreground again.
    Stopped {
        signal: i32,
    },
    /// The command itself has ended; what it left behind is being killed.
    Ended(Ending),
    /// These survive SIGKILL; said again at most every 5 s, until they are gone.
    Unkillable(Vec<Survivor>),
    /// Nothing of the command is left. After `guardian_died` nothing more comes: start a new guardian before the next bid.
    Gone {
        ending: Option<Ending>,
        /// Whether it was being stopped before it ended, by order or because of the deadline: no success then.
        stopped: bool,
        guardian_died: bool,
    },
}

/// Why there is no guardian.
#[derive(thiserror::Error, Debug)]
pub(crate) enum GuardianError {
    #[error("the guardian process cannot be started")]
    Start(#[from] io::Error),
    #[error("the command cannot be isolated: {0}")]
    Isolation(String),
    #[error("the guardian process ended or did not answer while it was started")]
    Silent,
}

/// The guardian, as the wrapper sees it.
///
/// Needs a tokio runtime with I/O and signals. While it lives the wrapper is a subreaper. If the guardian dies, the
/// wrapper kills all that is below it; its own other children are spared if they stay in its session (with a terminal:
/// in its process group) and are never reaped here.
pub(crate) struct Guardian {
    pid: Pid,
    pidfd: OwnedFd,
    line: Line,
    children: tokio::signal::unix::Signal,
    terminal: Option<Terminal>,
    latency: Duration,
    isolation: String,
    cgroup: Option<Cgroup>,
    reports: VecDeque<Report>,
    term: u64,
    ending: Option<Ending>,
    /// Whether the command was being stopped before it ended.
    stopped: bool,
    must_stop: Moment,
    /// When everything must be gone, or the guardian has failed.
    overdue: Option<Moment>,
    /// Since when an extension has not been acknowledged.
    unacknowledged: Option<Moment>,
    /// Set when the guardian has died or failed: from then on we kill.
    takeover: Option<Takeover>,
    is_over: bool,
}

struct Takeover {
    killer: Killer,
    /// How many rounds in a row have found nobody.
    empty_rounds: u32,
}

impl Guardian {
    /// Starts a guardian; returns when it and its keeper are ready.
    pub(crate) async fn start(options: &Options) -> Result<Self, GuardianError> {
        let mut guardian = Self::spawn(options)?;
        guardian.ready().await?;
        Ok(guardian)
    }

    /// Waits until the guardian and its keeper are ready. Called once, before anything else.
    pub(crate) async fn ready(&mut self) -> Result<(), GuardianError> {
        let answer = self.first_answer().await;
        if answer.is_err() {
            self.condemn();
            let patience = SystemClock.sleep_until(alarm::now().plus(FAILED_START_PATIENCE));
            let clear_away = async {
                while !self.is_over {
                    self.take_over().await;
                }
            };
            tokio::select! {
                biased;
                () = clear_away => {}
                () = patience => {}
            }
        }
        answer
    }

    /// Starts the guardian's process, which is not [ready](Self::ready) yet.
    pub(crate) fn spawn(options: &Options) -> io::Result<Self> {
        // What the guardian leaves behind if it dies falls to us.
        set_child_subreaper(Some(getpid()))?;
        // Heard from the first moment on.
        let children = signal(SignalKind::child())?;
        let (mut line, theirs) = Line::open()?;
        let home = Process::own()?.group;
        let hello = ToGuardian::Hello(Hello {
            isolate: options.isolate,
            life: options.life.is_some(),
            terminal_home: options.terminal.as_ref().map(|_| home),
        });
        let files: Vec<BorrowedFd<'_>> =
            options.life.iter().chain(&options.terminal).map(AsFd::as_fd).collect();
        line.post.send_with(&hello, &files)?;
        let terminal = options.terminal.as_ref().map(OwnedFd::try_clone).transpose()?;
        let pid = Pid::from_child(&again(THIS_PROGRAM, super::GUARDIAN, theirs, &options.command).spawn()?);
        Ok(Self {
            pid,
            pidfd: pidfd_open(pid, PidfdFlags::empty())?,
            line,
            children,
            terminal: terminal.and_then(|file| Terminal::new(file, home)),
            latency: options.latency,
            isolation: String::new(),
            cgroup: None,
            reports: VecDeque::new(),
            term: 0,
            ending: None,
            stopped: false,
            must_stop: Moment::FAR,
            overdue: None,
            unacknowledged: None,
            takeover: None,
            is_over: false,
        })
    }

    async fn first_answer(&mut self) -> Result<(), GuardianError> {
        let patience = SystemClock.sleep_until(alarm::now().plus(START_PATIENCE));
        tokio::select! {
            biased;
            mail = self.line.receive() => match mail {
                Mail::Message(FromGuardian::Ready { isolation, cgroup }, _) => {
                    self.isolation = isolation;
                    self.cgroup = cgroup.map(Cgroup::at);
                    Ok(())
                }
                Mail::Message(FromGuardian::Failed { reason }, _) => Err(GuardianError::Isolation(reason)),
                _ => Err(GuardianError::Silent),
            },
            () = patience => Err(GuardianError::Silent),
        }
    }

    /// Says in words how the command's processes are kept together.
    pub(crate) fn isolation(&self) -> &str {
        &self.isolation
    }

    /// Starts the command. One at a time: the last one must be gone.
    pub(crate) fn begin(&mut self, order: Order) {
        let Order { term, env, deadline, must_stop, record } = order;
        (self.term, self.ending, self.stopped, self.must_stop) = (term, None, false, must_stop);
        self.expect_gone_by(must_stop);
        self.order(&ToGuardian::Start { term, env, deadline, must_stop, record });
    }

    /// Moves deadline and must-stop, after a renewal. Without effect once the command is being stopped.
    pub(crate) fn extend(&mut self, deadline: Moment, must_stop: Moment) {
        let now = alarm::now();
        self.drain();
        if self.unacknowledged.is_some_and(|since| now.time_since(since) > ACKNOWLEDGEMENT_PATIENCE) {
            self.condemn();
            return;
        }
        // After an order to stop it is the order's time that counts.
        if self.overdue == Some(self.grace_after(self.must_stop)) {
            self.expect_gone_by(must_stop);
        }
        self.must_stop = must_stop;
        self.unacknowledged.get_or_insert(now);
        self.order(&ToGuardian::Extend { term: self.term, deadline, must_stop });
    }

    /// Stops the command: SIGTERM now to all of its processes, SIGKILL at `kill_at`, at the latest at must-stop.
    pub(crate) fn stop(&mut self, kill_at: Moment) {
        self.hurry(kill_at);
        self.order(&ToGuardian::Stop { kill_at });
    }

    /// Kills the command now.
    pub(crate) fn kill(&mut self) {
        self.hurry(alarm::now());
        self.order(&ToGuardian::Kill);
    }

    /// Passes a signal on to the command's process group.
    pub(crate) fn forward(&mut self, signal: i32) {
        self.order(&ToGuardian::Signal { signal });
    }

    /// Says that the successful end is recorded, so that the guardian need not.
    pub(crate) fn recorded(&mut self) {
        self.order(&ToGuardian::Recorded);
    }

    /// Waits for what happens next; may be dropped and called again. It must be waited for all the time: only here is it
    /// noticed that the guardian has died.
    pub(crate) async fn report(&mut self) -> Report {
        loop {
            if let Some(report) = self.reports.pop_front() {
                return report;
            }
            if self.is_over {
                std::future::pending::<()>().await;
            } else if self.takeover.is_some() {
                self.take_over().await;
            } else {
                self.listen().await;
            }
        }
    }

    /// Dismisses the guardian and waits until it has exited. Only when nothing runs below it.
    pub(crate) async fn close(mut self) {
        self.line.post.finish();
        let patience = SystemClock.sleep_until(alarm::now().plus(CLOSE_PATIENCE));
        tokio::select! {
            biased;
            () = self.line.ended() => {}
            () = patience => drop(pidfd_send_signal(&self.pidfd, Signal::KILL)),
        }
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }

    async fn listen(&mut self) {
        let overdue = self.overdue.unwrap_or(Moment::FAR);
        tokio::select! {
            biased;
            mail = self.line.receive() => match mail {
                Mail::Message(message, _) => self.note(message),
                Mail::End => self.condemn(),
            },
            _ = self.children.recv() => {
                if is_stopped(self.pid) {
                    self.condemn();
                }
            }
            () = SystemClock.sleep_until(overdue) => {
                // If we were stopped ourselves it may have said long ago that it is at work, or done.
                self.drain();
                if self.overdue.is_some_and(|overdue| overdue.has_passed(alarm::now())) {
                    self.condemn();
                }
            }
        }
    }

    fn note(&mut self, message: FromGuardian) {
        match message {
            FromGuardian::Ready { .. } => {}
            // It exits.
            FromGuardian::Failed { .. } => self.condemn(),
            FromGuardian::Acknowledged => self.unacknowledged = None,
            FromGuardian::Started { pid } => self.reports.push_back(Report::Started { pid }),
            FromGuardian::Stopped { signal } => self.reports.push_back(Report::Stopped { signal }),
            FromGuardian::Ended { ending, stopped } => {
                (self.ending, self.stopped) = (Some(ending.clone()), stopped);
                self.reports.push_back(Report::Ended(ending));
            }
            FromGuardian::Killing => self.overdue = Some(alarm::now().plus(KILLING_PATIENCE)),
            FromGuardian::Unkillable { left } => self.reports.push_back(Report::Unkillable(left)),
            FromGuardian::Gone => {
                self.overdue = None;
                self.report_gone(false);
            }
        }
    }

    /// Reads what has arrived, without waiting.
    fn drain(&mut self) {
        while let Some(Mail::Message(message, _)) = self.line.post.receive() {
            self.note(message);
        }
    }

    fn order(&mut self, order: &ToGuardian) {
        if self.takeover.is_some() {
            return;
        }
        self.line.post.send(order);
        // Two hundred kilobytes that it has not read.
        if self.line.post.is_congested() {
            self.condemn();
        }
    }

    fn hurry(&mut self, kill_at: Moment) {
        // Until the guardian says how it ended, and whether the order came before that.
        self.stopped |= self.ending.is_none();
        // Nothing runs, or it is being killed already.
        if let Some(overdue) = self.overdue {
            self.overdue = Some(overdue.earlier_of(self.grace_after(kill_at)));
        }
    }

    fn expect_gone_by(&mut self, moment: Moment) {
        self.overdue = Some(self.grace_after(moment));
    }

    /// Half of the latency is the guardian's, to kill and reap; the other half is left for us to do it.
    fn grace_after(&self, moment: Moment) -> Moment {
        moment.plus(self.latency / 2)
    }

    /// Gives the guardian up: it is dead, stopped, or has not done its duty.
    fn condemn(&mut self) {
        if self.takeover.is_some() {
            return;
        }
        self.takeover = Some(Takeover { killer: Killer::at_once(alarm::now()), empty_rounds: 0 });
        // It cannot do harm any more: whatever it wakes up to later, it does not.
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
        // What it said before counts.
        self.drain();
    }

    /// Kills and reaps in the guardian's place: one round, and the wait for the next.
    async fn take_over(&mut self) {
        let Some(takeover) = &mut self.takeover else { return };
        let now = alarm::now();
        let me = getpid();
        let shares_session = self.terminal.is_some();
        let cgroup = self.cgroup.as_ref();
        // Others, made because a child has ended, are too close to each other to find somebody whom the last one missed.
        let counts = takeover.killer.next().has_passed(now);
        let found = takeover.killer.round(now, me, cgroup, || {
            let strangers = Strangers::new(shares_session)?;
            tree::below(me, |process| strangers.has(process))
        });
        for child in found.iter().flatten().filter(|process| process.parent == me.as_raw_pid()) {
            // One by one, never any child: others belong to whoever started them.
            let _ = waitpid(Some(child.pid), WaitOptions::NOHANG);
        }
        match &found {
            Ok(found) if found.is_empty() => takeover.empty_rounds += u32::from(counts),
            // Somebody is there, or we could not look.
            _ => takeover.empty_rounds = 0,
        }
        let nobody = no_child_at_all() || takeover.empty_rounds >= EMPTY_ROUNDS;
        if nobody && !cgroup.is_some_and(Cgroup::is_populated) {
            self.end_takeover();
            return;
        }
        if let Some(left) = found.ok().and_then(|found| takeover.killer.survivors(now, &found)) {
            self.reports.push_back(Report::Unkillable(left));
        }
        let next = takeover.killer.next();
        tokio::select! {
            biased;
            _ = self.children.recv() => {}
            () = SystemClock.sleep_until(next) => {}
        }
    }

    fn end_takeover(&mut self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        if let Some(terminal) = &self.terminal {
            with_background_writes_blocked(|| terminal.take_back_from_the_dead());
        }
        self.is_over = true;
        self.overdue = None;
        self.report_gone(true);
    }

    fn report_gone(&mut self, guardian_died: bool) {
        let (ending, stopped) = (self.ending.take(), std::mem::take(&mut self.stopped));
        self.reports.push_back(Report::Gone { ending, stopped, guardian_died });
    }
}

/// How many rounds in a row must find nobody while we have other children. One look may miss a process that is born
/// while it looks; without other children the kernel tells exactly.
const EMPTY_ROUNDS: u32 = 3;

/// Our own children and what is below them, such as hooks: they are not the guardian's.
///
/// The guardian has a session of its own, and no descendant of it can ever enter ours. With a terminal it cannot have
/// one; then it is the process group that tells.
struct Strangers {
    group: Option<i32>,
    session: i32,
}

impl Strangers {
    fn new(shares_session: bool) -> io::Result<Self> {
        let own = Process::own()?;
        Ok(Self { group: shares_session.then_some(own.group), session: own.session })
    }

    fn has(&self, process: &Process) -> bool {
        match self.group {
            Some(group) => process.group == group,
            None => process.session == self.session,
        }
    }
}

/// The socket to the guardian. Its end is the guardian's: nobody else has the other end.
struct Line {
    post: Post,
    /// The same socket once more, for the runtime to poll.
    ears: UnixDatagram,
}

impl Line {
    fn open() -> io::Result<(Self, OwnedFd)> {
        let (post, theirs) = Post::pair()?;
        let ears = std::os::unix::net::UnixDatagram::from(post.as_fd().try_clone_to_owned()?);
        ears.set_nonblocking(true)?;
        Ok((Self { post, ears: UnixDatagram::from_std(ears)? }, theirs))
    }

    /// Waits for the next message; may be dropped and called again.
    async fn receive(&mut self) -> Mail<FromGuardian> {
        loop {
            let post = &mut self.post;
            let mail = || post.receive().ok_or_else(|| io::ErrorKind::WouldBlock.into());
            match self.ears.try_io(Interest::READABLE, mail) {
                Ok(mail) => return mail,
                Err(_) if self.post.has_ended() => return Mail::End,
                // Fails only with the runtime itself.
                Err(_) => drop(self.ears.readable().await),
            }
        }
    }

    async fn ended(&mut self) {
        while let Mail::Message(..) = self.receive().await {}
    }
}

fn is_stopped(pid: Pid) -> bool {
    let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), look), Ok(Some(_)))
}

/// Asks the kernel, without reaping anybody.
fn no_child_at_all() -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::All, look).is_err()
}

/// Does something to the terminal that would stop us if we are in the background.
fn with_background_writes_blocked(act: impl FnOnce()) {
    let mut mask = SigSet::empty();
    mask.add(NixSignal::SIGTTOU);
    let before = mask.thread_swap_mask(SigmaskHow::SIG_BLOCK);
    act();
    if let Ok(before) = before {
        let _ = before.thread_set_mask();
    }
}
