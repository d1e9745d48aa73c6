//! One simulated process: a candidate with a machine, a gate and a link of its own.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tenure_core::elector::{ElectionEvent, EndReason, EventKind, Heard, Timing};
use tenure_core::{CandidateId, Clock, Elections, ElectorHandle, Leadership, Random};
use tenure_testkit::VirtualClock;

use crate::fault;
use crate::gate::{Gate, ProcessClock};
use crate::network::{Link, unpoisoned};
use crate::trace::{Reason, Told, What, Who};
use crate::work::Work;
use crate::world::World;

/// One candidate.
pub struct Process {
    /// Its number.
    pub who: Who,
    /// Its name.
    pub name: CandidateId,
    /// Its clock.
    pub clock: ProcessClock,
    /// What stands between it and the rest.
    pub gate: Arc<Gate>,
    /// Its way to the servers.
    pub link: Arc<Link>,
    /// What proves that it lives, if it has a stable identity.
    pub proof: Option<File>,
    /// Its elections.
    pub elections: Elections,
    /// What the election is called in it; differs from the store's name in a twin.
    pub election: String,
    /// How it keeps time.
    pub timing: Timing,
    /// Its own draws.
    pub random: Random,
    /// The leadership of its last term, while that is worked on.
    pub leading: Mutex<Weak<Leadership>>,
    pub(crate) handle: Mutex<Option<ElectorHandle>>,
    pub(crate) stopping: AtomicBool,
    pub(crate) world: World,
}

impl Process {
    /// Returns the machine that it runs on.
    #[must_use]
    pub fn machine(&self) -> &VirtualClock {
        &self.clock.machine
    }

    /// Tells whether it takes part: neither gone nor stopping.
    #[must_use]
    pub fn stands(&self) -> bool {
        !self.gate.is_crashed() && !self.stopping.load(Ordering::Relaxed) && self.handle().is_some()
    }

    /// Tells whether its permission lasts by its own clocks, without asking (asking has consequences).
    #[must_use]
    pub fn leads(&self) -> bool {
        let leadership = unpoisoned(&self.leading).upgrade();
        let deadline = leadership.and_then(|leadership| leadership.deadline());
        !self.gate.is_crashed() && deadline.is_some_and(|deadline| !deadline.has_passed(self.clock.now()))
    }

    /// Returns the leadership that is worked on, if any.
    pub(crate) fn leadership(&self) -> Option<Arc<Leadership>> {
        unpoisoned(&self.leading).upgrade()
    }

    /// Stops everything in it for `d`, at most until faults stop.
    pub fn pause(&self, d: Duration) {
        let d = d.min(self.world.time_for_faults());
        self.world.add(self.who, What::Paused(d));
        if d > self.timing.ttl && self.leads() {
            self.world.fault(self.who, fault::PAUSED_PAST_TTL);
        }
        self.world.fault(self.who, fault::PAUSED);
        self.gate.shut_for(d);
    }

    /// Suspends its machine for `d`: nothing runs, the boot clock goes on, the raw clock stands still.
    pub fn suspend(&self, d: Duration) {
        let d = d.min(self.world.time_for_faults());
        self.world.fault(self.who, fault::SUSPENDED);
        self.pause(d);
        self.machine().suspend_for(d);
    }

    /// Ends it for ever; what it has sent is still under way.
    pub fn crash(&self) {
        self.world.add(self.who, What::Crashed);
        self.world.fault(self.who, fault::CRASH);
        self.gate.crash();
        if let Some(proof) = &self.proof
            && flock(proof, FlockOperation::Unlock).is_err()
        {
            self.world.unexpected("a lock could not be given up");
        }
    }

    pub(crate) fn handle(&self) -> Option<ElectorHandle> {
        unpoisoned(&self.handle).as_ref().map(ElectorHandle::observer)
    }

    /// Starts its elector.
    pub(crate) fn stand(self: &Arc<Self>, resign_on_failure: bool) {
        let (world, process) = (self.world.clone(), Arc::clone(self));
        let on_elected = move |leadership| Work::begin(&world, &process, leadership).run();
        let (world, process) = (self.world.clone(), Arc::clone(self));
        let on_term_end = move |_reason: EndReason| {
            let (world, process) = (world.clone(), Arc::clone(&process));
            world.add(process.who, What::EndCalled);
            async move {
                let takes = process.random.up_to(world.plan().work.end_takes);
                process.clock.sleep_until(process.clock.now().plus(takes)).await;
                world.add(process.who, What::EndOver);
                Ok(())
            }
        };
        let mut settings = self.world.settings(self.timing.ttl);
        if resign_on_failure {
            settings = settings.on_elected_failure(tenure_core::elector::OnElectedFailure::Resign);
        }
        let elector = self.elections.elector(self.election.clone()).settings(settings);
        match elector.on_elected(on_elected).on_term_end(on_term_end).start() {
            Ok(handle) => {
                self.listen(&handle);
                *unpoisoned(&self.handle) = Some(handle);
            }
            Err(_) => self.world.unexpected("an elector could not start"),
        }
    }

