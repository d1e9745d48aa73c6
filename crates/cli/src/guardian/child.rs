//! The command itself, from the stub that becomes it to its end. Used by the keeper, or by the init of its namespace.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, getpid, kill_process_group};
use tenure::clock::Moment;

use super::post::{Mail, Post};
use super::protocol::{Ending, FromStub, Surroundings, ToStub};
use super::supervisor::{THIS_PROGRAM, again, own_command};
use super::terminal::bring_forward;

/// The command, in a process group of its own; at first a stub that waits to become it.
pub(super) struct MainChild {
    pub(super) pid: Pid,
    stub: Post,
    told_to_go: bool,
    /// Why the stub did not become the command.
    failure: Option<Ending>,
}

/// What is heard of the stub.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// It waits for the word.
    Ready,
    /// It has become the command.
    Started,
}

impl MainChild {
    /// Starts the stub, before it is needed.
    pub(super) fn prepare(surroundings: Surroundings, terminal: Option<BorrowedFd<'_>>) -> io::Result<Self> {
        let (mut stub, theirs) = Post::pair()?;
        let parent = getpid().as_raw_pid();
        stub.send_with(&ToStub::Prepare { parent, surroundings }, terminal.as_slice())?;
        // Its group is there before it runs: a signal to the group never misses it.
        let child = again(THIS_PROGRAM, super::STUB, theirs, &own_command()).process_group(0).spawn()?;
        Ok(Self { pid: Pid::from_child(&child), stub, told_to_go: false, failure: None })
    }

    /// Lets the stub become the command.
    pub(super) fn go(&mut self, env: Vec<(String, String)>, deadline: Moment, foreground: bool) {
        self.told_to_go = true;
        self.stub.send(&ToStub::Go { env, deadline, foreground });
    }

    /// Returns the socket to the stub.
    pub(super) fn post(&self) -> &Post {
        &self.stub
    }

    /// Reads what the stub says. Exec closes the socket, so that success is silence and the end of file.
    pub(super) fn hear(&mut self) -> Option<News> {
        loop {
            match self.stub.receive()? {
                Mail::Message(FromStub::Ready, _) => return Some(News::Ready),
                Mail::Message(FromStub::Failed(failure), _) => self.failure = Some(failure),
                Mail::End => return (self.told_to_go && self.failure.is_none()).then_some(News::Started),
            }
        }
    }

    /// Says how it ended, given what the kernel says. Everything has been heard.
    pub(super) fn ended(&mut self, ending: Ending) -> Ending {
        self.failure.take().unwrap_or(ending)
    }

    /// Passes a signal on to its process group, which becomes the foreground of the terminal first, if one is given:
    /// a command that is continued in the background would stop again.
    pub(super) fn signal(&self, signal: i32, terminal: Option<BorrowedFd<'_>>) {
        if let Some(terminal) = terminal {
            bring_forward(terminal, self.pid);
        }
        if let Some(signal) = Signal::from_named_raw(signal) {
            // We have not reaped it yet, so that the group is its own.
            let _ = kill_process_group(self.pid, signal);
        }
    }
}
