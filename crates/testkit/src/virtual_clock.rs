//! Clocks of simulated machines on tokio's paused time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tenure_core::{Clock, Moment, Sleep};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Where a new clock stands. Far from zero, so that a time before the start can be told; different on both
/// clocks, so that a test notices who mixes them up.
const START: Moment = Moment::new(Duration::from_secs(7200), Duration::from_secs(3600));

/// What a new wall clock shows: 2026-01-01T00:00:00Z, the same in every run.
const WALL_START: Duration = Duration::from_secs(1_767_225_600);

/// Parts in a million: the unit of clock rates.
const MILLION: i64 = 1_000_000;

/// The clock of one simulated machine, which may run wrong in every way that a real one does.
///
/// It runs on tokio's time: under a paused current-thread runtime (`#[tokio::test(start_paused = true)]`) time
/// advances by itself to the next sleeper whenever every task waits. Tokio's time is the *true* time here;
/// [`true_now`](Self::true_now) tells it, and each clock departs from it as it is told to.
///
/// Clones are the same clock; [`beside`](Self::beside) makes that of another machine in the same true time.
/// Only for use inside the runtime it was made in.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    origin: Instant,
    machine: Arc<Machine>,
}

#[derive(Debug)]
struct Machine {
    state: Mutex<State>,
    /// Tells every sleeper that its reckoning of the true time is void.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    boot: Rate,
    raw: Rate,
    wall_offset_seconds: i64,
    /// True time before which the machine is suspended and nobody on it wakes.
    resumes_at: Duration,
}

/// One clock as a straight line over the true time, from its last change on.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// True time of the last change. Lies ahead while the clock stands still in a suspend.
    since: Duration,
    /// What the clock showed then.
    reading: Duration,
    /// How much faster than true time it runs.
    ppm: i64,
}

impl Rate {
    /// Clock ticks in a million true ones; a clock stands still at worst, it never goes back.
    fn speed(self) -> u128 {
        u128::try_from(self.ppm.saturating_add(MILLION)).unwrap_or(0)
    }

    fn at(self, true_time: Duration) -> Duration {
        let ticked =
            true_time.saturating_sub(self.since).as_nanos() * self.speed() / MILLION.unsigned_abs() as u128;
        self.reading.saturating_add(from_nanos(ticked))
    }

    /// Returns the first true time at which the clock shows `reading`; `None` if it stands still before.
    fn when(self, reading: Duration) -> Option<Duration> {
        let ticks = reading.checked_sub(self.reading).unwrap_or_default().as_nanos();
        if ticks == 0 {
            return Some(Duration::ZERO);
        }
        // Rounded up: a nanosecond too early would be before the moment by this clock.
        let true_ticks =
            ticks.checked_mul(MILLION.unsigned_abs().into())?.checked_add(self.speed().checked_sub(1)?)?;
        self.since.checked_add(from_nanos(true_ticks / self.speed()))
    }

    /// Draws the line anew from `true_time` on, so that a change of rate leaves the past as it was.
    fn turn(&mut self, true_time: Duration, ppm: i64) {
        let reading = self.at(true_time);
        *self = Self { since: self.since.max(true_time), reading, ppm };
    }
}

fn from_nanos(ns: u128) -> Duration {
    u64::try_from(ns).map_or(Duration::MAX, Duration::from_nanos)
}

impl State {
    fn now(&self, true_time: Duration) -> Moment {
        Moment::new(self.boot.at(true_time), self.raw.at(true_time))
    }

