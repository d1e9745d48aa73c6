//! SIGKILL to all descendants, again and again until none is left.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tenure::clock::Moment;

use super::cgroup::Cgroup;
use super::protocol::Survivor;
use super::tree::Process;

/// The pause after the first round; each further one is twice as long. Most processes die within it.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// The longest pause: what survives so long is in the kernel's hands.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How long a process may take to die before it is called unkillable: longer than freeing much memory takes.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often survivors are reported.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// One campaign of killing; it ends when its owner finds that nobody is left.
pub(super) struct Killer {
    began: Moment,
    next: Moment,
    pause: Duration,
    reported: Option<Moment>,
}

impl Killer {
    /// Begins with a round at once.
    pub(super) fn at_once(now: Moment) -> Self {
        Self { began: now, next: now, pause: FIRST_PAUSE, reported: None }
    }

    /// Begins with a round in a moment: a quicker blow has fallen, after which mostly nobody is left to look for.
    pub(super) fn after_blow(now: Moment) -> Self {
        Self { next: now.plus(FIRST_PAUSE), ..Self::at_once(now) }
    }

    /// Tells when the next round is due.
    pub(super) fn next(&self) -> Moment {
        self.next
    }

    /// Kills everything in the control group, and all below `top` that are found; returns these. One that is made
    /// before it is due comes on top, and moves no other.
    pub(super) fn round(
        &mut self,
        now: Moment,
        top: Pid,
        cgroup: Option<&Cgroup>,
        find: impl FnOnce() -> io::Result<Vec<Process>>,
    ) -> io::Result<Vec<Process>> {
        if self.next.has_passed(now) {
            self.next = now.plus(self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
        // First, because nobody in it can fork any more; the walk finds who has left it.
        if let Some(cgroup) = cgroup {
            cgroup.kill();
        }
        let found = find()?;
        for process in &found {
            // Whoever is gone needs no signal, and whoever may not be killed is found again.
            let _ = process.signal(top, Signal::KILL);
        }
        Ok(found)
    }

    /// Tells who has survived for long, at most once in a while.
    pub(super) fn survivors(&mut self, now: Moment, found: &[Process]) -> Option<Vec<Survivor>> {
        let left: Vec<_> = found.iter().filter(|process| process.lives).collect();
        let too_early = now.time_since(self.began) < PATIENCE
            || self.reported.is_some_and(|reported| now.time_since(reported) < REPORT_EVERY);
        if left.is_empty() || too_early {
            return None;
        }
        self.reported = Some(now);
        let survivor =
            |process: &Process| Survivor { pid: process.pid.as_raw_pid(), name: process.name.clone() };
        Some(left.into_iter().map(survivor).collect())
    }
}
