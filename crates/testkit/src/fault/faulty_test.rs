use std::time::Duration;

use futures_util::FutureExt;
use tenure_core::embedded::MemoryStore;
use tenure_core::store::{Lease, Metadata, Next, Origin, RecordState};
use tenure_core::{BidId, FencingToken, ManualClock, Random};

use super::*;

const TTL: Duration = Duration::from_secs(30);

struct World {
    clock: Arc<ManualClock>,
    store: Faulty<MemoryStore>,
    faults: Faults,
    random: Random,
    election: ElectionName,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new());
        let store = Faulty::new(MemoryStore::with_clock(clock.clone()), clock.clone());
        Self {
            clock,
            faults: store.faults(),
            store,
            random: Random::from_seed(1),
            election: ElectionName::new("billing").unwrap(),
        }
    }

    fn bid(&self) -> Bid {
        Bid {
            id: BidId::new(&self.random),
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            candidate: CandidateId::new("first").unwrap(),
            identity: None,
            origin: Origin::default(),
            ttl: TTL,
            metadata: Metadata::new(),
            floor: FencingToken::ZERO,
            supersedes: None,
        }
    }

    async fn win(&self) -> Lease {
        match self.store.inner().acquire(&self.election, &self.bid()).await {
            Ok(Acquisition::Acquired(lease)) => lease,
            other => panic!("{other:?}"),
        }
    }

    fn renewal(&self, lease: &Lease) -> Renew {
        Renew {
            lease: lease.clone(),
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            answer: None,
        }
    }

    fn release(&self, lease: &Lease) -> Release {
        Release {
            lease: lease.clone(),
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        }
    }

    /// What the store underneath has, past every fault.
    async fn record(&self) -> Option<LeaseRecord> {
        self.store.inner().read(&self.election).await.unwrap()
    }
}

#[tokio::test]
async fn a_request_lost_before_the_store_changes_nothing() {
    let world = World::new();
    world
        .faults
        .next(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let error = world
        .store
        .acquire(&world.election, &world.bid())
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.store(), error.operation()),
        (ErrorKind::Unavailable, "memory", "acquire")
    );
    assert_eq!(world.record().await, None);
    assert_eq!(world.faults.injected(Verb::Acquire), 1);
}

#[tokio::test]
async fn an_answer_lost_after_the_store_leaves_the_call_applied() {
    let world = World::new();
    world.faults.next(Verb::Acquire, Fault::After(ErrorKind::Timeout));
    let bid = world.bid();
    let error = world.store.acquire(&world.election, &bid).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(world.record().await.unwrap().lease_of(bid.id).is_some());
    let again = world.store.acquire(&world.election, &bid).await;
    assert!(matches!(again, Ok(Acquisition::Acquired(_))), "only the next one");
}

#[tokio::test]
async fn every_renewal_of_a_failed_call_has_its_own_error() {
    let world = World::new();
    let lease = world.win().await;
    world.faults.always(Verb::Renew, Fault::After(ErrorKind::Timeout));
    let renewals = [world.renewal(&lease), world.renewal(&lease)];
    let answers = world.store.renew(&renewals).await;
    assert!(answers.iter().all(Result::is_err) && answers.len() == 2);
    let holder = world.record().await.unwrap().holder.unwrap();
    assert_eq!(holder.attempt, renewals[0].attempt, "the call was applied");
    world.faults.clear();
    assert_eq!(world.faults.injected(Verb::Renew), 1, "the call counts once");
    let mut retry = world.renewal(&lease);
    retry.open = vec![renewals[0].attempt];
    assert!(matches!(
        world.store.renew(&[retry]).await[0],
        Ok(Renewal::Renewed(..))
    ));
}

#[tokio::test]
async fn a_delayed_call_reaches_the_store_when_the_delay_is_over() {
    let world = World::new();
    let delay = Duration::from_secs(5);
    world.faults.next(Verb::Acquire, Fault::Delay(delay));
    let bid = world.bid();
    let mut call = world.store.acquire(&world.election, &bid);
    assert!(call.as_mut().now_or_never().is_none());
    assert_eq!(world.record().await, None);
    world.clock.advance(delay);
    assert!(matches!(call.await, Ok(Acquisition::Acquired(_))));
}

#[tokio::test]
async fn a_hung_call_goes_on_when_it_is_let_go_and_a_dropped_one_never_happened() {
    let world = World::new();
    let lease = world.win().await;
    world.faults.next(Verb::Release, Fault::Hang);
    world.faults.next(Verb::Release, Fault::Hang);
    let release = world.release(&lease);
    let mut dropped = world.store.release(&release);
    assert!(dropped.as_mut().now_or_never().is_none());
    assert_eq!(world.faults.hung(), 1);
    drop(dropped);
    assert_eq!(world.faults.hung(), 0);

    let mut waiting = world.store.release(&release);
    assert!(waiting.as_mut().now_or_never().is_none());
    world.faults.let_go();
    assert_eq!(world.record().await.unwrap().state, RecordState::Held);
    assert_eq!(waiting.await.unwrap(), Released::Released);
    assert_eq!(
        (world.faults.hung(), world.faults.injected(Verb::Release)),
        (0, 2)
    );
}

