//! The guardian: ancestor of everything that the command starts, over all terms. It acts when the wrapper cannot:
//! SIGTERM at the deadline, SIGKILL at must-stop, SIGKILL at once when the wrapper is gone.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, kill_process};
use tenure::clock::Moment;

use super::alarm;
use super::cgroup::Cgroup;
use super::killer::Killer;
use super::post::{Mail, Post};
use super::protocol::{
    Ending, FromGuardian, FromKeeper, Hello, KeeperHello, Surroundings, ToGuardian, ToKeeper,
};
use super::supervisor::{
    Child, NoChild, Supervisor, THIS_PROGRAM, again, next_child, own_command, survive_memory_shortage,
};
use super::terminal::Terminal;
use super::tree::{self, Process};
use crate::args::Isolate;
use crate::exit;

/// How long the keeper may take to exit once nobody but it lives below us; then it is killed too. Its last act is a
/// wait that answers at once, so that this pays for a loaded machine.
const KEEPER_PATIENCE: Duration = Duration::from_millis(100);

pub(super) fn main() -> ExitCode {
    // Whoever fails here is gone, and the wrapper sees it.
    match Guardian::rise().and_then(Guardian::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(exit::FAILURE),
    }
}

struct Guardian {
    command: Vec<OsString>,
    supervisor: Supervisor,
    wrapper: Post,
    /// Open until we exit: while a descendant lives the lease is not free.
    life: Option<OwnedFd>,
    terminal: Option<Terminal>,
    cgroup: Option<Cgroup>,
    keeper_hello: KeeperHello,
    keeper: Option<Keeper>,
    told_ready: bool,
    term: Option<Term>,
    killer: Option<Killer>,
    /// Since when nobody but the keeper has lived below us, while we kill.
    alone_since: Option<Moment>,
}

struct Keeper {
    pid: Pid,
    post: Post,
    is_ready: bool,
}

/// One run of the command; stays until the next, for what may have to be recorded.
struct Term {
    number: u64,
    deadline: Moment,
    must_stop: Moment,
    started: Option<i32>,
    /// Once set it stays: no extension is heeded any more.
    kill_at: Option<Moment>,
    terminated: bool,
    ending: Option<Ending>,
    /// Whether it was being stopped before it ended: an end that looks successful is none then.
    stopped: bool,
    is_gone: bool,
    /// What the recorder needs if the command ends well and the wrapper cannot record it.
    record: Option<serde_json::Value>,
}

impl Guardian {
    fn rise() -> io::Result<Self> {
        let (mut supervisor, blocked) = Supervisor::rise(c"tenure-guardian")?;
        let mut wrapper = Post::from_stdin()?;
        let (hello, files) = first_message(&mut supervisor, &mut wrapper)?;
        let mut files = files.into_iter();
        let life = if hello.life { files.next() } else { None };
        let terminal =
            hello.terminal_home.zip(files.next()).and_then(|(home, file)| Terminal::new(file, home));
        leave_wrappers_group(terminal.is_some())?;
        let oom_score = survive_memory_shortage();
        let cgroup = if hello.isolate == Isolate::Auto { Cgroup::create() } else { None };
        let surroundings = Surroundings {
            cgroup: cgroup.as_ref().map(|cgroup| cgroup.path().to_owned()),
            oom_score,
            blocked,
        };
        let keeper_hello = KeeperHello {
            namespace: hello.isolate == Isolate::On,
            life: life.is_some(),
            terminal_home: hello.terminal_home,
            surroundings,
        };
        let mut guardian = Self {
            command: own_command(),
            supervisor,
            wrapper,
            life,
            terminal,
            cgroup,
            keeper_hello,
            keeper: None,
            told_ready: false,
            term: None,
            killer: None,
            alone_since: None,
        };
        guardian.engage_keeper()?;
        Ok(guardian)
    }

