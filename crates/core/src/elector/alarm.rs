//! The one sleeper of an elector's loop.

use std::task::{Context, Poll};

use crate::clock::{Clock, Moment, Sleep};

/// Sleeps until a moment that may change from look to look. One for everything that a loop waits for by the clock: a
/// process may lead a hundred thousand elections.
#[derive(Default)]
pub(crate) struct Alarm {
    at: Moment,
    sleep: Option<Sleep>,
}

impl Alarm {
    /// Answers whether `at` has passed, or wakes the task when it has.
    pub(crate) fn poll(&mut self, at: Moment, clock: &dyn Clock, context: &mut Context<'_>) -> Poll<()> {
        if self.at != at {
            self.sleep = None;
        }
        self.at = at;
        let passed = self.sleep.get_or_insert_with(|| clock.sleep_until(at)).as_mut().poll(context);
        if passed.is_ready() {
            self.sleep = None;
        }
        passed
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn it_sleeps_once_for_the_moment_that_was_asked_for_last() {
        let (clock, mut alarm) = (ManualClock::new(), Alarm::default());
        let in_seconds = |seconds| clock.now().plus(Duration::from_secs(seconds));
        let (soon, late) = (in_seconds(5), in_seconds(10));
        let mut context = Context::from_waker(Waker::noop());
        assert!(alarm.poll(soon, &clock, &mut context).is_pending());
        assert!(alarm.poll(late, &clock, &mut context).is_pending());
        assert_eq!(clock.sleepers(), 1);
        clock.advance(Duration::from_secs(5));
        assert!(alarm.poll(late, &clock, &mut context).is_pending());
        assert!(alarm.poll(soon, &clock, &mut context).is_ready());
        assert_eq!(clock.sleepers(), 0);
        clock.advance(Duration::from_secs(5));
        assert!(alarm.poll(late, &clock, &mut context).is_ready());
        assert!(alarm.poll(late, &clock, &mut context).is_ready(), "also when asked again");
    }
}
