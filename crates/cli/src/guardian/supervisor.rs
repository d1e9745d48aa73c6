//! What guardian, keeper and init have in common: one thread, deaf to signals, deathbed of orphans.

use std::ffi::{CStr, OsString};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};
use tenure::clock::Moment;

use super::alarm::Alarm;
use super::post::Post;
use super::protocol::Ending;

/// This very program, also if its file was replaced meanwhile.
pub(super) const THIS_PROGRAM: &str = "/proc/self/exe";

/// The ears of a supervisor: everything else it learns by messages.
pub(super) struct Supervisor {
    children: SignalFd,
    alarm: Alarm,
}

impl Supervisor {
    /// Makes the calling process a supervisor. Returns also which signals were blocked before.
    pub(super) fn rise(name: &CStr) -> io::Result<(Self, Vec<i32>)> {
        // Before anything else: from here on nothing but SIGKILL and SIGSTOP reaches us.
        let before = SigSet::thread_get_mask()?;
        SigSet::all().thread_block()?;
        // For people who look at a list of processes.
        rustix::thread::set_name(name)?;
        set_child_subreaper(Some(getpid()))?;
        let mut child = SigSet::empty();
        child.add(Signal::SIGCHLD);
        let children = SignalFd::with_flags(&child, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let blocked = before.iter().map(|signal| signal as i32).collect();
        Ok((Self { children, alarm: Alarm::open()? }, blocked))
    }

    /// Sleeps until a message, a child or the moment comes; wakes for nothing else.
    pub(super) fn wait(&mut self, until: Option<Moment>, now: Moment, posts: &[&Post]) -> io::Result<()> {
        self.alarm.set(until, now)?;
        let mut ears = vec![
            PollFd::new(&self.children, PollFlags::IN),
            PollFd::from_borrowed_fd(std::os::fd::AsFd::as_fd(&self.alarm), PollFlags::IN),
        ];
        ears.extend(posts.iter().filter_map(|post| post.poll_fd()));
        match poll(&mut ears, None) {
            // After SIGSTOP and SIGCONT.
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        drop(ears);
        self.alarm.hear();
        while self.children.read_signal()?.is_some() {}
        Ok(())
    }
}

/// What became of a child.
pub(super) enum Child {
    Stopped(Pid, i32),
    Ended(Pid, Ending),
}

/// Takes the next news of a child; `Err(NoChild)` if there is no child left, and hence, for a subreaper, no descendant.
pub(super) fn next_child() -> Result<Option<Child>, NoChild> {
    match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
        Ok(None) => Ok(None),
        Ok(Some((pid, status))) => Ok(Some(match status.stopping_signal() {
            Some(signal) => Child::Stopped(pid, signal),
            None => Child::Ended(pid, ending(status)),
        })),
        // The only other error is an interruption, which does not come with NOHANG.
        Err(_) => Err(NoChild),
    }
}

/// There is no child.
pub(super) struct NoChild;

fn ending(status: WaitStatus) -> Ending {
    match status.exit_status() {
        Some(code) => Ending::Code(code),
        None => Ending::Signal(status.terminating_signal().unwrap_or_default()),
    }
}

/// Prepares this program again, in another role, with a socket to us as its standard input.
pub(super) fn again(program: &str, role: &str, socket: OwnedFd, command: &[OsString]) -> Command {
    let mut again = Command::new(program);
    again.arg0("tenure").arg(role).arg("--").args(command).stdin(Stdio::from(socket));
    again
}

/// Returns the command that stands behind the role on our own command line.
pub(super) fn own_command() -> Vec<OsString> {
    std::env::args_os().skip(3).collect()
}

/// Where the kernel keeps how gladly it kills us when memory is short.
const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// The kernel's word for "never".
const OOM_NEVER: i32 = -1000;

/// Asks the kernel to kill others when memory is short, where that is permitted. Returns what it was before.
pub(super) fn survive_memory_shortage() -> Option<i32> {
    let before = fs::read_to_string(OOM_SCORE).ok()?.trim().parse().ok()?;
    set_oom_score(OOM_NEVER);
    Some(before)
}

/// Sets how gladly the kernel kills us, where that is permitted.
pub(super) fn set_oom_score(score: i32) {
    let _ = fs::write(OOM_SCORE, score.to_string());
}
