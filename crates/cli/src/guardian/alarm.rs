//! Waits for a moment, on the boot clock; and the one place that knows what a [`Moment`] is made of.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tenure::clock::{Clock, Moment, SystemClock};

/// Reads both clocks. No timer thread comes with it: only sleeping needs one.
pub(super) fn now() -> Moment {
    SystemClock.now()
}

/// A moment as two numbers, in messages.
pub(super) mod moment {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tenure::clock::Moment;

    fn ns(d: Duration) -> u64 {
        u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the boot clock's reading.
    pub(in super::super) fn boot_ns(moment: Moment) -> u64 {
        ns(moment.boot())
    }

    pub(in super::super) fn serialize<S: Serializer>(moment: &Moment, out: S) -> Result<S::Ok, S::Error> {
        (ns(moment.boot()), ns(moment.raw())).serialize(out)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        let (boot, raw) = Deserialize::deserialize(from)?;
        Ok(Moment::new(Duration::from_nanos(boot), Duration::from_nanos(raw)))
    }
}

/// How close a moment must be to be waited for in one go. The boot clock may run 10 % slower than the raw clock, on
/// which the kernel has no timer: a wait of 10 ms is then 1 ms late at worst.
const ONE_GO: Duration = Duration::from_millis(10);

/// A moment farther away than this is not waited for; the kernel could not take every number.
const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A timer that wakes who polls it, and sleeps through everything that was moved in time.
pub(super) struct Alarm {
    timer: OwnedFd,
    set_for: Option<Moment>,
}

impl Alarm {
    pub(super) fn open() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Boottime, flags)?, set_for: None })
    }

    /// Sees to it that somebody who polls wakes at `moment`, or a little earlier: then he asks again.
    pub(super) fn set(&mut self, moment: Option<Moment>, now: Moment) -> io::Result<()> {
        // An alarm that has rung is unset, so what is set for the same moment will still ring.
        if moment == self.set_for {
            return Ok(());
        }
        self.set_for = moment;
        let ring = moment.and_then(|moment| wait(moment, now)).map_or(Duration::ZERO, |wait| {
            // Zero would switch the timer off.
            Duration::from_nanos(moment::boot_ns(now)).saturating_add(wait).max(Duration::from_nanos(1))
        });
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: i64::try_from(ring.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: ring.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }

    /// Takes note that it may have rung, so that it does not ring on.
    pub(super) fn hear(&mut self) {
        let mut expirations = [0u8; 8];
        if rustix::io::read(&self.timer, &mut expirations).is_ok() {
            self.set_for = None;
        }
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Tells how long to wait on the boot clock before looking again.
fn wait(moment: Moment, now: Moment) -> Option<Duration> {
    let left = moment.time_until(now);
    match left {
        _ if left > NEVER => None,
        _ if left <= ONE_GO => Some(left),
        // An eighth is left for the next look: more than the tenth by which the boot clock may be slower.
        _ => Some(left - left / 8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_survives_a_message_exactly() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Letter(#[serde(with = "moment")] Moment);
        for there in [Moment::default(), now(), Moment::default().plus(Duration::from_nanos(u64::MAX))] {
            let text = serde_json::to_string(&Letter(there)).unwrap();
            let Letter(back) = serde_json::from_str(&text).unwrap();
            assert_eq!(back, there);
        }
        let Letter(far) =
            serde_json::from_str(&serde_json::to_string(&Letter(Moment::FAR)).unwrap()).unwrap();
        assert!(far.time_until(now()) > NEVER);
    }

    #[test]
    fn a_long_wait_leaves_a_reserve_for_a_slow_boot_clock_and_never_overshoots() {
        let start = now();
        let mut at = start;
        let deadline = start.plus(Duration::from_secs(30));
        let mut looks = 0;
        while !deadline.has_passed(at) {
            // The boot clock at nine tenths of the raw one: the wait is longer on the raw clock.
            let slow = wait(deadline, at).unwrap();
            at = at.plus(slow.max(Duration::from_nanos(1)) * 10 / 9);
            looks += 1;
        }
        assert!(at.time_since(deadline) <= Duration::from_millis(2), "{:?}", at.time_since(deadline));
        assert!(looks < 10, "{looks}");
    }

    #[test]
    fn what_never_comes_is_not_waited_for() {
        assert_eq!(wait(Moment::FAR, now()), None);
        let mut alarm = Alarm::open().unwrap();
        alarm.set(Some(Moment::FAR), now()).unwrap();
        alarm.set(None, now()).unwrap();
    }
}
