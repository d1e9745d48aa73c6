//! One timer for all sleepers of a process: one thread, one kernel timer, two ordered maps.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::Moment;
use super::kernel::{self, Alarm};

/// How many sleepers are taken out under one hold of the lock, so that many that are due at once do not keep
/// others from enlisting for more than some ten microseconds.
const BATCH: usize = 256;

/// How close a moment of the raw clock must be to be waited for in one go.
///
/// The kernel has no timer on the raw clock, only on the boot clock, which may run 10 % slower. A wait of
/// 10 ms is then little more than 1 ms late at worst; longer ones are made in steps that cannot overshoot.
const ONE_GO_NS: u64 = 10_000_000;

/// The part of a longer wait for the raw clock that is left for the next step: an eighth, a little more than
/// the tenth by which the kernel lets the boot clock be slewed.
const RESERVE: u64 = 8;

/// How long the thread waits in one go without an alarm.
///
/// A condition variable stands still in a suspend, so this is also how late a moment may be seen after one.
const WITHOUT_ALARM: Duration = Duration::from_millis(20);

/// A time of the boot clock that the thread never waits for: nobody sleeps.
const NEVER: u64 = u64::MAX;

/// A time of the boot clock that nothing is earlier than: the thread is about to look anyway.
const LOOKING: u64 = 0;

/// What a sleeper holds, besides its moment, to find its place in the queue again: a number that tells sleepers of
/// one moment apart, and keeps them in the order in which they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(NonZeroU64);

struct Sleeper {
    raw_ns: u64,
    waker: Waker,
}

/// Everybody who sleeps, ordered by both clocks because a moment has passed when either says so.
struct Queue {
    by_boot: BTreeMap<(u64, Ticket), Sleeper>,
    /// From raw time and ticket to boot time: where the sleeper stands in `by_boot`.
    by_raw: BTreeMap<(u64, Ticket), u64>,
    last_ticket: Ticket,
    /// When the thread looks next, by the boot clock.
    looks_at: u64,
    thread_runs: bool,
    alarm_failed: bool,
}

impl Queue {
    const fn new() -> Self {
        Self {
            by_boot: BTreeMap::new(),
            by_raw: BTreeMap::new(),
            last_ticket: Ticket(NonZeroU64::MIN),
            looks_at: LOOKING,
            thread_runs: false,
            alarm_failed: false,
        }
    }

    fn add(&mut self, moment: Moment, waker: Waker) -> Ticket {
        // Does not come to its end: with a billion sleepers a second it lasts for 584 years.
        let ticket = Ticket(self.last_ticket.0.saturating_add(1));
        self.last_ticket = ticket;
        self.by_raw.insert((moment.raw_ns(), ticket), moment.boot_ns());
        self.by_boot.insert((moment.boot_ns(), ticket), Sleeper { raw_ns: moment.raw_ns(), waker });
        ticket
    }

    fn waker_of(&mut self, moment: Moment, ticket: Ticket) -> Option<&mut Waker> {
        self.by_boot.get_mut(&(moment.boot_ns(), ticket)).map(|sleeper| &mut sleeper.waker)
    }

    fn remove(&mut self, moment: Moment, ticket: Ticket) -> Option<Waker> {
        let sleeper = self.by_boot.remove(&(moment.boot_ns(), ticket))?;
        self.by_raw.remove(&(moment.raw_ns(), ticket));
        Some(sleeper.waker)
    }

    /// Takes out who is due, the earliest first, at most [`BATCH`].
    fn take_due(&mut self, now: Moment, due: &mut Vec<Waker>) {
        let (boot_now, raw_now) = (now.boot_ns(), now.raw_ns());
        while due.len() < BATCH {
            let Some(first) = self.by_boot.first_entry().filter(|first| first.key().0 <= boot_now) else {
                break;
            };
            let ticket = first.key().1;
            let sleeper = first.remove();
            self.by_raw.remove(&(sleeper.raw_ns, ticket));
            due.push(sleeper.waker);
        }
        while due.len() < BATCH {
            let Some(first) = self.by_raw.first_entry().filter(|first| first.key().0 <= raw_now) else {
                break;
            };
            let ticket = first.key().1;
            let boot_ns = first.remove();
            if let Some(sleeper) = self.by_boot.remove(&(boot_ns, ticket)) {
                due.push(sleeper.waker);
            }
        }
    }

