//! Random sequences against the memory store, and random interleavings against the promises.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::task::yield_now;

use super::Ttl;
use super::support_test::{Rig, TTL, ms, secs};
use crate::clock::{Clock, ManualClock};
use crate::embedded::{MemoryStore, MemoryTtl};
use crate::name::{Attempt, RequestId};
use crate::random::Random;
use crate::store::ttl_store::{Entry, TtlStore};
use crate::store::{
    Acquisition, Action, Answer, Answered, Bid, ControlRequest, ErrorKind, Guarantees, Lease, LeaseStore,
    Next, Pause, Release, Released, Renew, Renewal, StoreError,
};
use crate::token::FencingToken;

/// What a sequence may refer back to.
#[derive(Default)]
struct Past {
    bids: Vec<Bid>,
    leases: Vec<Lease>,
    renewals: Vec<Renew>,
    releases: Vec<Release>,
    requests: Vec<ControlRequest>,
}

fn pick<T: Clone>(random: &Random, from: &[T]) -> Option<T> {
    // Mostly the latest, sometimes anything: late duplicates are part of life.
    let back = if random.below(3) == 0 { from.len() } else { 1 };
    let back = random.below(u64::try_from(back).unwrap());
    from.iter().rev().nth(usize::try_from(back).unwrap()).cloned()
}

fn next_bid(rig: &Rig, past: &Past) -> Bid {
    let random = &rig.random;
    if random.below(3) == 0
        && let Some(bid) = pick(random, &past.bids)
    {
        return rig.again(&bid);
    }
    let mut bid = rig.bid(["a", "b", "c"][usize::try_from(random.below(3)).unwrap()]);
    if random.below(8) == 0 {
        bid.supersedes = pick(random, &past.leases).map(|lease| lease.bid);
    }
    if random.below(8) == 0 {
        bid.floor = FencingToken(random.below(60));
    }
    bid
}

fn next_release(rig: &Rig, past: &Past) -> Option<Release> {
    let random = &rig.random;
    if random.below(4) == 0 {
        return pick(random, &past.releases);
    }
    let window = secs(1 + random.below(60));
    let candidate = rig.bid("b").candidate;
    Some(Release {
        next: match random.below(3) {
            0 => Next::Anybody,
            1 => Next::CoolDown(window),
            _ => Next::Successor { candidate, window },
        },
        succeeded: random.below(2) == 0,
        answer: next_answer(rig, past),
        ..rig.ending(&pick(random, &past.leases)?)
    })
}

fn next_answer(rig: &Rig, past: &Past) -> Option<Answered> {
    let request = pick(&rig.random, &past.requests).filter(|_| rig.random.below(2) == 0)?;
    Some(Answered { id: request.id, answer: Answer::Done })
}

async fn step(rig: &Rig, model: &MemoryStore, past: &mut Past) -> &'static str {
    let random = Arc::clone(&rig.random);
    let election = &rig.election;
    let (real, ideal) = (rig.leases.operator().unwrap(), model.operator().unwrap());
    match random.below(12) {
        0..=3 => {
            let bid = next_bid(rig, past);
            let answer = rig.acquire(&bid).await;
            assert_eq!(answer, model.acquire(election, &bid).await.unwrap());
            past.bids.push(bid);
            let Acquisition::Acquired(lease) = answer else {
                return "refused";
            };
            past.leases.push(lease);
            "acquired"
        }
        4..=6 => {
            let Some(lease) = pick(&random, &past.leases) else {
                return "nothing";
            };
            let fresh = Renew {
                answer: next_answer(rig, past),
                open: past.renewals.iter().rev().take(1).map(|r| r.attempt).collect(),
                ..rig.renewal(&lease)
            };
            let late = pick(&random, &past.renewals).filter(|_| random.below(4) == 0);
            let renewal = late.unwrap_or(fresh);
            let answer = rig.renew(&renewal).await.unwrap();
            let expected = model.renew(std::slice::from_ref(&renewal)).await.remove(0).unwrap();
            assert_eq!(answer, expected);
            past.renewals.push(renewal);
            let Renewal::Renewed(lease, _) = answer else {
                return "lost";
            };
            past.leases.push(lease);
            "renewed"
        }
        7 => {
            let Some(release) = next_release(rig, past) else {
                return "nothing";
            };
            let answer = rig.release(&release).await;
            assert_eq!(answer, model.release(&release).await.unwrap());
            past.releases.push(release);
            if answer == Released::Released { "released" } else { "not held" }
        }
        8 => {
            let request = ControlRequest {
                id: RequestId::new(&random),
                token: model.read(election).await.unwrap().map_or(FencingToken(1), |r| r.token),
                by: "op".into(),
                action: Action::Resign,
                expires_in: secs(random.below(40)),
            };
            let again = pick(&random, &past.requests).filter(|_| random.below(3) == 0);
            let request = again.unwrap_or(request);
            let attempt = rig.attempt();
            let answer = real.request(election, attempt, request.clone()).await.unwrap();
            let expected = ideal.request(election, attempt, request.clone()).await.unwrap();
            assert_eq!(answer, expected);
            past.requests.push(request);
            "requested"
        }
        9 if random.below(3) == 0 => {
            let pause = Pause { by: "op".into(), ends_in: secs(random.below(40)) };
            let attempt = rig.attempt();
            real.pause(election, attempt, pause.clone()).await.unwrap();
            ideal.pause(election, attempt, pause).await.unwrap();
            "paused"
        }
        9 => {
            let attempt = rig.attempt();
            real.resume(election, attempt).await.unwrap();
            ideal.resume(election, attempt).await.unwrap();
            "resumed"
        }
        _ => {
            rig.clock.advance(ms(random.below(20_000)));
            "waited"
        }
    }
}

