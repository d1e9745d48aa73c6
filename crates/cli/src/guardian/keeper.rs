//! The keeper: parent of the command for one term. Whatever ends the command, or whoever above it dies, the keeper
//! kills and reaps all that is left, and exits when nobody is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{Pid, Signal, getpid, kill_process};
use tenure::clock::Moment;

use super::alarm;
use super::cgroup::Cgroup;
use super::child::{MainChild, News};
use super::killer::Killer;
use super::namespace::{self, Namespace};
use super::post::{Mail, Post};
use super::protocol::{Ending, FromKeeper, KeeperHello, Surroundings, ToInit, ToKeeper};
use super::supervisor::{Child, NoChild, Supervisor, THIS_PROGRAM, again, next_child, own_command};
use super::terminal::Terminal;
use super::tree;
use crate::exit;

pub(super) fn main() -> ExitCode {
    // Whoever fails here is gone, and the guardian sees it.
    match Keeper::rise().and_then(Keeper::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(exit::FAILURE),
    }
}

struct Keeper {
    supervisor: Supervisor,
    guardian: Post,
    /// Open until we exit: while a descendant lives the lease is not free.
    _life: Option<OwnedFd>,
    terminal: Option<Terminal>,
    cgroup: Option<Cgroup>,
    home: Home,
    /// How the command's processes are kept together, in words.
    isolation: String,
    must_stop: Moment,
    ended: bool,
    /// The command, or the init, is reaped: its number may be another one's.
    reaped: bool,
    killer: Option<Killer>,
}

/// Where the command lives.
enum Home {
    /// Right below us.
    Here(MainChild),
    /// In a namespace of its own, below its init.
    Namespace { init: Pid, post: Post },
}

impl Keeper {
    fn rise() -> io::Result<Self> {
        let (mut supervisor, _) = Supervisor::rise(c"tenure-keeper")?;
        let mut guardian = Post::from_stdin()?;
        let (hello, files) = first_message(&mut supervisor, &mut guardian)?;
        // A signal to the guardian's group is none to us.
        rustix::process::setpgid(None, None)?;
        let mut files = files.into_iter();
        let life = if hello.life { files.next() } else { None };
        let terminal =
            hello.terminal_home.zip(files.next()).and_then(|(home, file)| Terminal::new(file, home));
        let settled = if hello.namespace {
            settle_in_namespace(&hello.surroundings, terminal.as_ref())
        } else {
            settle_here(&hello.surroundings, terminal.as_ref())
        };
        let (home, isolation) = match settled {
            Ok(settled) => settled,
            Err(reason) => {
                guardian.send(&FromKeeper::Failed { reason });
                return Err(io::ErrorKind::Unsupported.into());
            }
        };
        Ok(Self {
            supervisor,
            guardian,
            _life: life,
            terminal,
            cgroup: hello.surroundings.cgroup.map(Cgroup::at),
            home,
            isolation,
            must_stop: Moment::FAR,
            ended: false,
            reaped: false,
            killer: None,
        })
    }

    /// Returns when nobody is left to keep.
    fn run(mut self) -> io::Result<()> {
        loop {
            let now = alarm::now();
            let wake = self.killer.as_ref().map_or(self.must_stop, Killer::next);
            self.supervisor.wait(Some(wake), now, &[&self.guardian, self.home.post()])?;
            let now = alarm::now();
            self.hear_guardian(now);
            self.hear_home(now);
            let nobody_left = self.reap(now);
            if self.must_stop.has_passed(now) {
                self.begin_to_kill(now);
            }
            if let Some(killer) = &mut self.killer {
                if nobody_left {
                    self.leave();
                    return Ok(());
                }
                if killer.next().has_passed(now) {
                    let me = getpid();
                    // Whoever could not be looked for is looked for again: it is the kernel that says when all are gone.
                    let _ = killer.round(now, me, self.cgroup.as_ref(), || tree::below(me, |_| false));
                }
            }
        }
    }

    /// Clears away what the guardian would, if it is gone. One that has only ended its orders makes the group anew: it may
    /// die at any moment, so that we do not rely on it.
    fn leave(&self) {
        if let Some(cgroup) = self.cgroup.as_ref().filter(|_| self.guardian.has_ended()) {
            cgroup.remove();
        }
    }

