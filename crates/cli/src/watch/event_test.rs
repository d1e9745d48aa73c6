use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tenure::store::{
    Acquisition, Answer, Answered, Bid, ControlRequest, Lease, LeaseStore, Next, Origin, Pause, Release,
};
use tenure::{Attempt, BidId, ElectionName, MemoryStore, Random, RequestId};

use super::*;

const LONG: Duration = Duration::from_secs(600);

/// An election whose every step is done by hand.
struct World {
    store: MemoryStore,
    random: Random,
    election: ElectionName,
    before: Option<LeaseRecord>,
}

impl World {
    fn new() -> Self {
        Self {
            store: MemoryStore::new(),
            random: Random::from_seed(1),
            election: ElectionName::new("e").unwrap(),
            before: None,
        }
    }

    fn attempt(&self) -> Attempt {
        Attempt::new(&self.random)
    }

    async fn lead(&self, candidate: &str, ttl: Duration) -> Lease {
        let bid = Bid {
            id: BidId::new(&self.random),
            attempt: self.attempt(),
            open: Vec::new(),
            candidate: CandidateId::new(candidate).unwrap(),
            identity: None,
            origin: Origin::default(),
            ttl,
            metadata: BTreeMap::new(),
            floor: FencingToken::ZERO,
            supersedes: None,
        };
        match self.store.acquire(&self.election, &bid).await.unwrap() {
            Acquisition::Acquired(lease) => lease,
            Acquisition::Refused(record) => panic!("refused: {record:?}"),
        }
    }

    async fn release(&self, lease: Lease, next: Next, answer: Option<Answered>) {
        let (attempt, succeeded) = (self.attempt(), false);
        let release = Release { lease, attempt, open: Vec::new(), next, succeeded, answer };
        self.store.release(&release).await.unwrap();
    }

    async fn term(&self, candidate: &str) {
        let lease = self.lead(candidate, LONG).await;
        self.release(lease, Next::Anybody, None).await;
    }

    /// Looks, and tells what happened since the last look.
    async fn events(&mut self) -> Vec<String> {
        let now = self.store.read(&self.election).await.unwrap();
        let events = between(self.before.as_ref(), now.as_ref());
        self.before = now;
        events.iter().map(ToString::to_string).collect()
    }
}

#[tokio::test]
async fn a_term_is_elected_and_released_and_a_renewal_is_no_event() {
    let mut world = World::new();
    let lease = world.lead("a", LONG).await;
    assert_eq!(world.events().await, ["a elected, term 1"]);
    let renewal = tenure::store::Renew {
        lease: lease.clone(),
        attempt: world.attempt(),
        open: Vec::new(),
        answer: None,
    };
    let renewed = world.store.renew(&[renewal]).await.remove(0).unwrap();
    assert_eq!(world.events().await, [""; 0]);
    let tenure::store::Renewal::Renewed(lease, _) = renewed else { panic!("{renewed:?}") };
    world.release(lease, Next::Anybody, None).await;
    assert_eq!(world.events().await, ["a released term 1"]);
    assert_eq!(world.events().await, [""; 0]);
}

#[tokio::test]
async fn whole_terms_between_two_looks_are_told_in_order() {
    let mut world = World::new();
    world.lead("a", Duration::from_millis(1)).await;
    world.events().await;
    while world.store.read(&world.election).await.unwrap().unwrap().leader().is_some() {
        tokio::task::yield_now().await;
    }
    world.term("b").await;
    world.lead("c", LONG).await;
    let mut told = vec!["b elected, term 2", "b released term 2", "c elected, term 3"];
    // The first term may have run out before the first look.
    let events = world.events().await;
    if events.len() == 4 {
        told.insert(0, "term 1 of a expired");
    }
    assert_eq!(events, told);
}

#[tokio::test]
async fn more_terms_than_are_kept_are_missed_and_that_is_said() {
    let mut world = World::new();
    world.term("a").await;
    world.events().await;
    for _ in 0..tenure::store::record::LAST_TERMS {
        world.term("b").await;
    }
    let events = world.events().await;
    assert!(events[0].starts_with("more terms came"), "{events:?}");
    assert_eq!(events.len(), 1 + 2 * tenure::store::record::LAST_TERMS);
}

#[tokio::test]
async fn a_lease_that_ran_out_is_told_once() {
    let mut world = World::new();
    world.lead("a", LONG).await;
    world.events().await;
    let mut now = world.before.clone().unwrap();
    now.state = RecordState::Free;
    now.time_left = None;
    let expired = between(world.before.as_ref(), Some(&now));
    assert_eq!(expired.len(), 1);
    assert_eq!(expired[0].to_string(), "term 1 of a expired");

    // Whoever comes next records it.
    let mut after = now.clone();
    after.last_terms.push(Term {
        token: FencingToken(1),
        bid: BidId::new(&world.random),
        candidate: CandidateId::new("a").unwrap(),
        identity: None,
        acquired_at_ms: 1,
        ended_at_ms: Some(2),
        end: Some(TermEnd::Expired),
        cool_down_ms: None,
    });
    after.token = FencingToken(2);
    after.state = RecordState::Held;
    after.time_left = Some(LONG);
    let events = between(Some(&now), Some(&after));
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].to_string(), "a elected, term 2");
    assert_eq!(between(world.before.as_ref(), Some(&after)).len(), 2, "both, if nobody looked in between");
}