    /// Returns the first true time at which `moment` has passed and the machine is awake, if it ever comes.
    fn when(&self, moment: Moment) -> Option<Duration> {
        let (boot, raw) = (self.boot.when(moment.boot()), self.raw.when(moment.raw()));
        let passes = boot.into_iter().chain(raw).min()?;
        Some(passes.max(self.resumes_at))
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl VirtualClock {
    /// Makes a clock that runs true, and begins the true time: it is zero now.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // This is a clock: the component that the ban points to.
    pub fn new() -> Self {
        Self::of_machine(Instant::now(), Duration::ZERO)
    }

    /// Makes the clock of another machine in the same true time; it runs true until told otherwise.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self::of_machine(self.origin, self.true_now())
    }

    fn of_machine(origin: Instant, since: Duration) -> Self {
        let line = |reading: Duration| Rate { since, reading: reading.saturating_add(since), ppm: 0 };
        let state = State {
            boot: line(START.boot()),
            raw: line(START.raw()),
            wall_offset_seconds: 0,
            resumes_at: Duration::ZERO,
        };
        Self { origin, machine: Arc::new(Machine { state: Mutex::new(state), changed: Notify::new() }) }
    }

    /// Moves both clocks ahead by `offset`, as for a machine that was started earlier, and returns the clock.
    #[must_use]
    pub fn with_offset(self, offset: Duration) -> Self {
        self.jump(offset, offset);
        self
    }

    /// Sets both rates as [`set_rates`](Self::set_rates) does, and returns the clock.
    #[must_use]
    pub fn with_rates(self, boot_ppm: i64, raw_ppm: i64) -> Self {
        self.set_rates(boot_ppm, raw_ppm);
        self
    }

    /// Makes both clocks run so many parts in a million faster than true time from now on.
    ///
    /// A slewed boot clock is `(±100_000, 0)` at worst, a wrong crystal `(±100, ±100)`, a guest whose clocks
    /// stand still `(-1_000_000, -1_000_000)`.
    pub fn set_rates(&self, boot_ppm: i64, raw_ppm: i64) {
        self.change(|state, now| {
            state.boot.turn(now, boot_ppm);
            state.raw.turn(now, raw_ppm);
        });
    }

    /// Lets the boot clock jump, as if the machine had been suspended for `d` in no true time at all.
    ///
    /// Whoever is due by then wakes at once.
    pub fn jump_boot(&self, d: Duration) {
        self.jump(d, Duration::ZERO);
    }

    /// Suspends the machine for the next `d` of true time, in which other machines go on.
    ///
    /// The boot clock goes on, the raw clock stands still, and nobody who sleeps by this clock wakes before the
    /// end; then everybody who is due wakes at once. A task that waits for something else than this clock (a
    /// message, say) is not held up: that is for whoever simulates the machine to see to.
    pub fn suspend_for(&self, d: Duration) {
        self.change(|state, now| {
            let ppm = state.raw.ppm;
            state.raw.turn(now, ppm);
            state.resumes_at = state.resumes_at.max(now.saturating_add(d));
            state.raw.since = state.resumes_at;
        });
    }

    /// Steps the wall clock, forward or back; nothing else changes.
    pub fn step_wall(&self, seconds: i64) {
        let mut state = self.state();
        state.wall_offset_seconds = state.wall_offset_seconds.saturating_add(seconds);
    }

    /// Tells the true time since the first clock was made, which no machine can know.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // This is a clock: the component that the ban points to.
    pub fn true_now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.origin)
    }

    /// Waits for true time to pass, whatever this machine's clocks show.
    pub async fn sleep_true(&self, d: Duration) {
        self.sleep_true_until(self.true_now().saturating_add(d)).await;
    }

    fn jump(&self, boot: Duration, raw: Duration) {
        self.change(|state, _| {
            state.boot.reading = state.boot.reading.saturating_add(boot);
            state.raw.reading = state.raw.reading.saturating_add(raw);
        });
    }

    fn change(&self, change: impl FnOnce(&mut State, Duration)) {
        change(&mut self.state(), self.true_now());
        self.machine.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.machine.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for(self, moment: Moment) {
        loop {
            // Before the look at the state: a change after it is then not missed.
            let changed = self.machine.changed.notified();
            let when = self.state().when(moment);
            match when {
                Some(when) if when <= self.true_now() => return,
                Some(when) => tokio::select! {
                    biased;
                    () = changed => {}
                    () = self.sleep_true_until(when) => {}
                },
                None => changed.await,
            }
        }
    }

    /// Waits for a true time, up to a millisecond longer: that is the grain of tokio's timers, which round up.
    #[allow(clippy::disallowed_methods)] // This is a clock: the component that the ban points to.
    async fn sleep_true_until(&self, when: Duration) {
        match self.origin.checked_add(when) {
            Some(instant) => tokio::time::sleep_until(instant).await,
            None => std::future::pending().await,
        }
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Moment {
        self.state().now(self.true_now())
    }

    fn wall(&self) -> SystemTime {
        let shown = SystemTime::UNIX_EPOCH + WALL_START + self.true_now();
        let offset = self.state().wall_offset_seconds;
        let distance = Duration::from_secs(offset.unsigned_abs());
        let stepped = if offset < 0 { shown.checked_sub(distance) } else { shown.checked_add(distance) };
        stepped.unwrap_or(shown)
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        Box::pin(self.clone().wait_for(moment))
    }
}

#[cfg(test)]
#[path = "virtual_clock_test.rs"]
mod tests;