    /// Tells whether a sleeper that has just left was the earliest by either clock.
    fn is_before_all(&self, moment: Moment) -> bool {
        let by_boot = self.by_boot.first_key_value().is_none_or(|(first, _)| moment.boot_ns() <= first.0);
        by_boot || self.by_raw.first_key_value().is_none_or(|(first, _)| moment.raw_ns() <= first.0)
    }

    /// Says when to look for the earliest sleeper, by the boot clock.
    fn next_look(&self, now: Moment) -> u64 {
        match (self.by_boot.first_key_value(), self.by_raw.first_key_value()) {
            (Some((&(boot_ns, _), _)), Some((&(raw_ns, _), _))) => look_at(boot_ns, raw_ns, now),
            _ => NEVER,
        }
    }
}

/// Says when to look whether either clock has reached its time, by the boot clock: never too late by the boot
/// clock, and too late by the raw clock by at most a ninth of [`ONE_GO_NS`].
fn look_at(boot_ns: u64, raw_ns: u64, now: Moment) -> u64 {
    let raw_left = raw_ns.saturating_sub(now.raw_ns());
    let step = if raw_left <= ONE_GO_NS { raw_left } else { raw_left - raw_left / RESERVE };
    boot_ns.min(now.boot_ns().saturating_add(step))
}

/// The timer thread could not be started.
#[derive(Debug)]
pub(super) struct NoThread;