#[tokio::test]
async fn one_after_the_other_every_call_answers_as_the_memory_store_does() {
    let mut counts = BTreeMap::<&str, usize>::new();
    for seed in 0..60 {
        let rig = Rig { random: Arc::new(Random::from_seed(seed)), ..Rig::new() };
        let model = MemoryStore::with_clock(Arc::new(rig.clock.clone()));
        let mut past = Past::default();
        for n in 0..200 {
            *counts.entry(step(&rig, &model, &mut past).await).or_default() += 1;
            assert_eq!(
                rig.leases.read(&rig.election).await.unwrap(),
                model.read(&rig.election).await.unwrap(),
                "seed {seed}, step {n}"
            );
        }
    }
    for what in ["acquired", "refused", "renewed", "lost", "released", "not held", "requested"] {
        assert!(counts.get(what).is_some_and(|n| *n > 50), "{what}: {counts:?}");
    }
}

/// A store whose verbs take their time and lose requests and answers, some of which arrive much later.
#[derive(Clone)]
struct Rough {
    memory: MemoryTtl,
    random: Arc<Random>,
    /// One verb of so many fails.
    faults: Arc<Mutex<Option<u64>>>,
}

impl Rough {
    async fn pass(&self) {
        for _ in 0..self.random.below(4) {
            yield_now().await;
        }
    }

    async fn verb<T: Send + 'static>(
        &self,
        apply: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let failed = || StoreError::new(ErrorKind::Timeout, "rough", "verb", "lost");
        let fault = self.faults.lock().unwrap().is_some_and(|one_of| self.random.below(one_of) == 0);
        self.pass().await;
        if !fault {
            let answer = apply.await;
            self.pass().await;
            return answer;
        }
        match self.random.below(3) {
            0 => {}
            1 => drop(apply.await),
            _ => {
                let late = self.random.below(400);
                tokio::spawn(async move {
                    for _ in 0..late {
                        yield_now().await;
                    }
                    apply.await.map(drop)
                });
            }
        }
        Err(failed())
    }
}

#[async_trait]
impl TtlStore for Rough {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let (memory, key) = (self.memory.clone(), key.to_owned());
        self.verb(async move { memory.get(&key).await }).await
    }

    async fn insert_if_absent(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let (memory, key) = (self.memory.clone(), key.to_owned());
        self.verb(async move { memory.insert_if_absent(&key, value, ttl).await }).await
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let (memory, key, expected) = (self.memory.clone(), key.to_owned(), expected.to_vec());
        self.verb(async move { memory.compare_and_swap(&key, &expected, new, ttl).await }).await
    }

    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError> {
        let (memory, key, expected) = (self.memory.clone(), key.to_owned(), expected.to_vec());
        self.verb(async move { memory.compare_and_delete(&key, &expected).await }).await
    }

    fn guarantees(&self) -> Guarantees {
        self.memory.guarantees()
    }
}

/// Everybody's permissions, by true time.
#[derive(Default)]
struct Watchman {
    leading: BTreeMap<String, Duration>,
    highest: FencingToken,
    terms: usize,
    seen: Vec<String>,
}

struct Candidate {
    name: String,
    rig: Rig,
    leases: Ttl<Rough>,
    clock: ManualClock,
    watchman: Arc<Mutex<Watchman>>,
    sent: BTreeMap<Attempt, Duration>,
}

impl Candidate {
    fn now(&self) -> Duration {
        self.clock.now().boot()
    }

