//! The four questions that the system clock asks the Linux kernel.

use std::io;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::Moment;

/// Reads both clocks, through the vDSO: no system call, no allocation.
#[allow(clippy::disallowed_methods)] // This is the component that the ban points to.
pub(super) fn now() -> Moment {
    Moment::from_nanos(
        since_zero(rustix::time::clock_gettime(ClockId::Boottime)),
        since_zero(rustix::time::clock_gettime(ClockId::MonotonicRaw)),
    )
}

fn since_zero(reading: Timespec) -> u64 {
    // The kernel answers neither clock with a negative second nor with a nanosecond past the second, and 584 years of
    // uptime fit.
    reading.tv_sec.unsigned_abs() * 1_000_000_000 + reading.tv_nsec.unsigned_abs()
}

/// A timer on the boot clock that fires at once on resume if its time came during a suspend.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    /// Opens an alarm that is not set.
    pub(super) fn open() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?;
        Ok(Self { timer })
    }

    /// Makes an alarm of a file that is none, so that everything asked of it fails.
    #[cfg(test)]
    pub(super) fn broken() -> io::Result<Self> {
        let timer = std::fs::File::open("/dev/null")?.into();
        Ok(Self { timer })
    }

    /// Sets it to `boot_ns`, also for a thread that already waits in [`wait`](Self::wait).
    pub(super) fn set(&self, boot_ns: u64) -> io::Result<()> {
        // Zero would switch the timer off; the first nanosecond after boot is as much in the past.
        let at = Duration::from_nanos(boot_ns.max(1));
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec {
            it_interval: never,
            it_value: Timespec {
                tv_sec: i64::try_from(at.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: at.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Blocks until the time that is set has come; may also return early, after a signal.
    pub(super) fn wait(&self) -> io::Result<()> {
        let mut expirations = [0u8; 8];
        match rustix::io::read(&self.timer, &mut expirations) {
            // A timer answers with its count of eight bytes; anything else is not our timer any more.
            Ok(8) | Err(rustix::io::Errno::INTR) => Ok(()),
            Ok(_) => Err(io::ErrorKind::InvalidData.into()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn ns(d: Duration) -> u64 {
        u64::try_from(d.as_nanos()).unwrap()
    }

    #[test]
    fn both_clocks_go_forward() {
        let first = now();
        let mut last = first;
        while last.raw() == first.raw() || last.boot() == first.boot() {
            let next = now();
            assert!(next.boot() >= last.boot() && next.raw() >= last.raw());
            last = next;
        }
    }

    #[test]
    fn an_alarm_never_rings_before_its_time() {
        let alarm = Alarm::open().unwrap();
        let at = now().boot() + Duration::from_millis(20);
        alarm.set(ns(at)).unwrap();
        alarm.wait().unwrap();
        assert!(now().boot() >= at);
    }

    #[test]
    fn setting_an_alarm_earlier_wakes_the_thread_that_already_waits() {
        let alarm = Arc::new(Alarm::open().unwrap());
        let (tell, told) = mpsc::channel();
        let waiting = Arc::clone(&alarm);
        let thread = std::thread::spawn(move || {
            waiting.set(ns(now().boot() + HOUR)).unwrap();
            tell.send(rustix::thread::gettid()).unwrap();
            waiting.wait().unwrap();
        });
        let id = told.recv().unwrap().as_raw_nonzero();
        // The only thing left that this thread can sleep in is the read of its alarm.
        let asleep = || {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat")).unwrap();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
        };
        while !asleep() {
            std::thread::yield_now();
        }
        let began = now();
        alarm.set(ns(now().boot() + Duration::from_millis(5))).unwrap();
        thread.join().unwrap();
        assert!(now().time_since(began) < HOUR / 2);
    }

    #[test]
    fn an_alarm_in_the_past_rings_at_once() {
        let alarm = Alarm::open().unwrap();
        alarm.set(0).unwrap();
        alarm.wait().unwrap();
    }

    #[test]
    fn a_file_that_is_no_timer_is_noticed() {
        let alarm = Alarm::broken().unwrap();
        assert!(alarm.set(1).is_err());
        assert!(alarm.wait().is_err());
    }
}
