//! What lies at the edges: calls that never end, long outages, callbacks that block, stores with odd promises.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::embedded::MemoryStore;
use tenure_core::store::{Acquisition, Bid, Changes, ErrorKind, Guarantees, LeaseStore, StoreError, Wake};
use tenure_core::{
    Attempt, BidId, CandidateId, ClockExt, ElectionName, Elections, FencingToken, Random, Settings,
    StableIdentity, SystemClock,
};
use tenure_testkit::fault::{Fault, Faulty, Verb};
use tenure_testkit::{Twist, Twisted};

use crate::world::{CALL, TTL, World, election, secs};

#[tokio::test(start_paused = true)]
async fn a_follower_stands_again_when_the_store_is_back_although_old_calls_never_end() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Acquire, Fault::Hang);
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(3600)).await;
    a.faults.clear();
    world.sleep(secs(100)).await;
    assert!(handle.is_leader(), "{:?}", handle.status());
}

/// Notes how many open attempts each bid names.
#[derive(Default)]
struct Noting(Mutex<Vec<usize>>);

#[async_trait]
impl Twist for Noting {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        self.0.lock().unwrap().push(bid.open.len());
        inner.acquire(election, bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_outage_is_forgotten_when_it_is_over() {
    let world = World::new();
    let leader = world.candidate("leader");
    let _leadership = leader.lead("e").await.unwrap();
    let noting = Arc::new(Noting::default());
    let store = Twisted::sharing(world.store.clone(), Arc::clone(&noting));
    let a = world.candidate_on(store, "a", Settings::ttl(TTL));
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let _handle = a.elector("e").start().unwrap();
    world.sleep(secs(3600)).await;
    a.faults.clear();
    world.sleep(secs(3600)).await;
    let opens = noting.0.lock().unwrap();
    assert!(opens.iter().all(|open| *open <= 64));
    assert_eq!(opens.last(), Some(&0), "an hour after the outage a bid names no attempts of that time");
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_takes_its_own_lease_at_once_also_after_a_failed_call() {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let process = |name: &str| {
        let store = Faulty::new(world.store.clone(), Arc::new(world.clock.clone()));
        let faults = store.faults();
        let elections = Elections::builder(store)
            .clock(Arc::new(world.clock.beside()))
            .candidate(world.id(name))
            .identity(StableIdentity::open("web-1", &state, None).unwrap())
            .settings(Settings::ttl(TTL))
            .build();
        (elections, faults)
    };
    // The first process leads; what it wrote is written once more, in a term that nobody gives back.
    let (first, _) = process("first");
    let leadership = first.lead("e").await.unwrap();
    let holder = world.record().await.holder.unwrap();
    drop(leadership);
    first.close().await;
    drop(first);
    let random = Random::from_os();
    let bid = Bid {
        id: BidId::new(&random),
        attempt: Attempt::new(&random),
        open: vec![],
        candidate: holder.candidate,
        identity: holder.identity,
        origin: holder.origin,
        ttl: TTL,
        metadata: holder.metadata,
        floor: FencingToken::ZERO,
        supersedes: None,
    };
    assert!(matches!(world.store.acquire(&election(), &bid).await, Ok(Acquisition::Acquired(_))));
    world.sleep(secs(1)).await;
    let (second, faults) = process("second");
    faults.next(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let began = world.now();
    let leadership = second.lead("e").await.unwrap();
    assert!(world.now() - began < CALL);
    assert!(leadership.token() > FencingToken(2));
}

#[tokio::test(start_paused = true)]
async fn commands_are_answered_while_a_stopping_elector_drains() {
    let world = World::new();
    let a = world.candidate("a");
    let handle = a
        .elector("e")
        .on_elected(|leadership| async move {
            tokio::spawn(async move {
                let _still_works = leadership;
                std::future::pending::<()>().await;
            });
            Ok(())
        })
        .start()
        .unwrap();
    world.leads(&handle).await;
    let stopping = handle.clone();
    tokio::spawn(async move { stopping.stop().await });
    world.sleep(secs(1)).await;
    let answer = world.within(secs(1), "an answer to resign", handle.resign(None)).await;
    assert!(answer.is_err());
}

/// A store that has its followers look this often.
struct Looks(Duration);

#[async_trait]
impl Twist for Looks {
    fn watch(&self, _: &dyn LeaseStore, _: &[ElectionName]) -> Option<Changes> {
        None
    }

    fn guarantees(&self, inner: &dyn LeaseStore) -> Guarantees {
        Guarantees { wake: Wake::Look(self.0), ..inner.guarantees() }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_always_look_is_not_asked_without_a_break() {
    let world = World::new();
    let _leadership = world.candidate("leader").lead("e").await.unwrap();
    let a =
        world.candidate_on(Twisted::new(world.store.clone(), Looks(Duration::ZERO)), "a", Settings::ttl(TTL));
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    let bids = handle.status().attempts;
    assert!((10..=100).contains(&bids), "{bids} bids in a second");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_says_never_look_does_not_break_a_handoff() {
    let world = World::new();
    let store = Twisted::new(world.store.clone(), Looks(Duration::MAX));
    let a = world.candidate_on(store, "a", Settings::ttl(TTL));
    let handle = a.elector("e").start().unwrap();
    world.leads(&handle).await;
    assert_eq!(handle.handoff(CandidateId::new("somebody").unwrap()).await, Ok(()));
    world.sleep(secs(100)).await;
    assert!(handle.is_leader(), "{:?}", handle.status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_callback_that_blocks_before_its_future_does_not_stop_renewals() {
    let store = MemoryStore::new();
    let elections = Elections::builder(store.clone())
        .settings(Settings::ttl(Duration::from_millis(1500)).latency(Duration::from_millis(20)))
        .build();
    let (release, blocked) = mpsc::channel::<()>();
    let handle = elections
        .elector("blocks")
        .on_elected(move |_leadership| {
            // Until the test has seen what it wants to see.
            let _ = blocked.recv();
            async { Ok(()) }
        })
        .start()
        .unwrap();
    let name = ElectionName::new("blocks").unwrap();
    let mut renewals = 0;
    // A minute is far beyond two renewals of half a second.
    for _ in 0..6000 {
        renewals = store.read(&name).await.unwrap().map_or(0, |record| record.renew_total);
        if renewals >= 2 {
            break;
        }
        SystemClock.sleep(Duration::from_millis(10)).await;
    }
    drop(release);
    assert!(renewals >= 2, "renewed under a callback that blocks");
    handle.stop().await;
}

/// Holds bids back until it is told to let them go, the newest first, and yields between the answers: as a server that
/// was stopped answers over many connections.
#[derive(Default)]
struct Stopped(Mutex<Vec<tokio::sync::oneshot::Sender<()>>>);

#[async_trait]
impl Twist for Stopped {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let (let_go, told) = tokio::sync::oneshot::channel();
        self.0.lock().unwrap().push(let_go);
        let _ = told.await;
        inner.acquire(election, bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wakes_and_answers_every_old_call_frees_no_lease_that_is_led() {
    let world = World::new();
    let stopped = Arc::new(Stopped::default());
    let store = Twisted::sharing(world.store.clone(), Arc::clone(&stopped));
    let a = world.candidate_on(store, "a", Settings::ttl(TTL));
    let handle = a.elector("e").start().unwrap();
    // Far beyond the calls that are kept under way, and until one has just been sent.
    while stopped.0.lock().unwrap().len() < 15 {
        world.sleep(secs(1)).await;
    }
    // The newest first: it wins, and the oldest calls of the same bid find it won. The others stay on their way.
    let mut calls: Vec<_> = stopped.0.lock().unwrap().drain(..).collect();
    let _ = calls.pop().unwrap().send(());
    for call in calls.drain(..7) {
        let _ = call.send(());
    }
    world.leads(&handle).await;
    let token = handle.status().token;
    world.sleep(secs(100)).await;
    assert!(handle.is_leader());
    assert_eq!((world.record().await.token, handle.status().terms), (token, 1));
}
