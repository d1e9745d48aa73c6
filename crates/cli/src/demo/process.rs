//! One candidate's process: `tenure run`, which says in lines of JSON what happens to it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal};
use tokio::sync::mpsc::UnboundedSender;

use super::cast::ELECTION;
use crate::{exit, talk};

const THIS_PROGRAM: &str = "/proc/self/exe";

/// Something came out of a candidate's process.
pub(super) enum Heard {
    Line(String),
    /// The process, its guardian and its command are gone: nobody of them can write any more.
    End,
}

/// Ends with its owner.
pub(super) struct Process {
    child: Child,
}

impl Process {
    /// Starts a candidate that reaches the store at `store`; what it says goes to `ears`, under the number of its seat.
    pub(super) fn start(
        seat: usize,
        store: &Path,
        folder: &Path,
        ttl: Duration,
        ears: UnboundedSender<(usize, Heard)>,
    ) -> io::Result<Self> {
        let mut command = Command::new(THIS_PROGRAM);
        command.arg0("tenure").args(["demo", "--child-of", &getpid().as_raw_nonzero().to_string(), "--"]);
        let ttl = humantime::format_duration(ttl).to_string();
        command.args(["run", "--json", "--election", ELECTION, "--ttl", &ttl, "--store"]);
        // A day: to the eye it never ends.
        command.arg(format!("file://{}", store.display())).args(["--", "sleep", "86400"]);
        // What a killed candidate leaves behind goes with the folder. The rest is meant for us alone.
        command.env("TMPDIR", folder).env_remove("XDG_RUNTIME_DIR");
        command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC").env_remove("WATCHDOG_PID");
        // A group of its own: a signal to ours, such as from a terminal, is for us to handle.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Self { child: command.spawn()? };
        let Some(talk) = process.child.stderr.take() else { return Ok(process) };
        std::thread::Builder::new().name(format!("tenure-ear-{seat}")).spawn(move || {
            for line in BufReader::new(talk).lines().map_while(Result::ok) {
                let _ = ears.send((seat, Heard::Line(line)));
            }
            let _ = ears.send((seat, Heard::End));
        })?;
        Ok(process)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // It is reaped by us alone, so the number is its own; gone already is as good as signalled.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Takes leave of a process that has ended, and tells with which code, 128 + n after signal n.
    pub(super) fn reap(mut self) -> Option<i32> {
        let status = self.child.wait().ok()?;
        status.code().or_else(|| Some(128 + status.signal()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing more is done to one that was reaped. The guardian sees its end, and kills the command.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Becomes a candidate that is killed when `parent` ends, however that happens, and then runs what `args` say.
pub(super) fn become_candidate(parent: i32, args: &[OsString]) -> ExitCode {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        talk::say(&format!("error: cannot be tied to process {parent}: {error}"));
        return ExitCode::from(exit::FAILURE);
    }
    // From here on its end is noticed; it may have come before.
    if getppid() != Pid::from_raw(parent) {
        talk::say(&format!("error: process {parent} is not the parent of this one"));
        return ExitCode::from(exit::FAILURE);
    }
    let error = Command::new(THIS_PROGRAM).arg0("tenure").args(args).exec();
    talk::say(&format!("error: cannot start this program again: {error}"));
    ExitCode::from(exit::FAILURE)
}