#[tokio::test]
async fn a_duplicated_call_reaches_the_store_twice_and_is_answered_once() {
    let world = World::new();
    let lease = world.win().await;
    // Another wrapper underneath counts what arrives.
    let counting = Faulty::new(world.store.inner().clone(), world.clock.clone());
    counting
        .faults()
        .always(Verb::Release, Fault::Delay(Duration::ZERO));
    let arrived = counting.faults();
    let store = Faulty::new(counting, world.clock.clone());
    store.faults().next(Verb::Release, Fault::Duplicate);
    let release = world.release(&lease);
    assert_eq!(store.release(&release).await.unwrap(), Released::Released);
    assert_eq!(arrived.injected(Verb::Release), 2);
    assert_eq!(store.release(&release).await.unwrap(), Released::Released);
    assert_eq!(arrived.injected(Verb::Release), 3, "only the next one");
}

#[tokio::test]
async fn a_late_call_is_applied_when_it_is_delivered_though_its_caller_gave_up() {
    let world = World::new();
    let give_up = Duration::from_secs(2);
    world.faults.next(
        Verb::Acquire,
        Fault::Late {
            give_up: Some(give_up),
        },
    );
    let bid = world.bid();
    let mut call = world.store.acquire(&world.election, &bid);
    assert!(call.as_mut().now_or_never().is_none());
    world.clock.advance(give_up);
    assert_eq!(call.await.unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!((world.record().await, world.faults.held_back()), (None, 1));
    assert_eq!(world.faults.deliver().await, 1);
    assert!(world.record().await.unwrap().lease_of(bid.id).is_some());
    assert_eq!(world.faults.deliver().await, 0, "once");
}

#[tokio::test]
async fn a_late_call_answers_a_caller_that_still_waits() {
    let world = World::new();
    world.faults.next(Verb::Acquire, Fault::Late { give_up: None });
    let bid = world.bid();
    let mut call = world.store.acquire(&world.election, &bid);
    assert!(call.as_mut().now_or_never().is_none());
    world.faults.deliver().await;
    assert!(matches!(call.await, Ok(Acquisition::Acquired(_))));
}

#[tokio::test]
async fn a_forgotten_call_never_arrives() {
    let world = World::new();
    let give_up = Some(Duration::ZERO);
    world.faults.next(Verb::Acquire, Fault::Late { give_up });
    let error = world
        .store
        .acquire(&world.election, &world.bid())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!((world.faults.forget(), world.faults.deliver().await), (1, 0));
    assert_eq!(world.record().await, None);
}

#[tokio::test]
async fn what_is_queued_comes_before_what_is_chosen_and_that_before_what_is_permanent() {
    let world = World::new();
    world
        .faults
        .always(Verb::Read, Fault::Before(ErrorKind::Unavailable));
    let chosen = world.election.clone();
    world.faults.choose(move |verb, elections| {
        let ours = verb == Verb::Read && elections == [chosen.clone()];
        ours.then_some(Fault::Before(ErrorKind::Denied))
    });
    world.faults.next(Verb::Read, Fault::Before(ErrorKind::Timeout));
    let other = ElectionName::new("other").unwrap();
    let mut kinds = Vec::new();
    for election in [&world.election, &world.election, &other] {
        kinds.push(world.store.read(election).await.unwrap_err().kind());
    }
    assert_eq!(
        kinds,
        [ErrorKind::Timeout, ErrorKind::Denied, ErrorKind::Unavailable]
    );
    world.faults.clear();
    assert!(world.store.read(&other).await.is_ok());
}

#[tokio::test]
async fn a_change_can_be_lost_doubled_or_held_up_on_its_way_to_a_watcher() {
    let world = World::new();
    let mut changes = world.store.watch(std::slice::from_ref(&world.election)).unwrap();
    world
        .faults
        .next(Verb::Watch, Fault::Before(ErrorKind::Unavailable));
    let lease = world.win().await;
    assert_eq!(changes.next().await, Some(Change::Gap));

    world.faults.next(Verb::Watch, Fault::Duplicate);
    world.store.release(&world.release(&lease)).await.unwrap();
    let (first, second) = (changes.next().await, changes.next().await);
    assert!(first == second && matches!(first, Some(Change::Record(_))));

    world.faults.next(Verb::Watch, Fault::Hang);
    world.win().await;
    assert!(changes.next().now_or_never().is_none());
    world.faults.let_go();
    assert!(matches!(changes.next().await, Some(Change::Record(_))));
    assert_eq!(world.faults.injected(Verb::Watch), 3);
}

#[tokio::test]
async fn what_operators_do_reaches_the_store() {
    let world = World::new();
    world.win().await;
    let operator = world.store.operator().unwrap();
    assert_eq!(
        operator.list("").await.unwrap(),
        std::slice::from_ref(&world.election)
    );
}
