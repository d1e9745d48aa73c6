//! Permission to lead: computed from clocks at every question, and gone for good once it is gone.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::Moment;
use crate::flaw::{Flaw, flawed};

/// The mark of a permission that ended: no deadline is ahead of it.
const ENDED: u64 = 0;

/// The permission of one term: a deadline on both clocks and a one-way latch.
///
/// It is a pair of numbers, so that asking takes no lock and no allocation. The boot clock's number carries the latch.
#[derive(Debug)]
pub(crate) struct Permission {
    boot_ns: AtomicU64,
    raw_ns: AtomicU64,
}

impl Permission {
    pub(crate) fn until(deadline: Moment) -> Self {
        Self { boot_ns: AtomicU64::new(deadline.boot_ns()), raw_ns: AtomicU64::new(deadline.raw_ns()) }
    }

    /// Tells whether the deadline is ahead on both clocks. Whoever sees it passed ends it, so that no later answer of
    /// the store can raise it again.
    #[inline]
    pub(crate) fn holds_at(&self, now: Moment) -> bool {
        if flawed(Flaw::FlagInsteadOfClock) {
            return self.boot_ns.load(Ordering::Acquire) != ENDED;
        }
        // A renewal may move one number before the other: either is a deadline that was promised, so any mix is safe.
        let ahead = now.boot_ns() < self.boot_ns.load(Ordering::Acquire)
            && now.raw_ns() < self.raw_ns.load(Ordering::Acquire);
        if !ahead && !flawed(Flaw::PermissionWithoutLatch) {
            self.end();
        }
        ahead
    }

    /// Moves the deadline ahead; answers `false` if the permission had ended before.
    pub(crate) fn raise(&self, deadline: Moment) -> bool {
        let (boot, raw) = (deadline.boot_ns(), deadline.raw_ns());
        let raised = self.boot_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, |present| {
            (present != ENDED).then_some(present.max(boot))
        });
        if raised.is_ok() {
            self.raw_ns.fetch_max(raw, Ordering::AcqRel);
        }
        raised.is_ok()
    }

    pub(crate) fn end(&self) {
        self.boot_ns.store(ENDED, Ordering::Release);
    }

    #[cfg(test)]
    fn has_ended(&self) -> bool {
        self.boot_ns.load(Ordering::Acquire) == ENDED
    }

    /// Returns the deadline, or `None` once the permission ended.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let boot = self.boot_ns.load(Ordering::Acquire);
        let raw = self.raw_ns.load(Ordering::Acquire);
        (boot != ENDED).then(|| Moment::from_nanos(boot, raw))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds), Duration::from_secs(seconds))
    }

    #[test]
    fn it_holds_until_either_clock_says_no() {
        let (boot_late, raw_late) =
            (Moment::new(at(10).boot(), at(5).raw()), Moment::new(at(5).boot(), at(10).raw()));
        for past in [at(10), boot_late, raw_late] {
            let permission = Permission::until(at(10));
            assert!(permission.holds_at(at(9)));
            assert!(!permission.holds_at(past));
        }
    }

    #[test]
    fn once_seen_past_nothing_raises_it_again() {
        let permission = Permission::until(at(10));
        assert!(!permission.holds_at(at(10)));
        assert!(!permission.raise(at(100)));
        assert!(!permission.holds_at(at(9)));
        assert_eq!(permission.deadline(), None);
    }

    #[test]
    fn once_ended_nothing_raises_it_again() {
        let permission = Permission::until(at(10));
        permission.end();
        assert!(permission.has_ended() && !permission.raise(at(100)) && !permission.holds_at(at(1)));
    }

    #[test]
    fn a_late_answer_of_an_earlier_renewal_does_not_lower_it() {
        let permission = Permission::until(at(10));
        assert!(permission.raise(at(20)) && permission.raise(at(15)));
        assert_eq!(permission.deadline(), Some(at(20)));
    }

    #[test]
    fn raising_against_seeing_it_past_always_ends_it() {
        for _ in 0..2000 {
            let permission = Permission::until(at(10));
            std::thread::scope(|scope| {
                scope.spawn(|| permission.raise(at(20)));
                scope.spawn(|| permission.end());
            });
            assert!(permission.has_ended());
        }
    }
}
