//! The clocks of the machine.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use super::timer::{self, Ticket, Timer};
use super::{Clock, Moment, Sleep, kernel};

/// Reads the clocks of the machine and waits for them.
///
/// All sleepers of the process share one thread (`tenure-timer`, started by the first of them) and one kernel
/// timer on the boot clock, so that they need no particular executor and wake at once when the machine
/// resumes. Where the process may have no more file descriptors, the thread waits without that timer and a
/// sleeper may wake 20 ms after a resume; where it may have no more threads, each sleeper looks once in a
/// millisecond.
///
/// Not fork-safe: a forked child has no timer thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        kernel::now()
    }

    #[allow(clippy::disallowed_methods)] // This is the component that the ban points to.
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        Box::pin(SystemSleep::new(Process, moment))
    }
}

/// How long one poll blocks where no timer thread can be started: short enough not to hold up the other tasks
/// of the executor, long enough not to burn a core.
const WITHOUT_THREAD: Duration = Duration::from_millis(1);

/// Which timer a sleeper sleeps by. That of the process takes no room: there may be a hundred thousand sleepers.
pub(super) trait SleepsBy: Copy + Unpin {
    fn timer(self) -> &'static Timer;
}

/// By the timer of this process.
#[derive(Clone, Copy)]
pub(super) struct Process;

impl SleepsBy for Process {
    fn timer(self) -> &'static Timer {
        &timer::PROCESS
    }
}

/// One sleeper; it has a place in the timer's queue from its first poll to its drop.
pub(super) struct SystemSleep<T: SleepsBy> {
    by: T,
    moment: Moment,
    ticket: Option<Ticket>,
}

impl<T: SleepsBy> SystemSleep<T> {
    pub(super) const fn new(by: T, moment: Moment) -> Self {
        Self { by, moment, ticket: None }
    }
}

impl<T: SleepsBy> Future for SystemSleep<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.get_mut();
        let now = kernel::now();
        // The clock decides, not the timer: a stalled timer thread delays nobody who is polled.
        if sleep.moment.has_passed(now) {
            return Poll::Ready(());
        }
        if sleep.by.timer().enlist(&mut sleep.ticket, sleep.moment, now, context.waker()).is_err() {
            block_for(sleep.moment.time_until(now).min(WITHOUT_THREAD));
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

#[allow(clippy::disallowed_methods)] // This is the component that the ban points to.
fn block_for(d: Duration) {
    std::thread::sleep(d);
}

impl<T: SleepsBy> Drop for SystemSleep<T> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.by.timer().forget(self.moment, ticket);
        }
    }
}

#[cfg(test)]
#[path = "system_test.rs"]
mod tests;
