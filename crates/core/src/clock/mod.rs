//! Time as a component: nothing else in this project reads a clock or waits for one.
//!
//! Two local clocks are read together, because each of them lies in its own way. CLOCK_BOOTTIME counts a
//! suspend but may be slewed by a time daemon (the kernel allows 10 %); CLOCK_MONOTONIC_RAW cannot be slewed
//! but stands still in a suspend. A [`Moment`] has passed as soon as either clock says so, which ends a
//! permission too early at worst, never too late.
//!
//! Not detectable with either: a hypervisor pause or snapshot that stops the guest's own clocks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

mod kernel;
mod manual;
mod system;
mod timer;

pub use manual::ManualClock;
pub use system::SystemClock;

/// One reading of both local clocks.
///
/// Deliberately without an order of its own: two moments may stand differently on the two clocks, so each
/// caller asks the question whose safe side it knows ([`has_passed`](Self::has_passed),
/// [`earlier_of`](Self::earlier_of), …).
///
/// Counts nanoseconds, up to 584 years: a leader keeps half a dozen moments, and a process may lead a hundred
/// thousand elections.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Moment {
    boot_ns: u64,
    raw_ns: u64,
}

impl Moment {
    /// The moment that never comes.
    pub const FAR: Moment = Moment { boot_ns: u64::MAX, raw_ns: u64::MAX };

    /// Makes a moment of what both clocks show.
    #[must_use]
    pub const fn new(boot: Duration, raw: Duration) -> Moment {
        Moment { boot_ns: nanos(boot), raw_ns: nanos(raw) }
    }

    /// Returns what the clock shows that counts a suspend (CLOCK_BOOTTIME).
    #[must_use]
    pub const fn boot(self) -> Duration {
        duration(self.boot_ns)
    }

    /// Returns what the clock shows that cannot be slewed (CLOCK_MONOTONIC_RAW).
    #[must_use]
    pub const fn raw(self) -> Duration {
        duration(self.raw_ns)
    }

    pub(crate) const fn from_nanos(boot_ns: u64, raw_ns: u64) -> Moment {
        Moment { boot_ns, raw_ns }
    }

    pub(crate) const fn boot_ns(self) -> u64 {
        self.boot_ns
    }

    pub(crate) const fn raw_ns(self) -> u64 {
        self.raw_ns
    }

    /// Returns the moment `d` later, at most [`FAR`](Self::FAR).
    #[must_use]
    pub const fn plus(self, d: Duration) -> Moment {
        let d = nanos(d);
        Moment { boot_ns: self.boot_ns.saturating_add(d), raw_ns: self.raw_ns.saturating_add(d) }
    }

    /// Returns the moment `d` earlier, at the earliest the zero of each clock.
    #[must_use]
    pub const fn minus(self, d: Duration) -> Moment {
        let d = nanos(d);
        Moment { boot_ns: self.boot_ns.saturating_sub(d), raw_ns: self.raw_ns.saturating_sub(d) }
    }

    /// Returns this moment by the boot clock alone: for waits that end no permission, such as the next renewal.
    ///
    /// The kernel has no timer on the raw clock. A wait for it takes several looks, so that it is not late on a boot
    /// clock that is slewed; a wait for the boot clock takes one. A deadline is waited for by both clocks, and costs a
    /// leader nothing while it renews in time: the renewal comes before the first look for the deadline.
    #[must_use]
    pub const fn by_boot(self) -> Moment {
        Moment { boot_ns: self.boot_ns, raw_ns: u64::MAX }
    }

    /// Tells whether either clock has reached this moment.
    ///
    /// Either is enough, because the one that lags may be standing still or slewed.
    #[must_use]
    pub fn has_passed(self, now: Moment) -> bool {
        now.boot_ns >= self.boot_ns || now.raw_ns >= self.raw_ns
    }

    /// Returns how long it is until this moment, zero once it has passed.
    ///
    /// The smaller of what the two clocks say, so that it is zero exactly when
    /// [`has_passed`](Self::has_passed) is true.
    #[must_use]
    pub fn time_until(self, now: Moment) -> Duration {
        duration(self.boot_ns.saturating_sub(now.boot_ns).min(self.raw_ns.saturating_sub(now.raw_ns)))
    }

    /// Returns how long ago `earlier` was, zero if it is still ahead on both clocks.
    ///
    /// The larger of what the two clocks say: whoever trusts something for a time then trusts it for less.
    #[must_use]
    pub fn time_since(self, earlier: Moment) -> Duration {
        let boot_ns = self.boot_ns.saturating_sub(earlier.boot_ns);
        duration(boot_ns.max(self.raw_ns.saturating_sub(earlier.raw_ns)))
    }

    /// Returns how long ago `earlier` was at least, zero if it is still ahead on either clock.
    ///
    /// The smaller of what the two clocks say: whoever distrusts something for a time then distrusts it for longer.
    #[must_use]
    pub fn least_since(self, earlier: Moment) -> Duration {
        duration(self.boot_ns.saturating_sub(earlier.boot_ns).min(self.raw_ns.saturating_sub(earlier.raw_ns)))
    }

    /// Returns the moment that has passed as soon as one of the two has.
    #[must_use]
    pub fn earlier_of(self, other: Moment) -> Moment {
        Moment { boot_ns: self.boot_ns.min(other.boot_ns), raw_ns: self.raw_ns.min(other.raw_ns) }
    }

