//! What the behaviours are played in: one true time, one store, candidates on machines of their own.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tenure_core::elector::{ElectionEvent, ElectorState, EventKind, Events, Heard};
use tenure_core::embedded::MemoryStore;
use tenure_core::store::{Changes, Guarantees, LeaseRecord, LeaseStore, Next, Release, Released, Wake};
use tenure_core::{
    Attempt, CandidateId, Clock, ClockExt, ElectionName, Elections, ElectorHandle, Moment, Random, Settings,
};
use tenure_testkit::fault::{Faults, Faulty};
use tenure_testkit::{Twist, Twisted, VirtualClock};

/// The ttl of a candidate that is given no settings. What follows from it: renew 10 s, retry 5 s, drain 5 s, one
/// call 5 s, latency 100 ms, drift 10 %.
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// From the send to the end of permission: 30 s × 0.9 − 100 ms − 5 s.
pub(crate) const TRUST: Duration = Duration::from_millis(21_900);

/// From the send to the moment when all work must have ended.
pub(crate) const MUST_STOP: Duration = Duration::from_millis(26_900);

pub(crate) const RENEW: Duration = Duration::from_secs(10);
pub(crate) const RETRY: Duration = Duration::from_secs(5);
pub(crate) const DRAIN: Duration = Duration::from_secs(5);
pub(crate) const CALL: Duration = Duration::from_secs(5);
pub(crate) const LATENCY: Duration = Duration::from_millis(100);

/// The grain of tokio's timers: what is waited for comes up to this much later.
pub(crate) const TICK: Duration = Duration::from_millis(1);

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) fn election() -> ElectionName {
    ElectionName::new("e").unwrap()
}

/// A store and a clock that moves by itself while everybody waits.
pub(crate) struct World {
    /// The store's clock, and the true time.
    pub(crate) clock: VirtualClock,
    pub(crate) store: MemoryStore,
    /// Tells worlds apart: a process has one seat per candidate and election, and all tests share a process.
    number: u64,
    random: Random,
    wall_start: SystemTime,
}

impl World {
    pub(crate) fn new() -> Self {
        static WORLDS: AtomicU64 = AtomicU64::new(0);
        let clock = VirtualClock::new();
        Self {
            store: MemoryStore::with_clock(Arc::new(clock.clone())),
            number: WORLDS.fetch_add(1, Ordering::Relaxed),
            random: Random::from_seed(0),
            wall_start: clock.wall() - clock.true_now(),
            clock,
        }
    }

    pub(crate) fn id(&self, name: &str) -> CandidateId {
        CandidateId::new(format!("{name}_{}", self.number)).unwrap()
    }

    /// A process on a machine of its own, whose way to the store can be disturbed.
    pub(crate) fn candidate(&self, name: &str) -> Candidate {
        self.candidate_with(name, Settings::ttl(TTL))
    }

    pub(crate) fn candidate_with(&self, name: &str, settings: Settings) -> Candidate {
        self.candidate_on(self.store.clone(), name, settings)
    }

    pub(crate) fn candidate_on(&self, store: impl LeaseStore, name: &str, settings: Settings) -> Candidate {
        let clock = self.clock.beside();
        // On the store's side of the way: a machine that is suspended does not stop what it has sent.
        let store = Faulty::new(store, Arc::new(self.clock.clone()));
        let faults = store.faults();
        let elections = Elections::builder(store)
            .clock(Arc::new(clock.clone()))
            .candidate(self.id(name))
            .settings(settings)
            // One seed is one sequence of ids: two names must not share it.
            .seed(name.bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(257) + u64::from(byte)))
            .build();
        Candidate { elections, clock, faults }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.true_now()
    }

    /// The true time of an event.
    pub(crate) fn time_of(&self, event: &ElectionEvent) -> Duration {
        event.at.duration_since(self.wall_start).unwrap()
    }

    pub(crate) async fn sleep(&self, d: Duration) {
        self.clock.sleep(d).await;
    }

    pub(crate) async fn sleep_until(&self, true_time: Duration) {
        self.clock.sleep(true_time.saturating_sub(self.now())).await;
    }

    pub(crate) async fn record(&self) -> LeaseRecord {
        self.store.read(&election()).await.unwrap().unwrap()
    }

    /// Waits for a fact, at most this long: what never happens is a failure, not a hang.
    pub(crate) async fn within<T>(&self, limit: Duration, what: &str, fact: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            fact = fact => fact,
            () = self.sleep(limit) => panic!("did not happen within {limit:?}: {what}"),
        }
    }

    pub(crate) async fn reaches(&self, handle: &ElectorHandle, state: ElectorState) {
        let mut statuses = handle.statuses();
        let reached = async { drop(statuses.wait_for(|status| status.state == state).await.unwrap()) };
        self.within(secs(600), &format!("{state:?}"), reached).await;
    }

    pub(crate) async fn leads(&self, handle: &ElectorHandle) {
        self.reaches(handle, ElectorState::Leading).await;
    }

    /// Waits until the election is free, looking every millisecond.
    pub(crate) async fn is_free(&self) {
        let free = async {
            while self.record().await.time_left.is_some() {
                self.sleep(TICK).await;
            }
        };
        self.within(secs(600), "free", free).await;
    }

    /// Frees the lease by hand, as somebody at the store's console would.
    pub(crate) async fn take_away(&self) {
        let record = self.record().await;
        let release = Release {
            lease: record.lease_of(record.leader().unwrap().bid).unwrap(),
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        };
        assert_eq!(self.store.release(&release).await.unwrap(), Released::Released);
    }

    pub(crate) fn ears(&self, handle: &ElectorHandle) -> Ears<'_> {
        Ears { world: self, events: handle.events() }
    }
}

