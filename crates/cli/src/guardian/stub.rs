//! The stub: puts everything back as the wrapper had it, looks at the clock, and becomes the command.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

use super::alarm;
use super::cgroup::Cgroup;
use super::post::{Mail, Post};
use super::protocol::{Ending, Exec, Surroundings};
use super::supervisor::{own_command, set_oom_score};
use super::terminal::bring_forward;
use crate::exit;

pub(super) fn main() -> ExitCode {
    // Without the socket nobody is there to be told.
    let Ok(mut post) = Post::from_stdin() else { return ExitCode::from(exit::FAILURE) };
    let Some(Mail::Message(exec, files)) = post.receive::<Exec>() else {
        return ExitCode::from(exit::FAILURE);
    };
    let failure = become_command(exec, files);
    post.send(&failure);
    // Only to be seen in a list of processes: the message is what counts.
    ExitCode::from(exit::FAILURE)
}

/// Returns only if it fails.
fn become_command(exec: Exec, files: Vec<OwnedFd>) -> Ending {
    if let Err(error) = prepare(&exec, files) {
        return Ending::NotStarted { reason: error.to_string() };
    }
    let mut words = own_command().into_iter();
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words).envs(exec.env);
    // The wrapper speaks to the service manager, and for the command, too.
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    // The last look: whatever held us up until here, nobody starts late.
    if exec.deadline.has_passed(alarm::now()) {
        return Ending::Late;
    }
    if let Err(error) = restore_signals(&exec.surroundings) {
        return Ending::NotStarted { reason: error.to_string() };
    }
    let error = command.exec();
    let reason = format!("{}: {error}", program.display());
    match error.kind() {
        io::ErrorKind::NotFound => Ending::NotFound { reason },
        _ => Ending::NotExecutable { reason },
    }
}

fn prepare(exec: &Exec, files: Vec<OwnedFd>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If it died before we asked to die with it, we are an orphan of somebody else now.
    if getppid().map(rustix::process::Pid::as_raw_pid) != Some(exec.parent) {
        return Err(io::Error::other("its parent has gone"));
    }
    if let Some(path) = &exec.surroundings.cgroup {
        // Not the only means: without it the walk over all descendants remains.
        let _ = Cgroup::at(path.clone()).enter();
    }
    if let Some(score) = exec.surroundings.oom_score {
        set_oom_score(score);
    }
    match files.into_iter().next() {
        Some(terminal) => {
            if exec.foreground {
                // All signals are still blocked, SIGTTOU too.
                bring_forward(&terminal, getpid());
            }
            rustix::stdio::dup2_stdin(&terminal)?;
        }
        None => rustix::stdio::dup2_stdin(File::open("/dev/null")?)?,
    }
    Ok(())
}

/// Unblocks what the supervisors had blocked. Handlers ended with the wrapper's program, and what its own parent had
/// told it to ignore (`nohup`) the command ignores too.
fn restore_signals(surroundings: &Surroundings) -> io::Result<()> {
    let mut mask = SigSet::empty();
    for signal in surroundings.blocked.iter().filter_map(|signal| NixSignal::try_from(*signal).ok()) {
        mask.add(signal);
    }
    Ok(mask.thread_set_mask()?)
}
