//! The keeper: parent of the command for one term. Whatever ends the command, or whoever above it dies, the keeper
//! kills and reaps all that is left, and exits when nobody is.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{Pid, Signal, getpid};
use tenure::clock::Moment;

use super::alarm;
use super::cgroup::Cgroup;
use super::child::MainChild;
use super::killer::Killer;
use super::namespace::{self, Namespace};
use super::post::{Mail, Post};
use super::protocol::{Ending, Exec, FromKeeper, KeeperHello, Surroundings, ToInit, ToKeeper};
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
    surroundings: Surroundings,
    cgroup: Option<Cgroup>,
    home: Home,
    must_stop: Moment,
    ended: bool,
    killer: Option<Killer>,
}

/// Where the command lives.
enum Home {
    /// Right below us.
    Here(Option<MainChild>),
    /// In a namespace of its own, below its init.
    Namespace { namespace: Namespace, init: Pid, post: Post },
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
        let home = if hello.namespace {
            match settle_in_namespace(&hello.surroundings, terminal.as_ref()) {
                Ok(home) => home,
                Err(reason) => {
                    guardian.send(&FromKeeper::Failed { reason });
                    return Err(io::ErrorKind::Unsupported.into());
                }
            }
        } else {
            let isolation = match &hello.surroundings.cgroup {
                Some(path) => format!("control group {}", path.display()),
                None => "process tree".to_owned(),
            };
            guardian.send(&FromKeeper::Ready { isolation });
            Home::Here(None)
        };
        Ok(Self {
            supervisor,
            guardian,
            _life: life,
            terminal,
            cgroup: hello.surroundings.cgroup.clone().map(Cgroup::at),
            surroundings: hello.surroundings,
            home,
            must_stop: Moment::FAR,
            ended: false,
            killer: None,
        })
    }

    /// Returns when nobody is left to keep.
    fn run(mut self) -> io::Result<()> {
        loop {
            let now = alarm::now();
            let wake = self.killer.as_ref().map_or(self.must_stop, Killer::next);
            self.supervisor.wait(Some(wake), now, &posts(&self.guardian, &self.home))?;
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
                    killer.round(now, me, self.cgroup.as_ref(), || tree::below(me, |_| false));
                }
            }
        }
    }

    /// Clears away what the guardian would, if it is gone.
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
                    self.start(env, deadline, now);
                }
                Mail::Message(ToKeeper::Extend { must_stop }, _) => self.must_stop = must_stop,
                Mail::Message(ToKeeper::Signal { signal }, _) => self.signal(signal),
                Mail::Message(ToKeeper::Hello(_), _) => {}
                Mail::End => self.begin_to_kill(now),
            }
        }
    }

    fn start(&mut self, env: Vec<(String, String)>, deadline: Moment, now: Moment) {
        if self.killer.is_some() {
            return;
        }
        let foreground = self.terminal.as_mut().is_some_and(Terminal::lend);
        match &mut self.home {
            Home::Here(main) => {
                let surroundings = self.surroundings.clone();
                let exec = Exec { parent: getpid().as_raw_pid(), deadline, env, foreground, surroundings };
                match MainChild::start(&own_command(), &exec, self.terminal.as_ref().map(AsFd::as_fd)) {
                    Ok(child) => *main = Some(child),
                    Err(error) => self.end(Ending::NotStarted { reason: error.to_string() }, now),
                }
            }
            Home::Namespace { post, .. } => post.send(&ToInit::Start { env, deadline, foreground }),
        }
    }

    fn signal(&mut self, signal: i32) {
        // Whoever is continued gets the terminal again, if it is ours to give.
        let foreground =
            signal == Signal::CONT.as_raw() && self.terminal.as_mut().is_some_and(Terminal::lend);
        match &mut self.home {
            Home::Here(Some(main)) => {
                main.signal(signal, self.terminal.as_ref().filter(|_| foreground).map(AsFd::as_fd));
            }
            Home::Here(None) => {}
            Home::Namespace { post, .. } => post.send(&ToInit::Signal { signal, foreground }),
        }
    }

    fn hear_home(&mut self, now: Moment) {
        match &mut self.home {
            Home::Here(Some(main)) => {
                if main.has_started() {
                    self.guardian.send(&FromKeeper::Started { pid: Some(main.pid.as_raw_pid()) });
                }
            }
            Home::Here(None) => {}
            Home::Namespace { namespace, init, post } => {
                post.flush();
                let mut endings = Vec::new();
                while let Some(Mail::Message(report, _)) = post.receive() {
                    match report {
                        FromKeeper::Ready { .. } => {
                            let isolation = namespace.in_words().to_owned();
                            self.guardian.send(&FromKeeper::Ready { isolation });
                        }
                        FromKeeper::Started { .. } => {
                            self.guardian.send(&FromKeeper::Started { pid: only_child(*init) });
                        }
                        FromKeeper::Stopped { .. } => {
                            take_back(&mut self.terminal);
                            self.guardian.send(&report);
                        }
                        FromKeeper::Failed { .. } => self.guardian.send(&report),
                        FromKeeper::Ended(ending) => endings.push(ending),
                    }
                }
                for ending in endings {
                    self.end(ending, now);
                }
            }
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
        match (child, &mut self.home) {
            (Child::Ended(pid, ending), Home::Here(Some(main))) if main.pid == pid => {
                if main.has_started() {
                    self.guardian.send(&FromKeeper::Started { pid: Some(pid.as_raw_pid()) });
                }
                let ending = main.ended(ending);
                self.end(ending, now);
            }
            (Child::Stopped(pid, signal), Home::Here(Some(main))) if main.pid == pid => {
                take_back(&mut self.terminal);
                self.guardian.send(&FromKeeper::Stopped { signal });
            }
            (Child::Ended(pid, ending), Home::Namespace { init, .. }) if *init == pid => {
                // What it had to say comes first.
                self.hear_home(now);
                self.end(ending, now);
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
        self.killer.get_or_insert_with(|| Killer::new(now));
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

/// Makes a namespace and its init; it is ready when the init says so.
fn settle_in_namespace(surroundings: &Surroundings, terminal: Option<&Terminal>) -> Result<Home, String> {
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
    Ok(Home::Namespace { namespace, init: Pid::from_child(&init), post })
}

fn posts<'a>(guardian: &'a Post, home: &'a Home) -> Vec<&'a Post> {
    match home {
        Home::Here(main) => main.iter().map(MainChild::post).chain([guardian]).collect(),
        Home::Namespace { post, .. } => vec![post, guardian],
    }
}

fn take_back(terminal: &mut Option<Terminal>) {
    if let Some(terminal) = terminal {
        terminal.take_back();
    }
}

/// Finds the number under which we see the command: when it starts it is the only child of its init.
fn only_child(init: Pid) -> Option<i32> {
    tree::below(init, |_| false).first().map(|process| process.pid.as_raw_pid())
}