    /// Permission lasts from now until a ttl after the send of the attempt that was applied.
    fn permit(&self, lease: &Lease, begin: bool) -> bool {
        let deadline = self.sent[&lease.attempt] + TTL;
        let now = self.now();
        let mut watchman = self.watchman.lock().unwrap();
        if deadline <= now {
            return false;
        }
        for (other, until) in &watchman.leading {
            assert!(*other == self.name || *until <= now, "{} beside {other}", self.name);
        }
        if begin {
            let token = lease.token;
            assert!(token > watchman.highest, "{token:?} after {:?}", watchman.highest);
            watchman.highest = token;
            watchman.terms += 1;
            watchman.seen.push(self.name.clone());
        }
        watchman.leading.insert(self.name.clone(), deadline);
        true
    }

    fn stop(&self) {
        self.watchman.lock().unwrap().leading.remove(&self.name);
    }

    async fn campaign(&mut self) -> Option<Lease> {
        let mut bid = self.rig.bid(&self.name);
        for _ in 0..4 {
            self.sent.insert(bid.attempt, self.now());
            match self.leases.acquire(&self.rig.election, &bid).await {
                Ok(Acquisition::Acquired(lease)) => return Some(lease),
                Ok(Acquisition::Refused(_)) => return None,
                Err(_) => bid = self.rig.again(&bid),
            }
        }
        None
    }

    async fn term(&mut self, mut lease: Lease) {
        let mut open = Vec::new();
        let mut led = self.permit(&lease, true);
        while led && self.rig.random.below(6) != 0 {
            for _ in 0..self.rig.random.below(30) {
                yield_now().await;
            }
            let renewal = Renew { open: open.clone(), ..self.rig.renewal(&lease) };
            self.sent.insert(renewal.attempt, self.now());
            match self.leases.renew(std::slice::from_ref(&renewal)).await.remove(0) {
                Ok(Renewal::Renewed(renewed, _)) => {
                    lease = renewed;
                    open.clear();
                    led = self.permit(&lease, false);
                }
                Ok(Renewal::Lost(_)) => {
                    self.stop();
                    return;
                }
                Err(_) => open.push(renewal.attempt),
            }
        }
        self.stop();
        let release = Release { open, ..self.rig.ending(&lease) };
        for _ in 0..3 {
            if self.leases.release(&release).await.is_ok() {
                return;
            }
        }
    }
}

async fn run_rough(seed: u64) -> Watchman {
    let rig = Rig { random: Arc::new(Random::from_seed(seed)), ..Rig::new() };
    let faults = Arc::new(Mutex::new(Some(12)));
    let store = Rough {
        memory: rig.store.memory.clone(),
        random: Arc::clone(&rig.random),
        faults: Arc::clone(&faults),
    };
    let watchman = Arc::new(Mutex::new(Watchman::default()));
    let clock = rig.clock.clone();
    let time = {
        let (clock, random) = (clock.clone(), Arc::clone(&rig.random));
        tokio::spawn(async move {
            loop {
                // Now and then somebody oversleeps.
                let most = if random.below(200) == 0 { 40_000 } else { 1_000 };
                clock.advance(ms(random.below(most)));
                yield_now().await;
            }
        })
    };
    let tasks: Vec<_> = (0..4)
        .map(|n| {
            let mut candidate = Candidate {
                name: format!("c{n}"),
                rig: rig.clone(),
                leases: Ttl::with_clock(store.clone(), Arc::new(clock.clone())),
                clock: clock.clone(),
                watchman: Arc::clone(&watchman),
                sent: BTreeMap::new(),
            };
            tokio::spawn(async move {
                for _ in 0..60 {
                    if let Some(lease) = candidate.campaign().await {
                        candidate.term(lease).await;
                    }
                    for _ in 0..candidate.rig.random.below(80) {
                        yield_now().await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    *faults.lock().unwrap() = None;
    time.abort();
    let _ = time.await;
    // What came late has come by now; then the election heals within two ttls.
    for _ in 0..500 {
        yield_now().await;
    }
    clock.advance(TTL);
    clock.advance(TTL);
    let leases = Ttl::new(store);
    let healed = leases.acquire(&rig.election, &rig.bid("last")).await.unwrap();
    let Acquisition::Acquired(lease) = healed else { panic!("seed {seed}: {healed:#?}") };
    let watchman = std::mem::take(&mut *watchman.lock().unwrap());
    assert!(lease.token > watchman.highest);
    watchman
}

#[tokio::test]
async fn in_any_order_at_most_one_leads_and_tokens_rise() {
    let (mut terms, mut leaders) = (0, 0);
    for seed in 0..25 {
        let watchman = run_rough(seed).await;
        terms += watchman.terms;
        let changes = watchman.seen.windows(2).filter(|pair| pair[0] != pair[1]);
        leaders += changes.count();
    }
    assert!(terms > 700, "{terms}");
    assert!(leaders > 500, "{leaders}");
}
