//! The work of a leader: asks, acts, stops when told to, or does not.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tenure_core::elector::CallbackError;
use tenure_core::{ClockExt, FencingToken, Leadership, Random};

use crate::fault;
use crate::plan::WorkPlan;
use crate::process::Process;
use crate::trace::What;
use crate::world::World;

/// How the work of one term behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// Stops within the drain time.
    Obedient(Duration),
    /// Goes on until it is killed.
    Stubborn,
    /// Cannot be killed; goes on for this long after the end.
    Unkillable(Duration),
    /// Fails at once.
    Failing,
}

/// What one term's work needs.
pub(crate) struct Work {
    world: World,
    process: Arc<Process>,
    leadership: Arc<Leadership>,
    random: Random,
    plan: WorkPlan,
}

/// Says when the work has ended, however it ended.
struct Ended {
    world: World,
    process: Arc<Process>,
    token: FencingToken,
}

impl Drop for Ended {
    fn drop(&mut self) {
        self.world.add(self.process.who, What::WorkEnded(self.token));
    }
}

impl Work {
    /// Takes up the work of a term; called from `on_elected`, at the very moment of the election.
    pub(crate) fn begin(world: &World, process: &Arc<Process>, leadership: Leadership) -> Self {
        let leadership = Arc::new(leadership);
        let (token, deadline) = (leadership.token(), leadership.deadline());
        world.add(process.who, What::Elected { token, deadline });
        *process.leading.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&leadership);
        world.elected(process);
        let random = Random::from_seed(process.random.next_u64());
        let plan = world.plan().work;
        Self { world: world.clone(), process: Arc::clone(process), leadership, random, plan }
    }

    fn manner(&self) -> Manner {
        let drain = self.process.timing.drain_timeout;
        let drawn = self.random.below(1000);
        if !self.world.is_stormy() {
            return Manner::Obedient(self.random.up_to(drain / 4));
        }
        let (stubborn, unkillable) = (self.plan.stubborn, self.plan.stubborn + self.plan.unkillable);
        if drawn < stubborn {
            self.world.fault(self.process.who, fault::STUBBORN_WORK);
            Manner::Stubborn
        } else if drawn < unkillable {
            self.world.fault(self.process.who, fault::STUBBORN_WORK);
            Manner::Unkillable(self.random.up_to(self.plan.linger))
        } else if drawn < unkillable + self.plan.fails {
            self.world.fault(self.process.who, fault::WORK_FAILED);
            Manner::Failing
        } else {
            Manner::Obedient(self.random.up_to(drain * 3 / 4))
        }
    }

    /// Works for as long as the term lasts, and a little longer.
    pub(crate) async fn run(self) -> Result<(), CallbackError> {
        let ended = Ended {
            world: self.world.clone(),
            process: Arc::clone(&self.process),
            token: self.leadership.token(),
        };
        let manner = self.manner();
        match manner {
            Manner::Failing => {
                drop(ended);
                return Err("the work failed".into());
            }
            Manner::Unkillable(linger) => {
                // A task of its own that holds the leadership: the elector can only wait for it.
                tokio::spawn(async move {
                    self.lead().await;
                    self.drain(linger).await;
                    drop(ended);
                    drop(self);
                });
            }
            Manner::Obedient(linger) => {
                self.lead().await;
                self.drain(linger).await;
                drop(ended);
            }
            Manner::Stubborn => {
                self.lead().await;
                self.drain(Duration::MAX).await;
                drop(ended);
            }
        }
        Ok(())
    }

    async fn lead(&self) {
        let clock = &self.process.clock;
        loop {
            let nap = clock.sleep(Duration::from_millis(1) + self.random.up_to(self.plan.act_every * 2));
            tokio::select! {
                biased;
                () = self.leadership.cancelled() => return,
                () = nap => {}
            }
            if !self.ask() {
                return;
            }
            let overtaken = self.world.is_stormy() && self.random.below(1000) < self.plan.pause_before_act;
            if overtaken {
                self.world.fault(self.process.who, fault::PAUSED_BEFORE_ACT);
                self.process.pause(self.random.up_to(self.plan.pause_up_to));
                self.process.gate.pass().await;
            }
            self.act(overtaken, false);
        }
    }

    async fn drain(&self, linger: Duration) {
        let clock = &self.process.clock;
        let over = clock.machine.true_now().saturating_add(linger);
        loop {
            let left = over.saturating_sub(clock.machine.true_now());
            if left.is_zero() || (linger != Duration::MAX && !self.world.is_stormy()) {
                return;
            }
            // Often: an overlap of a few milliseconds shall be seen.
            let nap = self.random.up_to(self.plan.act_every / 8) + Duration::from_millis(1);
            clock.sleep(nap.min(left)).await;
            // Whoever else asks in this process must not be told yes again.
            self.ask();
            self.act(false, true);
        }
    }

    fn ask(&self) -> bool {
        let answer = self.leadership.is_leader();
        let (token, deadline) = (self.leadership.token(), self.leadership.deadline());
        self.world.add(self.process.who, What::Asked { token, answer, deadline });
        answer
    }

    fn act(&self, overtaken: bool, draining: bool) {
        let token = self.leadership.token();
        let accepted = self.world.write_to_resource(token);
        self.world.add(self.process.who, What::Acted { token, overtaken, draining, accepted });
    }
}