    fn hear_guardian(&mut self, now: Moment) {
        self.guardian.flush();
        while let Some(mail) = self.guardian.receive() {
            match mail {
                Mail::Message(ToKeeper::Start { env, deadline, must_stop }, _) => {
                    self.must_stop = must_stop;
                    self.start(env, deadline);
                }
                Mail::Message(ToKeeper::Extend { must_stop }, _) => self.must_stop = must_stop,
                Mail::Message(ToKeeper::Signal { signal }, _) => self.signal(signal),
                Mail::Message(ToKeeper::Hello(_), _) => {}
                Mail::End => self.begin_to_kill(now),
            }
        }
    }

    fn start(&mut self, env: Vec<(String, String)>, deadline: Moment) {
        if self.killer.is_some() {
            return;
        }
        let foreground = self.terminal.as_mut().is_some_and(Terminal::lend);
        match &mut self.home {
            Home::Here(main) => main.go(env, deadline, foreground),
            Home::Namespace { post, .. } => post.send(&ToInit::Start { env, deadline, foreground }),
        }
    }

    fn signal(&mut self, signal: i32) {
        // The command may be reaped, and its number another one's.
        if self.killer.is_some() {
            return;
        }
        // Whoever is continued gets the terminal again, if it is ours to give.
        let foreground =
            signal == Signal::CONT.as_raw() && self.terminal.as_mut().is_some_and(Terminal::lend);
        match &mut self.home {
            Home::Here(main) => {
                main.signal(signal, self.terminal.as_ref().filter(|_| foreground).map(AsFd::as_fd));
            }
            Home::Namespace { post, .. } => post.send(&ToInit::Signal { signal, foreground }),
        }
    }

    fn hear_home(&mut self, now: Moment) {
        while let Some(report) = self.home.hear() {
            match report {
                FromKeeper::Ready { .. } => {
                    self.guardian.send(&FromKeeper::Ready { isolation: self.isolation.clone() });
                }
                FromKeeper::Stopped { signal } => self.command_stopped(signal),
                FromKeeper::Ended(ending) => self.end(ending, now),
                FromKeeper::Started { .. } => {
                    self.guardian.send(&report);
                    if let (Some(cgroup), Home::Here(main), false) = (&self.cgroup, &self.home, self.reaped) {
                        // Not the only means. What it has started meanwhile stays outside, and is found by the walk.
                        let _ = cgroup.take(main.pid);
                    }
                }
                FromKeeper::Failed { .. } => self.guardian.send(&report),
            }
        }
    }

    fn command_stopped(&mut self, signal: i32) {
        // Without a terminal nobody waits for it in the foreground: whoever stopped it lets it go on.
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back();
            self.guardian.send(&FromKeeper::Stopped { signal });
        }
    }

    /// Reaps who can be reaped; true if nobody is left.
    fn reap(&mut self, now: Moment) -> bool {
        loop {
            match next_child() {
                Ok(Some(child)) => self.note(child, now),
                Ok(None) => return false,
                Err(NoChild) => return true,
            }
        }
    }

    fn note(&mut self, child: Child, now: Moment) {
        self.reaped |= matches!(child, Child::Ended(pid, _) if pid == self.home.pid());
        // What the stub or the init had to say comes first.
        self.hear_home(now);
        match (child, &mut self.home) {
            (Child::Ended(pid, ending), Home::Here(main)) if main.pid == pid => {
                let ending = main.ended(ending);
                self.end(ending, now);
            }
            (Child::Stopped(pid, signal), Home::Here(main)) if main.pid == pid => {
                self.command_stopped(signal);
            }
            (Child::Ended(pid, ending), Home::Namespace { init, .. }) if *init == pid => {
                self.end(ending, now);
            }
            (Child::Stopped(pid, _), Home::Namespace { init, .. }) if *init == pid => {
                // An init that is stopped reaps nobody.
                self.begin_to_kill(now);
            }
            _ => {}
        }
    }

    /// Says how the command ended, the first time, and ends everybody else.
    fn end(&mut self, ending: Ending, now: Moment) {
        if !std::mem::replace(&mut self.ended, true) {
            self.guardian.send(&FromKeeper::Ended(ending));
        }
        self.begin_to_kill(now);
    }

    fn begin_to_kill(&mut self, now: Moment) {
        if self.killer.is_some() {
            return;
        }
        self.killer = Some(if self.ended {
            Killer::at_once(now)
        } else {
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
            self.home.strike();
            Killer::after_blow(now)
        });
    }
}

