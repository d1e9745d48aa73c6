//! The stub: puts everything back as the wrapper had it, waits for the word, looks at the clock, and becomes the command.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::signal::{SigSet, Signal as NixSignal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{Timespec, poll};
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use super::alarm;
use super::cgroup::Cgroup;
use super::post::{Mail, Post};
use super::protocol::{Ending, FromStub, Surroundings, ToStub};
use super::supervisor::{own_command, set_oom_score};
use super::terminal::bring_forward;
use crate::exit;

/// Entering a control group takes the kernel some ten milliseconds. If the word comes sooner than this it goes first: the
/// election was free, and the keeper lets the command enter while it runs.
const HASTE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

pub(super) fn main() -> ExitCode {
    // For people who look at a list of processes; the command gets its own name by exec.
    let _ = rustix::thread::set_name(c"tenure-stub");
    // Without the socket nobody is there to be told.
    if let Ok(mut post) = Post::from_stdin() {
        let failure = become_command(&mut post);
        post.send(&FromStub::Failed(failure));
    }
    // Only to be seen in a list of processes: the message is what counts.
    ExitCode::from(exit::FAILURE)
}

/// Returns only if it fails.
fn become_command(post: &mut Post) -> Ending {
    let not_started = |error: io::Error| Ending::NotStarted { reason: error.to_string() };
    let (surroundings, terminal) = match prepare(post) {
        Ok(prepared) => prepared,
        Err(error) => return not_started(error),
    };
    post.send(&FromStub::Ready);
    if let Some(path) = &surroundings.cgroup
        && !is_spoken_to_within(post, HASTE)
    {
        // Not the only means: without it the walk over all descendants remains.
        let _ = Cgroup::at(path.clone()).enter();
    }
    let (env, deadline, foreground) = match next_order(post) {
        Ok((ToStub::Go { env, deadline, foreground }, _)) => (env, deadline, foreground),
        Ok(_) => return not_started(io::ErrorKind::InvalidData.into()),
        Err(error) => return not_started(error),
    };
    if let Err(error) = forget_signals() {
        return not_started(error);
    }
    if let Some(terminal) = terminal.filter(|_| foreground) {
        // All signals are still blocked, SIGTTOU too.
        bring_forward(&terminal, getpid());
    }
    let mut words = own_command().into_iter();
    let program = words.next().unwrap_or_default();
    let mut command = Command::new(&program);
    command.args(words).envs(env);
    // The wrapper speaks to the service manager, and for the command, too.
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] {
        command.env_remove(name);
    }
    // The last look: whatever held us up until here, nobody starts late.
    if deadline.has_passed(alarm::now()) {
        return Ending::Late;
    }
    if let Err(error) = restore_signals(&surroundings) {
        return not_started(error);
    }
    let error = command.exec();
    let reason = format!("{}: {error}", program.display());
    match error.kind() {
        io::ErrorKind::NotFound => Ending::NotFound { reason },
        _ => Ending::NotExecutable { reason },
    }
}

/// Does all that can be done before the word comes.
fn prepare(post: &mut Post) -> io::Result<(Surroundings, Option<OwnedFd>)> {
    let (ToStub::Prepare { parent, surroundings }, files) = next_order(post)? else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // If it died before we asked to die with it, we are an orphan of somebody else now.
    if getppid().map(Pid::as_raw_pid) != Some(parent) {
        return Err(io::Error::other("its parent has gone"));
    }
    if let Some(score) = surroundings.oom_score {
        set_oom_score(score);
    }
    let terminal = files.into_iter().next();
    // Otherwise it is /dev/null already.
    if let Some(terminal) = &terminal {
        rustix::stdio::dup2_stdin(terminal)?;
    }
    Ok((surroundings, terminal))
}

fn is_spoken_to_within(post: &Post, time: Timespec) -> bool {
    // Fails only after SIGSTOP and SIGCONT: then we are in no haste.
    poll(&mut Vec::from_iter(post.poll_fd()), Some(&time)).is_ok_and(|count| count > 0)
}

fn next_order(post: &mut Post) -> io::Result<(ToStub, Vec<OwnedFd>)> {
    loop {
        match post.receive() {
            Some(Mail::Message(order, files)) => return Ok((order, files)),
            Some(Mail::End) => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {
                // Fails only after SIGSTOP and SIGCONT: look again.
                let _ = poll(&mut Vec::from_iter(post.poll_fd()), None);
            }
        }
    }
}

/// Takes away the signals that have arrived while we waited: they were not meant for a command that did not run yet.
fn forget_signals() -> io::Result<()> {
    let pending = SignalFd::with_flags(&SigSet::all(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    while pending.read_signal()?.is_some() {}
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