    /// Starts a keeper for the next term, before it is needed.
    fn engage_keeper(&mut self) -> io::Result<()> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.make_anew();
        }
        let (mut post, theirs) = Post::pair()?;
        let files: Vec<BorrowedFd<'_>> =
            self.life.iter().map(AsFd::as_fd).chain(self.terminal.iter().map(AsFd::as_fd)).collect();
        post.send_with(&ToKeeper::Hello(self.keeper_hello.clone()), &files)?;
        let child = again(THIS_PROGRAM, super::KEEPER, theirs, &self.command).spawn()?;
        self.keeper = Some(Keeper { pid: Pid::from_child(&child), post, is_ready: false });
        Ok(())
    }

    /// Returns when the wrapper is gone and everybody below us too.
    fn run(mut self) -> io::Result<()> {
        loop {
            let now = alarm::now();
            let mut posts = vec![&self.wrapper];
            posts.extend(self.keeper.as_ref().map(|keeper| &keeper.post));
            self.supervisor.wait(self.next_look(), now, &posts)?;
            let now = alarm::now();
            self.hear_wrapper(now);
            self.hear_keeper();
            let nobody_left = self.reap(now)?;
            self.keep_time(now);
            if nobody_left {
                self.end_term()?;
                if self.wrapper.has_ended() {
                    return self.leave(now);
                }
            } else {
                self.kill(now);
            }
        }
    }

    /// Tells when there is something to do if nobody says anything. An idle guardian sleeps.
    fn next_look(&self) -> Option<Moment> {
        if let Some(killer) = &self.killer {
            return Some(killer.next());
        }
        let term = self.term.as_ref().filter(|term| !term.is_gone)?;
        Some(term.kill_at.map_or(term.deadline, |kill_at| kill_at.earlier_of(term.must_stop)))
    }

    fn hear_wrapper(&mut self, now: Moment) {
        self.wrapper.flush();
        while let Some(mail) = self.wrapper.receive() {
            match mail {
                Mail::Message(order, _) => self.heed(order, now),
                // The wrapper is gone, and with it everybody who may renew: no drain.
                Mail::End => self.begin_to_kill(now),
            }
        }
    }

    fn heed(&mut self, order: ToGuardian, now: Moment) {
        match order {
            ToGuardian::Hello(_) => {}
            ToGuardian::Start { .. } if self.running_term().is_some() => {}
            ToGuardian::Start { term, env, deadline, must_stop, record } => {
                let mut term = Term::new(term, deadline, must_stop, record);
                match &mut self.keeper {
                    // Seen here the command need not even be tried; the stub looks again.
                    _ if deadline.has_passed(now) => {
                        self.wrapper.send(&FromGuardian::Ended { ending: Ending::Late, stopped: false });
                        self.wrapper.send(&FromGuardian::Gone);
                        (term.ending, term.is_gone) = (Some(Ending::Late), true);
                    }
                    Some(keeper) => keeper.post.send(&ToKeeper::Start { env, deadline, must_stop }),
                    None => {}
                }
                self.term = Some(term);
            }
            ToGuardian::Extend { term: number, deadline, must_stop } => {
                if let Some(term) = self.term.as_mut().filter(|term| term.number == number) {
                    // A deadline that has passed, seen or not, is not raised any more.
                    if term.kill_at.is_none() && !term.deadline.has_passed(now) {
                        (term.deadline, term.must_stop) = (deadline, must_stop);
                        if let Some(keeper) = self.keeper.as_mut().filter(|_| !term.is_gone) {
                            keeper.post.send(&ToKeeper::Extend { must_stop });
                        }
                    }
                }
                self.wrapper.send(&FromGuardian::Acknowledged);
            }
            ToGuardian::Stop { kill_at } => {
                if let Some(term) = self.running_term() {
                    term.stop_by(kill_at);
                }
            }
            ToGuardian::Kill => {
                if let Some(term) = self.running_term() {
                    term.stop_by(now);
                    self.begin_to_kill(now);
                }
            }
            ToGuardian::Signal { signal } => {
                if self.running_term().is_some()
                    && let Some(keeper) = &mut self.keeper
                {
                    keeper.post.send(&ToKeeper::Signal { signal });
                }
            }
            ToGuardian::Recorded => {
                if let Some(term) = &mut self.term {
                    term.record = None;
                }
            }
        }
    }

    fn hear_keeper(&mut self) {
        while let Some(keeper) = &mut self.keeper {
            keeper.post.flush();
            match keeper.post.receive() {
                Some(Mail::Message(FromKeeper::Ready { isolation }, _)) => {
                    keeper.is_ready = true;
                    if !std::mem::replace(&mut self.told_ready, true) {
                        let cgroup = self.cgroup.as_ref().map(|cgroup| cgroup.path().to_owned());
                        self.wrapper.send(&FromGuardian::Ready { isolation, cgroup });
                    }
                }
                Some(Mail::Message(FromKeeper::Failed { reason }, _)) => {
                    self.wrapper.send(&FromGuardian::Failed { reason });
                }
                Some(Mail::Message(FromKeeper::Started { pid }, _)) => {
                    // One that ended before it was looked for is named by its keeper.
                    let pid = pid.unwrap_or(keeper.pid.as_raw_pid());
                    if let Some(term) = self.running_term() {
                        term.started = Some(pid);
                        self.wrapper.send(&FromGuardian::Started { pid });
                    }
                }
                Some(Mail::Message(FromKeeper::Stopped { signal }, _)) => {
                    self.wrapper.send(&FromGuardian::Stopped { signal });
                }
                Some(Mail::Message(FromKeeper::Ended(ending), _)) => self.note_ending(ending),
                // It is about to exit, or has: that is when it counts as gone.
                Some(Mail::End) | None => return,
            }
        }
    }

    /// Reaps who can be reaped; true if nobody is left below us.
    fn reap(&mut self, now: Moment) -> io::Result<bool> {
        loop {
            match next_child() {
                Ok(Some(child)) => self.note(child, now)?,
                Ok(None) => return Ok(false),
                Err(NoChild) => return Ok(true),
            }
        }
    }

    fn note(&mut self, child: Child, now: Moment) -> io::Result<()> {
        let keeper = self.keeper.as_ref().map(|keeper| keeper.pid);
        match child {
            Child::Stopped(pid, _) if Some(pid) == keeper => {
                // A keeper that is stopped keeps nobody. We have not reaped it: the number is its own.
                let _ = kill_process(pid, Signal::KILL);
            }
            Child::Ended(pid, _) if Some(pid) == keeper => {
                self.hear_keeper();
                self.keeper_has_ended(now)?;
            }
            // It fell to us because the keeper is gone.
            Child::Ended(pid, ending) => {
                let main = self.term.as_ref().and_then(|term| term.started);
                if main == Some(pid.as_raw_pid()) {
                    self.note_ending(ending);
                }
            }
            Child::Stopped(..) => {}
        }
        Ok(())
    }

    fn keeper_has_ended(&mut self, now: Moment) -> io::Result<()> {
        let was_ready = self.keeper.take().is_some_and(|keeper| keeper.is_ready);
        if self.running_term().is_some() || self.wrapper.has_ended() {
            // What it has not reaped falls to us.
            self.begin_to_kill(now);
            return Ok(());
        }
        if was_ready { self.engage_keeper() } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    fn note_ending(&mut self, ending: Ending) {
        if let Some(term) = self.running_term().filter(|term| term.ending.is_none()) {
            let stopped = term.kill_at.is_some();
            (term.ending, term.stopped) = (Some(ending.clone()), stopped);
            self.wrapper.send(&FromGuardian::Ended { ending, stopped });
        }
    }

    /// Does what the clock demands.
    fn keep_time(&mut self, now: Moment) {
        let Some(term) = self.running_term() else { return };
        if term.deadline.has_passed(now) {
            term.stop_by(term.must_stop);
        }
        let Some(kill_at) = term.kill_at else { return };
        if kill_at.earlier_of(term.must_stop).has_passed(now) {
            self.begin_to_kill(now);
        } else if term.started.is_some() && !std::mem::replace(&mut term.terminated, true) {
            // Not before it has started: a stub would take the signal for its own end, or lose it.
            self.terminate();
        }
    }

    fn terminate(&self) {
        let me = getpid();
        // If nobody can be looked for, there is still SIGKILL.
        for process in self.descendants(me).unwrap_or_default() {
            // Whoever is stopped gets SIGTERM only when it goes on.
            for signal in [Signal::TERM, Signal::CONT] {
                // Whoever is gone needs no signal; whoever may not be signalled is killed later, or said to survive.
                let _ = process.signal(me, signal);
            }
        }
    }

    /// Finds all below us but the keeper, which reaps.
    fn descendants(&self, me: Pid) -> io::Result<Vec<Process>> {
        let keeper = self.keeper.as_ref().map(|keeper| keeper.pid);
        let mut found = tree::below(me, |_| false)?;
        found.retain(|process| Some(process.pid) != keeper);
        Ok(found)
    }

    fn begin_to_kill(&mut self, now: Moment) {
        if self.killer.is_some() {
            return;
        }
        self.wrapper.offer(&FromGuardian::Killing);
        self.killer = Some(match &self.keeper {
            // It is nearer, and takes the end of our orders for the order to kill.
            Some(keeper) => {
                keeper.post.finish();
                Killer::after_blow(now)
            }
            None => Killer::at_once(now),
        });
    }

    /// Makes a round if one is due.
    fn kill(&mut self, now: Moment) {
        let Some(mut killer) = self.killer.take_if(|killer| killer.next().has_passed(now)) else { return };
        let me = getpid();
        let found = killer.round(now, me, self.cgroup.as_ref(), || self.descendants(me));
        self.wrapper.offer(&FromGuardian::Killing);
        if let Some(left) = found.as_ref().ok().and_then(|found| killer.survivors(now, found)) {
            self.wrapper.offer(&FromGuardian::Unkillable { left });
        }
        self.killer = Some(killer);
        if found.map_or(true, |found| found.iter().any(|process| process.lives)) {
            self.alone_since = None;
        } else if now.time_since(*self.alone_since.get_or_insert(now)) >= KEEPER_PATIENCE
            && let Some(keeper) = &self.keeper
        {
            // Not reaped: the number is its own.
            let _ = kill_process(keeper.pid, Signal::KILL);
        }
    }

    /// Closes the term: everybody below us is reaped, the keeper too.
    fn end_term(&mut self) -> io::Result<()> {
        (self.killer, self.alone_since) = (None, None);
        let Some(term) = self.running_term() else { return Ok(()) };
        term.is_gone = true;
        if let Some(terminal) = &self.terminal {
            terminal.take_back_from_the_dead();
        }
        self.wrapper.send(&FromGuardian::Gone);
        if self.wrapper.has_ended() { Ok(()) } else { self.engage_keeper() }
    }

    /// Leaves the world as we found it, with the end of the command recorded. The life file is closed last, when we
    /// are dropped.
    fn leave(self, now: Moment) -> io::Result<()> {
        if let Some(cgroup) = &self.cgroup {
            cgroup.remove();
        }
        match self.term {
            Some(Term {
                ending: Some(Ending::Code(0)),
                stopped: false,
                record: Some(record),
                must_stop,
                ..
            }) if !must_stop.has_passed(now) => record_end(self.supervisor, &record, must_stop),
            _ => Ok(()),
        }
    }

    fn running_term(&mut self) -> Option<&mut Term> {
        self.term.as_mut().filter(|term| !term.is_gone)
    }
}