/// Waits for what the guardian says first.
fn first_message(
    supervisor: &mut Supervisor,
    guardian: &mut Post,
) -> io::Result<(KeeperHello, Vec<OwnedFd>)> {
    loop {
        match guardian.receive() {
            Some(Mail::Message(ToKeeper::Hello(hello), files)) => return Ok((hello, files)),
            Some(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => supervisor.wait(None, alarm::now(), &[guardian])?,
        }
    }
}

impl Home {
    /// Returns the next thing that the stub or the init has to say.
    fn hear(&mut self) -> Option<FromKeeper> {
        match self {
            Self::Here(main) => main.hear().map(|news| match news {
                News::Ready => FromKeeper::Ready { isolation: String::new() },
                News::Started => FromKeeper::Started { pid: Some(main.pid.as_raw_pid()) },
            }),
            Self::Namespace { init, post } => {
                post.flush();
                match post.receive()? {
                    Mail::Message(FromKeeper::Started { .. }, _) => {
                        Some(FromKeeper::Started { pid: only_child(*init) })
                    }
                    Mail::Message(report, _) => Some(report),
                    Mail::End => None,
                }
            }
        }
    }

    /// Kills who can be killed without looking for them. Only while the command, or the init, is not reaped.
    fn strike(&self) {
        match self {
            Self::Here(main) => main.signal(Signal::KILL.as_raw(), None),
            // Not reaped: the number is its own.
            Self::Namespace { init, .. } => drop(kill_process(*init, Signal::KILL)),
        }
    }

    fn pid(&self) -> Pid {
        match self {
            Self::Here(main) => main.pid,
            Self::Namespace { init, .. } => *init,
        }
    }

    fn post(&self) -> &Post {
        match self {
            Self::Here(main) => main.post(),
            Self::Namespace { post, .. } => post,
        }
    }
}

/// Starts the stub right below us. Returns also in words how its processes are kept together.
fn settle_here(surroundings: &Surroundings, terminal: Option<&Terminal>) -> Result<(Home, String), String> {
    let main = MainChild::prepare(surroundings.clone(), terminal.map(AsFd::as_fd))
        .map_err(|error| format!("the command's process cannot be started: {error}"))?;
    let isolation = match &surroundings.cgroup {
        Some(path) => format!("control group {}", path.display()),
        None => "process tree".to_owned(),
    };
    Ok((Home::Here(main), isolation))
}

/// Makes a namespace and its init, which starts the stub.
fn settle_in_namespace(
    surroundings: &Surroundings,
    terminal: Option<&Terminal>,
) -> Result<(Home, String), String> {
    let namespace = namespace::found()?;
    let refuse =
        |error: io::Error| format!("the first process of a PID namespace cannot be started: {error}");
    let (mut post, theirs) = Post::pair().map_err(refuse)?;
    let furnish = ToInit::Furnish {
        in_user_namespace: namespace == Namespace::InUserNamespace,
        surroundings: surroundings.clone(),
    };
    let terminal = terminal.map(AsFd::as_fd);
    post.send_with(&furnish, terminal.as_slice()).map_err(refuse)?;
    let init = again(THIS_PROGRAM, super::INIT, theirs, &own_command()).spawn().map_err(refuse)?;
    Ok((Home::Namespace { init: Pid::from_child(&init), post }, namespace.in_words().to_owned()))
}

/// Finds the number under which we see the command: when it starts it is the only child of its init.
fn only_child(init: Pid) -> Option<i32> {
    tree::below(init, |_| false).ok()?.first().map(|process| process.pid.as_raw_pid())
}