#[tokio::test]
async fn other_software_that_takes_the_lease_and_leaves_it_is_told_and_no_term_is_told_twice() {
    let mut world = World::new();
    world.lead("a", LONG).await;
    world.events().await;
    let ours = world.before.clone().unwrap();
    let holder = Holder {
        candidate: CandidateId::new("kim").unwrap(),
        acquired_at: SystemTime::UNIX_EPOCH,
        ..ours.holder.clone().unwrap()
    };
    let foreign = LeaseRecord { holder: Some(holder), ..ours.clone() };
    let free = LeaseRecord { holder: None, state: RecordState::Free, time_left: None, ..ours.clone() };
    let ended = Term {
        token: FencingToken(1),
        bid: BidId::new(&world.random),
        candidate: CandidateId::new("a").unwrap(),
        identity: None,
        acquired_at_ms: 1,
        ended_at_ms: Some(2),
        end: Some(TermEnd::Expired),
        cool_down_ms: None,
    };
    let next = LeaseRecord { token: FencingToken(2), last_terms: vec![ended], ..ours.clone() };
    let kim = "kim holds the lease, outside of all terms (other software)";
    for (before, now, told) in [
        (&ours, &foreign, &["term 1 of a expired", kim][..]),
        (&foreign, &foreign, &[]),
        (&foreign, &free, &["nobody leads (free), the last term was 1"]),
        (&foreign, &next, &["a elected, term 2"]),
    ] {
        let events: Vec<_> = between(Some(before), Some(now)).iter().map(ToString::to_string).collect();
        assert_eq!(events, told);
    }
}

#[tokio::test]
async fn a_handoff_is_requested_answered_and_told_whether_the_successor_came_or_not() {
    for came in [false, true] {
        let mut world = World::new();
        let lease = world.lead("a", LONG).await;
        world.events().await;
        let b = CandidateId::new("b").unwrap();
        let request = ControlRequest {
            id: RequestId::new(&world.random),
            token: lease.token,
            by: "ops".into(),
            action: Action::HandOff { to: b.clone() },
            expires_in: LONG,
        };
        let operator = world.store.operator().unwrap();
        operator.request(&world.election, world.attempt(), request.clone()).await.unwrap();
        let asked = "ops requested that the leader of term 1 hands off to b";
        assert_eq!(world.events().await, [asked]);

        let answer = Some(Answered { id: request.id, answer: Answer::Done });
        world.release(lease, Next::Successor { candidate: b, window: LONG }, answer).await;
        let mut told = vec!["the leader answered the request: done", "a handed term 1 off to b"];
        if came {
            world.lead("b", LONG).await;
            told.push("b elected, term 2");
        }
        assert_eq!(world.events().await, told);
    }
}

#[tokio::test]
async fn pauses_begin_grow_and_end() {
    let mut world = World::new();
    let pause = |world: &World, by: &str, ends_in| {
        let (store, election, attempt) = (world.store.clone(), world.election.clone(), world.attempt());
        let pause = Pause { by: by.into(), ends_in };
        async move { store.operator().unwrap().pause(&election, attempt, pause).await.unwrap() }
    };
    pause(&world, "ops\x1b", LONG).await;
    let first = world.events().await;
    assert!(first.len() == 1 && first[0].starts_with("paused by ops\\u{1b} for 9m"), "{first:?}");
    assert_eq!(world.events().await, [""; 0]);
    pause(&world, "ops\x1b", LONG * 2).await;
    assert_eq!(world.events().await.len(), 1);
    let attempt = world.attempt();
    world.store.operator().unwrap().resume(&world.election, attempt).await.unwrap();
    assert_eq!(world.events().await, ["resumed"]);
}

#[tokio::test]
async fn a_store_that_forgot_is_told() {
    let mut world = World::new();
    world.term("a").await;
    world.term("a").await;
    world.events().await;
    world.store = MemoryStore::new();
    assert_eq!(world.events().await, ["the record is gone"]);
    world.term("a").await;
    assert_eq!(world.events().await, ["a elected, term 1", "a released term 1"]);
    world.before.as_mut().unwrap().token = FencingToken(9);
    assert_eq!(world.events().await, ["the record is gone", "nobody leads (free), the last term was 1"]);
}

#[tokio::test]
async fn the_first_line_tells_the_state() {
    let world = World::new();
    assert_eq!(found(None).to_string(), "nobody leads (free)");
    world.lead("a", LONG).await;
    let record = world.store.read(&world.election).await.unwrap().unwrap();
    let text = found(Some(&record)).to_string();
    assert!(text.starts_with("a leads in term 1 for "), "{text}");
    assert!(record.leader().unwrap().acquired_at > SystemTime::UNIX_EPOCH);
}
