//! A clock that moves only when a test says so.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use super::{Clock, Moment, Sleep};

/// Where a new clock stands. Far from zero, so that a time before the start can be told; different on both
/// clocks, so that a test notices who mixes them up.
const START: Moment = Moment::new(Duration::from_secs(7200), Duration::from_secs(3600));

/// What a new wall clock shows: 2026-01-01T00:00:00Z, the same in every run.
const WALL_START: Duration = Duration::from_secs(1_767_225_600);

/// A clock that stands still until a test moves it.
///
/// Clones share one time. Moving it completes everybody who is due by then; what these do next (sleep again,
/// say) happens at the new time. So a loop that wakes every second wakes *once* in `advance(10 s)`: move in
/// smaller steps where each one counts, and wait for facts in between
/// ([`wait_for_sleepers`](Self::wait_for_sleepers)).
///
/// ```
/// # use std::time::Duration;
/// # use tenure_core::clock::{Clock, ClockExt, ManualClock};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = ManualClock::new();
/// let nap = tokio::spawn(clock.sleep(Duration::from_secs(30)));
/// clock.wait_for_sleepers(1).await;
/// clock.advance(Duration::from_secs(30));
/// nap.await.unwrap();
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    now: Moment,
    wall: SystemTime,
    next_number: u64,
    /// By the order in which they first waited.
    sleepers: BTreeMap<u64, (Moment, Waker)>,
    /// Who waits for sleepers; looks again whenever one was added.
    watchers: Vec<Waker>,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl ManualClock {
    /// Makes a clock that always starts at the same time, in the first hours of a machine.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            now: START,
            wall: SystemTime::UNIX_EPOCH + WALL_START,
            next_number: 0,
            sleepers: BTreeMap::new(),
            watchers: Vec::new(),
        };
        Self { shared: Arc::new(Mutex::new(state)) }
    }

    /// Moves both clocks and the wall clock forward, and completes who is due, the earliest first.
    pub fn advance(&self, d: Duration) {
        self.move_by(d, d, d);
    }

    /// Moves the two clocks apart, as a slewed boot clock does; the wall clock goes with the boot clock.
    pub fn advance_each(&self, boot: Duration, raw: Duration) {
        self.move_by(boot, raw, boot);
    }

    /// Models a machine that was suspended for `d` and has just resumed.
    ///
    /// The boot clock and the wall clock have moved. The raw clock has not: on Linux it stands still in a
    /// suspend.
    pub fn suspend(&self, d: Duration) {
        self.move_by(d, Duration::ZERO, d);
    }

    /// Steps the wall clock, as an administrator or a time daemon does. Wakes nobody: nobody waits for it.
    pub fn set_wall(&self, wall: SystemTime) {
        self.state().wall = wall;
    }

    /// Counts who sleeps at present: polled at least once, not yet due, not given up.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.state().sleepers.len()
    }

    /// Waits until at least `n` sleep.
    pub async fn wait_for_sleepers(&self, n: usize) {
        poll_fn(|context| {
            let mut state = self.state();
            if state.sleepers.len() >= n {
                return Poll::Ready(());
            }
            if !state.watchers.iter().any(|watcher| watcher.will_wake(context.waker())) {
                state.watchers.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn move_by(&self, boot: Duration, raw: Duration, wall: Duration) {
        let mut state = self.state();
        state.now = Moment::new(state.now.boot().saturating_add(boot), state.now.raw().saturating_add(raw));
        state.wall = state.wall.checked_add(wall).unwrap_or(state.wall);
        let now = state.now;
        let (due, waiting): (BTreeMap<_, _>, BTreeMap<_, _>) = std::mem::take(&mut state.sleepers)
            .into_iter()
            .partition(|(_, (moment, _))| moment.has_passed(now));
        state.sleepers = waiting;
        // Woken without the lock: a waker may run the sleeper's task on the spot.
        drop(state);
        let mut due: Vec<_> = due.into_iter().collect();
        due.sort_by_key(|(number, (moment, _))| (moment.boot(), moment.raw(), *number));
        for (_, (_, waker)) in due {
            waker.wake();
        }
    }

    /// Takes the lock, also after a test panicked with it: every change under it is complete.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        self.state().now
    }

    fn wall(&self) -> SystemTime {
        self.state().wall
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        Box::pin(ManualSleep { clock: self.clone(), moment, number: None })
    }
}

/// One sleeper; it is counted from its first poll until it is due or dropped.
struct ManualSleep {
    clock: ManualClock,
    moment: Moment,
    number: Option<u64>,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let sleep = self.get_mut();
        let waker = context.waker().clone();
        let mut state = sleep.clock.state();
        if sleep.moment.has_passed(state.now) {
            return Poll::Ready(());
        }
        let number = *sleep.number.get_or_insert_with(|| {
            state.next_number += 1;
            state.next_number
        });
        let before = state.sleepers.insert(number, (sleep.moment, waker));
        let watchers = if before.is_none() { std::mem::take(&mut state.watchers) } else { Vec::new() };
        drop(state);
        drop(before);
        watchers.into_iter().for_each(Waker::wake);
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            // In two steps, so that the lock is back before the waker goes: it may drop another sleeper.
            let sleeper = self.clock.state().sleepers.remove(&number);
            drop(sleeper);
        }
    }
}

#[cfg(test)]
#[path = "manual_test.rs"]
mod tests;