    /// Returns the later reading of each clock.
    #[must_use]
    pub fn later_of(self, other: Moment) -> Moment {
        Moment { boot_ns: self.boot_ns.max(other.boot_ns), raw_ns: self.raw_ns.max(other.raw_ns) }
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Moment {{ boot: {:?}, raw: {:?} }}", self.boot(), self.raw())
    }
}

#[allow(clippy::cast_possible_truncation)] // Compared first.
const fn nanos(d: Duration) -> u64 {
    let ns = d.as_nanos();
    if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
}

/// What never comes is as far away as can be.
const fn duration(ns: u64) -> Duration {
    if ns == u64::MAX { Duration::MAX } else { Duration::from_nanos(ns) }
}

/// A wait that [`Clock::sleep_until`] began; dropping it gives the wait up.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// Tells the time and waits for it.
///
/// # Contract
/// - Neither clock of [`now`](Self::now) ever goes back.
/// - [`sleep_until`](Self::sleep_until) never completes before `moment.has_passed(now())`, and does complete
///   soon after, also if it passed during a suspend of the machine. It needs no particular executor, except
///   where an implementation says so. Whoever has no use for the raw clock asks [by the boot
///   clock](Moment::by_boot), which may cost fewer wake-ups.
/// - A moment of one clock means nothing to another one.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Reads both local clocks.
    fn now(&self) -> Moment;

    /// Reads the wall clock: for people only, never compared with another clock.
    fn wall(&self) -> SystemTime;

    /// Waits until `moment` has passed.
    fn sleep_until(&self, moment: Moment) -> Sleep;
}

/// Conveniences of every [`Clock`].
pub trait ClockExt: Clock {
    /// Waits for `d`, counted from this call and not from the first poll.
    fn sleep(&self, d: Duration) -> Sleep {
        self.sleep_until(self.now().plus(d))
    }
}

impl<C: Clock + ?Sized> ClockExt for C {}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(boot: u64, raw: u64) -> Moment {
        Moment::new(Duration::from_secs(boot), Duration::from_secs(raw))
    }

    const fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn plus_and_minus_move_both_clocks_and_saturate() {
        assert_eq!(at(10, 20).plus(secs(5)), at(15, 25));
        assert_eq!(at(10, 20).minus(secs(5)), at(5, 15));
        assert_eq!(at(10, 20).minus(secs(15)), at(0, 5));
        assert_eq!(at(10, 20).plus(Duration::MAX), Moment::FAR);
        assert_eq!(Moment::FAR.plus(secs(1)), Moment::FAR);
        assert_eq!(Moment::default().minus(secs(1)), Moment::default());
    }

    #[test]
    fn a_moment_has_passed_when_either_clock_says_so() {
        let moment = at(100, 50);
        assert!(!moment.has_passed(at(99, 49)));
        assert!(moment.has_passed(at(100, 49)), "the boot clock alone");
        assert!(moment.has_passed(at(99, 50)), "the raw clock alone");
        assert!(moment.has_passed(at(101, 51)));
        assert!(moment.has_passed(moment), "a moment has passed when it is reached");
        assert!(!Moment::FAR.has_passed(Moment::FAR.minus(Duration::from_nanos(1))), "not in 584 years");
    }

    #[test]
    fn time_until_is_the_smaller_rest_and_zero_exactly_when_passed() {
        let moment = at(100, 50);
        assert_eq!(moment.time_until(at(90, 45)), secs(5));
        assert_eq!(moment.time_until(at(97, 40)), secs(3));
        for now in [at(99, 49), at(100, 0), at(0, 50), at(200, 200)] {
            assert_eq!(moment.time_until(now).is_zero(), moment.has_passed(now), "{now:?}");
        }
    }

    #[test]
    fn time_since_is_the_larger_age_and_never_negative() {
        assert_eq!(at(100, 50).time_since(at(90, 48)), secs(10));
        assert_eq!(at(100, 50).time_since(at(99, 30)), secs(20));
        assert_eq!(at(100, 50).time_since(at(110, 45)), secs(5));
        assert_eq!(at(100, 50).time_since(at(110, 60)), Duration::ZERO);
    }

    #[test]
    fn by_the_boot_clock_alone_the_raw_clock_says_nothing() {
        let moment = at(100, 50).by_boot();
        assert!(!moment.has_passed(at(99, 100_000)));
        assert!(moment.has_passed(at(100, 0)));
        assert_eq!(moment.time_until(at(90, 49)), secs(10));
    }

    #[test]
    fn earlier_and_later_are_taken_clock_by_clock() {
        let (a, b) = (at(100, 50), at(90, 60));
        assert_eq!(a.earlier_of(b), at(90, 50));
        assert_eq!(a.later_of(b), at(100, 60));
        assert_eq!(a.earlier_of(Moment::FAR), a);
        assert_eq!(a.later_of(Moment::FAR), Moment::FAR);
        for now in [at(89, 49), at(90, 49), at(89, 50), at(100, 60)] {
            assert_eq!(a.earlier_of(b).has_passed(now), a.has_passed(now) || b.has_passed(now), "{now:?}");
        }
    }

    #[test]
    fn sleep_counts_from_the_call() {
        let clock = ManualClock::new();
        let mut sleep = (&clock as &dyn Clock).sleep(secs(5));
        clock.advance(secs(5));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(sleep.as_mut().poll(&mut context).is_ready());
    }
}
