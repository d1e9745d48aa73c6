//! The command itself, from the stub that becomes it to its end. Used by the keeper, or by the init of its namespace.

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;

use rustix::process::{Pid, Signal, kill_process_group};

use super::post::{Mail, Post};
use super::protocol::{Ending, Exec};
use super::supervisor::{THIS_PROGRAM, again};
use super::terminal::bring_forward;

/// The command, in a process group of its own.
pub(super) struct MainChild {
    pub(super) pid: Pid,
    stub: Post,
    /// Why the stub did not become the command.
    failure: Option<Ending>,
}

impl MainChild {
    /// Starts the stub and hands it what it needs.
    pub(super) fn start(
        command: &[OsString],
        exec: &Exec,
        terminal: Option<BorrowedFd<'_>>,
    ) -> io::Result<Self> {
        let (mut stub, theirs) = Post::pair()?;
        // Sent before it is born, so that it never waits for us.
        stub.send_with(exec, terminal.as_slice())?;
        // Its group is there before it runs: a signal to the group never misses it.
        let child = again(THIS_PROGRAM, super::STUB, theirs, command).process_group(0).spawn()?;
        Ok(Self { pid: Pid::from_child(&child), stub, failure: None })
    }

    /// Returns the socket to the stub.
    pub(super) fn post(&self) -> &Post {
        &self.stub
    }

    /// Reads what the stub says; true once, when it has become the command. Exec closes the socket, so that success is
    /// silence and the end of file.
    pub(super) fn has_started(&mut self) -> bool {
        loop {
            match self.stub.receive() {
                Some(Mail::Message(failure, _)) => self.failure = Some(failure),
                Some(Mail::End) => return self.failure.is_none(),
                None => return false,
            }
        }
    }

    /// Says how it ended, given what the kernel says.
    pub(super) fn ended(&mut self, ending: Ending) -> Ending {
        self.has_started();
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
