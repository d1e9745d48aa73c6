//! Pauses of a process: while its gate is shut, nothing reaches it and nothing leaves it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tenure_core::{Clock, Moment, Sleep};
use tenure_testkit::VirtualClock;

/// What stands between a process and everything that could wake it.
#[derive(Debug)]
pub struct Gate {
    time: VirtualClock,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    shut_until: Duration,
    crashed: bool,
}

impl Gate {
    /// Makes an open gate on true time.
    #[must_use]
    pub fn new(time: VirtualClock) -> Self {
        Self { time, state: Mutex::new(State { shut_until: Duration::ZERO, crashed: false }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts it for `d` from now on, or for as long as it is shut already.
    pub fn shut_for(&self, d: Duration) {
        let until = self.time.true_now().saturating_add(d);
        let mut state = self.state();
        state.shut_until = state.shut_until.max(until);
    }

    /// Opens it; a process that is gone stays gone.
    pub fn open(&self) {
        self.state().shut_until = self.time.true_now();
    }

    /// Shuts it for ever.
    pub fn crash(&self) {
        self.state().crashed = true;
    }

    /// Tells whether the process is gone.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        self.state().crashed
    }

    /// Tells whether the process runs now.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let state = self.state();
        !state.crashed && state.shut_until <= self.time.true_now()
    }

    /// Waits until the process runs.
    pub async fn pass(&self) {
        loop {
            let (shut_until, crashed) = {
                let state = self.state();
                (state.shut_until, state.crashed)
            };
            if crashed {
                return std::future::pending().await;
            }
            let left = shut_until.saturating_sub(self.time.true_now());
            if left.is_zero() {
                return;
            }
            self.time.sleep_true(left).await;
        }
    }
}

/// The clock of a process: that of its machine, and no timer fires while the process is paused.
#[derive(Clone, Debug)]
pub struct ProcessClock {
    /// The machine's clock.
    pub machine: VirtualClock,
    /// The process's gate.
    pub gate: Arc<Gate>,
}

impl Clock for ProcessClock {
    fn now(&self) -> Moment {
        self.machine.now()
    }

    fn wall(&self) -> SystemTime {
        self.machine.wall()
    }

    fn sleep_until(&self, moment: Moment) -> Sleep {
        let (sleep, gate) = (self.machine.sleep_until(moment), Arc::clone(&self.gate));
        Box::pin(async move {
            sleep.await;
            gate.pass().await;
        })
    }
}