/// One process.
pub(crate) struct Candidate {
    elections: Elections,
    pub(crate) clock: VirtualClock,
    pub(crate) faults: Faults,
}

impl Candidate {
    /// Stops the machine for good: nothing on it wakes again in any test.
    pub(crate) fn crash(&self) {
        self.clock.suspend_for(secs(1_000_000));
    }

    /// The moment on this machine's clock at a true time.
    pub(crate) fn moment(&self, true_time: Duration) -> Moment {
        let now = self.clock.true_now();
        self.clock.now().plus(true_time.saturating_sub(now)).minus(now.saturating_sub(true_time))
    }
}

impl Deref for Candidate {
    type Target = Elections;

    fn deref(&self) -> &Elections {
        &self.elections
    }
}

/// Listens to one elector.
pub(crate) struct Ears<'a> {
    world: &'a World,
    events: Events,
}

impl Ears<'_> {
    /// Hears everything up to the first event that fits, which is the last one returned.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        fits: impl Fn(&EventKind) -> bool,
    ) -> Vec<Arc<ElectionEvent>> {
        let mut all = Vec::new();
        let heard = async {
            loop {
                match self.events.next().await {
                    Some(Heard::Event(event)) => {
                        all.push(event);
                        if all.last().is_some_and(|event| fits(&event.kind)) {
                            return;
                        }
                    }
                    other => panic!("{other:?} instead of {what}"),
                }
            }
        };
        self.world.within(secs(100_000), what, heard).await;
        all
    }

    pub(crate) async fn elected(&mut self) -> Vec<Arc<ElectionEvent>> {
        self.until("elected", |kind| matches!(kind, EventKind::Elected { .. })).await
    }

    pub(crate) async fn term_ended(&mut self) -> Vec<Arc<ElectionEvent>> {
        self.until("term ended", |kind| matches!(kind, EventKind::TermEnded { .. })).await
    }

    /// Everything that was published so far.
    pub(crate) fn so_far(&mut self) -> Vec<Arc<ElectionEvent>> {
        let mut all = Vec::new();
        while let Some(heard) = self.events.try_next() {
            match heard {
                Heard::Event(event) => all.push(event),
                Heard::Missed(count) => panic!("missed {count}"),
            }
        }
        all
    }
}

/// Tells events in short, for comparing a whole sequence.
pub(crate) fn in_short(events: &[Arc<ElectionEvent>]) -> Vec<String> {
    events.iter().map(|event| short(&event.kind)).collect()
}

fn short(kind: &EventKind) -> String {
    match kind {
        EventKind::LeaderChanged { leader, .. } => {
            format!(
                "leader {}",
                leader.as_ref().map_or("-", |leader| leader.as_str().split('_').next().unwrap())
            )
        }
        EventKind::Waiting { state, opens_in } => {
            format!("waiting: {state:?} for {:?}", opens_in.unwrap_or_default())
        }
        EventKind::BidFailed { error } => format!("bid failed {}", error.kind()),
        EventKind::Elected { token, .. } => format!("elected {token}"),
        EventKind::RenewFailed { token, error, .. } => format!("renew failed {token} {}", error.kind()),
        EventKind::Requested { token, .. } => format!("requested {token}"),
        EventKind::IdentityShared { token } => format!("identity shared {token}"),
        EventKind::CallbackFailed { token, callback, error } => format!("{callback} failed {token}: {error}"),
        EventKind::Overrun { token } => format!("overrun {token}"),
        EventKind::TermEnded { token, reason } => format!("term ended {token}: {reason}"),
        EventKind::ReleaseFailed { token, error } => format!("release failed {token} {}", error.kind()),
        EventKind::Flapping { terms, .. } => format!("flapping {terms}"),
        EventKind::Stopped => "stopped".into(),
        other => format!("{other:?}"),
    }
}

/// How many events of one sort.
pub(crate) fn count(events: &[Arc<ElectionEvent>], begins: &str) -> usize {
    in_short(events).iter().filter(|told| told.starts_with(begins)).count()
}

/// Makes a store that cannot wake anybody: followers look every minute at most.
pub(crate) fn mute(store: impl LeaseStore) -> Twisted<Mute> {
    Twisted::new(store, Mute)
}

pub(crate) struct Mute;

impl Twist for Mute {
    fn watch(&self, _: &dyn LeaseStore, _: &[ElectionName]) -> Option<Changes> {
        None
    }

    fn guarantees(&self, inner: &dyn LeaseStore) -> Guarantees {
        Guarantees { wake: Wake::Look(secs(60)), ..inner.guarantees() }
    }
}
