//! The first process of the command's PID namespace: starts it, reaps, and passes its ending on. When it exits the
//! kernel kills everybody else in the namespace, and lets it go only when they are gone.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::process::{Signal, set_parent_process_death_signal};

use super::alarm;
use super::child::{MainChild, News};
use super::namespace;
use super::post::{Mail, Post};
use super::protocol::{Ending, FromKeeper, ToInit};
use super::supervisor::{Child, Supervisor, next_child};
use crate::exit;

pub(super) fn main() -> ExitCode {
    // Whoever fails here is gone, and the keeper says so.
    match Init::rise().and_then(Init::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(exit::FAILURE),
    }
}

struct Init {
    supervisor: Supervisor,
    keeper: Post,
    terminal: Option<OwnedFd>,
    main: Option<MainChild>,
}

impl Init {
    fn rise() -> io::Result<Self> {
        let (supervisor, _) = Supervisor::rise(c"tenure-init")?;
        // If the keeper has died before this, the socket has ended.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let keeper = Post::from_stdin()?;
        Ok(Self { supervisor, keeper, terminal: None, main: None })
    }

    /// Returns when the command has ended or the keeper has gone.
    fn run(mut self) -> io::Result<()> {
        loop {
            let mut posts = vec![&self.keeper];
            posts.extend(self.main.as_ref().map(MainChild::post));
            self.supervisor.wait(None, alarm::now(), &posts)?;
            self.keeper.flush();
            while let Some(mail) = self.keeper.receive() {
                match mail {
                    Mail::Message(order, files) => self.heed(order, files),
                    Mail::End => return Ok(()),
                }
            }
            self.hear_stub();
            while let Ok(Some(child)) = next_child() {
                if let Some(ending) = self.note(child) {
                    self.keeper.send(&FromKeeper::Ended(ending));
                    return Ok(());
                }
            }
        }
    }

    fn heed(&mut self, order: ToInit, mut files: Vec<OwnedFd>) {
        match order {
            ToInit::Furnish { in_user_namespace, surroundings } => {
                self.terminal = files.pop();
                let terminal = self.terminal.as_ref().map(AsFd::as_fd);
                let stub = namespace::furnish(in_user_namespace).and_then(|()| {
                    MainChild::prepare(surroundings, terminal).map_err(|error| error.to_string())
                });
                match stub {
                    Ok(stub) => self.main = Some(stub),
                    Err(reason) => self.keeper.send(&FromKeeper::Failed { reason }),
                }
            }
            ToInit::Start { env, deadline, foreground } => {
                if let Some(main) = &mut self.main {
                    main.go(env, deadline, foreground);
                }
            }
            ToInit::Signal { signal, foreground } => {
                if let Some(main) = &self.main {
                    main.signal(signal, self.terminal.as_ref().filter(|_| foreground).map(AsFd::as_fd));
                }
            }
        }
    }

    fn hear_stub(&mut self) {
        while let Some(news) = self.main.as_mut().and_then(MainChild::hear) {
            self.keeper.send(&match news {
                News::Ready => FromKeeper::Ready { isolation: String::new() },
                News::Started => FromKeeper::Started { pid: None },
            });
        }
    }

    /// Returns how the command ended, if that is what happened.
    fn note(&mut self, child: Child) -> Option<Ending> {
        // What the stub had to say comes first.
        self.hear_stub();
        let main = self.main.as_mut()?;
        match child {
            Child::Ended(pid, ending) if pid == main.pid => Some(main.ended(ending)),
            Child::Stopped(pid, signal) if pid == main.pid => {
                self.keeper.send(&FromKeeper::Stopped { signal });
                None
            }
            _ => None,
        }
    }
}