impl Term {
    fn new(number: u64, deadline: Moment, must_stop: Moment, record: Option<serde_json::Value>) -> Self {
        Self {
            number,
            deadline,
            must_stop,
            started: None,
            kill_at: None,
            terminated: false,
            ending: None,
            stopped: false,
            is_gone: false,
            record,
        }
    }

    /// Begins to stop, or hurries: what was said before holds if it is earlier.
    fn stop_by(&mut self, kill_at: Moment) {
        self.kill_at = Some(self.kill_at.map_or(kill_at, |before| before.earlier_of(kill_at)));
    }
}

/// Waits for what the wrapper says first.
fn first_message(supervisor: &mut Supervisor, wrapper: &mut Post) -> io::Result<(Hello, Vec<OwnedFd>)> {
    loop {
        match wrapper.receive() {
            Some(Mail::Message(ToGuardian::Hello(hello), files)) => return Ok((hello, files)),
            Some(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => supervisor.wait(None, alarm::now(), &[wrapper])?,
        }
    }
}

/// Whatever is done to the wrapper's group, such as Ctrl-Z, is not done to us. A command that gets the terminal must
/// stay in its session.
fn leave_wrappers_group(keeps_terminal: bool) -> io::Result<()> {
    if keeps_terminal {
        rustix::process::setpgid(None, None)?;
    } else {
        rustix::process::setsid()?;
    }
    Ok(())
}

/// Records that the command ended well, as the wrapper would have; at most until `must_stop`.
fn record_end(mut supervisor: Supervisor, record: &serde_json::Value, must_stop: Moment) -> io::Result<()> {
    let mut recorder =
        Command::new(THIS_PROGRAM).arg(super::RECORD).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    if let Some(mut input) = recorder.stdin.take() {
        // Less than a pipe holds, so that nobody waits; if it is not read, nothing is recorded.
        let _ = input.write_all(&serde_json::to_vec(record)?);
    }
    loop {
        match next_child() {
            Err(NoChild) => return Ok(()),
            Ok(Some(_)) => continue,
            Ok(None) => {}
        }
        let now = alarm::now();
        if must_stop.has_passed(now) {
            recorder.kill()?;
        }
        supervisor.wait(Some(must_stop).filter(|moment| !moment.has_passed(now)), now, &[])?;
    }
}
