//! The terminal, which is lent to the command and taken back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::process::{Pid, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal of an interactive command.
pub(super) struct Terminal {
    file: OwnedFd,
    /// The wrapper's process group.
    home: Pid,
    lent: bool,
}

impl Terminal {
    pub(super) fn new(file: OwnedFd, home: i32) -> Option<Self> {
        Some(Self { file, home: Pid::from_raw(home)?, lent: false })
    }

    /// Tells whether the command may have it: not if the wrapper itself is in the background. From here on it counts as
    /// lent.
    pub(super) fn lend(&mut self) -> bool {
        self.lent = tcgetpgrp(&self.file).is_ok_and(|group| group == self.home);
        self.lent
    }

    /// Makes the wrapper's group the foreground again if it was lent.
    pub(super) fn take_back(&mut self) {
        if std::mem::take(&mut self.lent) {
            bring_forward(&self.file, self.home);
        }
    }

    /// Makes the wrapper's group the foreground again once everybody who had it is gone.
    pub(super) fn take_back_from_the_dead(&self) {
        // If its present foreground group has members, such as a shell, it is not ours to take.
        if tcgetpgrp(&self.file).is_ok_and(|group| test_kill_process_group(group).is_err()) {
            bring_forward(&self.file, self.home);
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Makes a process group the foreground of the terminal. The caller must have SIGTTOU blocked, or it stops.
pub(super) fn bring_forward(terminal: impl AsFd, group: Pid) {
    // Fails if the group or the terminal has gone: then there is nothing to give.
    let _ = tcsetpgrp(terminal, group);
}