/// Wakes sleepers when their moment has passed.
pub(super) struct Timer {
    queue: Mutex<Queue>,
    alarm: OnceLock<Alarm>,
    /// Stands in for the alarm while none can be opened.
    earlier: Condvar,
    start: fn(&'static Timer) -> io::Result<()>,
    open: fn() -> io::Result<Alarm>,
    /// How often the thread has looked.
    #[cfg(test)]
    looks: std::sync::atomic::AtomicU64,
}

/// The timer of this process. Its thread starts with the first sleeper and never ends.
pub(super) static PROCESS: Timer = Timer::new(start_thread, Alarm::open);

pub(super) fn start_thread(timer: &'static Timer) -> io::Result<()> {
    std::thread::Builder::new().name("tenure-timer".to_owned()).spawn(|| timer.run()).map(drop)
}

impl Timer {
    const fn new(start: fn(&'static Timer) -> io::Result<()>, open: fn() -> io::Result<Alarm>) -> Self {
        Self {
            queue: Mutex::new(Queue::new()),
            alarm: OnceLock::new(),
            earlier: Condvar::new(),
            start,
            open,
            #[cfg(test)]
            looks: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Arranges that `waker` is woken once `moment` has passed, in place of the one before.
    ///
    /// A ticket whose sleeper is gone from the queue gets a new place, so that no order of events between a
    /// poll and the thread can leave somebody asleep for ever.
    pub(super) fn enlist(
        &'static self,
        ticket: &mut Option<Ticket>,
        moment: Moment,
        now: Moment,
        waker: &Waker,
    ) -> Result<(), NoThread> {
        if let Some(ticket) = *ticket
            && self.queue().waker_of(moment, ticket).is_some_and(|present| present.will_wake(waker))
        {
            return Ok(());
        }
        // Cloned before the lock is taken, and the waker before dropped after it is given back: both may run
        // foreign code, which may come back here.
        let mut waker = waker.clone();
        let mut queue = self.queue();
        if let Some(present) = ticket.and_then(|ticket| queue.waker_of(moment, ticket)) {
            std::mem::swap(present, &mut waker);
            drop(queue);
            return Ok(());
        }
        if !queue.thread_runs {
            (self.start)(self).map_err(|_| NoThread)?;
            queue.thread_runs = true;
        }
        *ticket = Some(queue.add(moment, waker));
        // Only an earlier look needs the kernel.
        let look = look_at(moment.boot_ns(), moment.raw_ns(), now);
        if look < queue.looks_at {
            queue.looks_at = look;
            self.look_earlier(&mut queue);
        }
        Ok(())
    }

    /// Gives a place up; harmless if the sleeper has been woken.
    pub(super) fn forget(&self, moment: Moment, ticket: Ticket) {
        let mut queue = self.queue();
        let waker = queue.remove(moment, ticket);
        // A call that was answered must not wake the process at the time at which it would have been given up.
        if waker.is_some() && queue.looks_at != LOOKING && queue.is_before_all(moment) {
            let look = queue.next_look(kernel::now());
            if look > queue.looks_at {
                queue.looks_at = look;
                self.look_later(&mut queue);
            }
        }
        drop(queue);
        // The lock is back by now: the last waker of a task may drop the task, and with it other sleeps.
        drop(waker);
    }

    /// Takes the lock, whatever happened to others while they had it: every change under it is complete
    /// before anything that could panic.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_earlier(&self, queue: &mut Queue) {
        if let Some(alarm) = self.alarm.get()
            && !queue.alarm_failed
        {
            // Fails only if somebody closed a file that is not theirs. The thread then looks at the time that
            // was set before, and goes on without the alarm.
            queue.alarm_failed = alarm.set(queue.looks_at).is_err();
        } else {
            self.earlier.notify_one();
        }
    }

    /// Without an alarm the thread looks at the time that was set before, in vain.
    fn look_later(&self, queue: &mut Queue) {
        if let Some(alarm) = self.alarm.get()
            && !queue.alarm_failed
            && queue.looks_at != NEVER
        {
            queue.alarm_failed = alarm.set(queue.looks_at).is_err();
        }
    }

    fn run(&self) {
        let mut due = Vec::with_capacity(BATCH);
        loop {
            #[cfg(test)]
            self.looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let mut queue = self.queue();
            let now = kernel::now();
            queue.take_due(now, &mut due);
            if due.is_empty() {
                self.wait(queue, now);
                continue;
            }
            drop(queue);
            for waker in due.drain(..) {
                // A waker is foreign code: its panic must not end the sleep of all others.
                let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            }
        }
    }

    /// Waits until the earliest sleeper may be due. Takes the lock along, so that nobody can enlist between
    /// the look at the queue and the setting of the alarm.
    fn wait<'a>(&'a self, mut queue: MutexGuard<'a, Queue>, now: Moment) {
        queue.looks_at = queue.next_look(now);
        match self.set_alarm(&mut queue) {
            Some(alarm) => {
                drop(queue);
                let outcome = alarm.wait();
                queue = self.queue();
                queue.alarm_failed |= outcome.is_err();
            }
            None => {
                let left = Duration::from_nanos(queue.looks_at.saturating_sub(now.boot_ns()));
                let (back, _) = self
                    .earlier
                    .wait_timeout(queue, left.min(WITHOUT_ALARM))
                    .unwrap_or_else(PoisonError::into_inner);
                queue = back;
            }
        }
        queue.looks_at = LOOKING;
    }

    /// Sets the alarm for the next look, if there is one that works. Tried again at every wait while the
    /// process has no file descriptor to spare.
    fn set_alarm(&self, queue: &mut Queue) -> Option<&Alarm> {
        if queue.alarm_failed {
            return None;
        }
        if self.alarm.get().is_none()
            && let Ok(opened) = (self.open)()
        {
            let _ = self.alarm.set(opened);
        }
        let alarm = self.alarm.get()?;
        // With nobody asleep the old time stays set: it has been read, or it costs one look in vain.
        if queue.looks_at != NEVER && alarm.set(queue.looks_at).is_err() {
            queue.alarm_failed = true;
            return None;
        }
        Some(alarm)
    }
}

#[cfg(test)]
impl Timer {
    /// Makes a timer of its own for one test, so that the test sees nobody else's sleepers.
    pub(super) fn new_for_test(start: fn(&'static Timer) -> io::Result<()>) -> &'static Self {
        Box::leak(Box::new(Self::new(start, Alarm::open)))
    }

    /// Counts who has a place in the queue.
    pub(super) fn sleepers(&self) -> usize {
        self.queue().by_boot.len()
    }
}

#[cfg(test)]
#[path = "timer_test.rs"]
mod tests;