    /// Writes down what the elector tells.
    fn listen(self: &Arc<Self>, handle: &ElectorHandle) {
        let (mut events, process) = (handle.events(), Arc::clone(self));
        tokio::spawn(async move {
            let mut last = 0;
            while let Some(heard) = events.next().await {
                let (sequence, told) = match heard {
                    Heard::Event(event) => (event.sequence, told(&process.world, &event)),
                    Heard::Missed(count) => (last, Told::Missed(count)),
                };
                last = sequence;
                process.world.add(process.who, What::Told(sequence, told));
            }
        });
    }

    /// Says that it does not stand any more: it took part by single calls.
    pub fn retire(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Stops its elector, when the process runs.
    pub fn stop(self: &Arc<Self>) -> tokio::task::JoinHandle<()> {
        self.stopping.store(true, Ordering::Relaxed);
        let process = Arc::clone(self);
        tokio::spawn(async move {
            process.gate.pass().await;
            process.world.add(process.who, What::Stopping);
            if let Some(handle) = process.handle() {
                handle.stop().await;
            }
        })
    }

    /// Tells it to give up its term, when it runs and leads then.
    pub fn resign(self: &Arc<Self>) {
        let process = Arc::clone(self);
        tokio::spawn(async move {
            process.gate.pass().await;
            let Some(leadership) = process.leadership() else { return };
            process.world.add(process.who, What::Commanded(leadership.token()));
            process.world.fault(process.who, fault::RESIGN);
            drop(leadership);
            if let Some(handle) = process.handle() {
                // Not leading any more is a fine answer too.
                drop(handle.resign(None).await);
            }
        });
    }

    /// Tells it to hand its term to `to`, when it runs and leads then.
    pub fn hand_off(self: &Arc<Self>, to: &Arc<Process>) {
        let (process, to) = (Arc::clone(self), Arc::clone(to));
        tokio::spawn(async move {
            process.gate.pass().await;
            let Some(leadership) = process.leadership() else { return };
            process.world.add(process.who, What::Commanded(leadership.token()));
            process.world.fault(process.who, fault::HANDOFF);
            drop(leadership);
            if let Some(handle) = process.handle() {
                drop(handle.handoff(to.name.clone()).await);
            }
        });
    }
}

fn told(world: &World, event: &ElectionEvent) -> Told {
    match &event.kind {
        EventKind::LeaderChanged { .. } => Told::LeaderChanged,
        EventKind::Waiting { .. } => Told::Waiting,
        EventKind::BidFailed { .. } => Told::BidFailed,
        EventKind::Elected { token, .. } => Told::Elected(*token),
        EventKind::RenewFailed { token, .. } => Told::RenewFailed(*token),
        EventKind::Requested { token, id } => Told::Requested(*token, *id),
        EventKind::IdentityShared { token } => Told::IdentityShared(*token),
        EventKind::CallbackFailed { token, .. } => Told::CallbackFailed(*token),
        EventKind::Overrun { token } => Told::Overrun(*token),
        EventKind::LostWhileDraining { token } => Told::LostWhileDraining(*token),
        EventKind::TermEnded { token, reason } => Told::TermEnded(*token, why(world, reason)),
        EventKind::ReleaseFailed { token, .. } => Told::ReleaseFailed(*token),
        EventKind::Flapping { .. } => Told::Flapping,
        EventKind::Stopped => Told::Stopped,
        other => {
            world.unexpected("an event that the simulation does not know");
            drop(other.clone());
            Told::Missed(0)
        }
    }
}

fn why(world: &World, reason: &EndReason) -> Reason {
    match reason {
        EndReason::Stopped => Reason::Stopped,
        EndReason::WorkEnded => Reason::WorkEnded,
        EndReason::Resigned => Reason::Resigned,
        EndReason::HandedOff { to } => Reason::HandedOff(world.who_is(to.as_str())),
        EndReason::Lost => Reason::Lost,
        EndReason::DeadlinePassed => Reason::DeadlinePassed,
        _ => Reason::CallbackFailed,
    }
}
