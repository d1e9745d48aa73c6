use super::*;
use crate::ManualClock;
use crate::embedded::MemoryVersioned;
use crate::name::BidId;
use crate::random::Random;
use crate::store::{Lease, Metadata, Next, Origin, RecordState};

const TTL: Duration = Duration::from_secs(10);
/// How long an answer is under way.
const UNDER_WAY: Duration = Duration::from_secs(2);

/// A store whose answers to writes arrive late.
struct LateAnswers {
    records: MemoryVersioned,
    clock: ManualClock,
}

#[async_trait]
impl VersionedStore for LateAnswers {
    async fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError> {
        self.records.read(election).await
    }

    async fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError> {
        let written = self.records.create(election, bytes).await;
        self.clock.advance(UNDER_WAY);
        written
    }

    async fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        revision: &Revision,
    ) -> Result<Written, StoreError> {
        let written = self.records.replace(election, bytes, revision).await;
        self.clock.advance(UNDER_WAY);
        written
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        self.records.list(prefix).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<ChangedNames> {
        self.records.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.records.guarantees()
    }
}

fn bid(random: &Random, candidate: &str) -> Bid {
    Bid {
        id: BidId::new(random),
        attempt: Attempt::new(random),
        open: Vec::new(),
        candidate: CandidateId::new(candidate).unwrap(),
        identity: None,
        origin: Origin::default(),
        ttl: TTL,
        metadata: Metadata::new(),
        floor: FencingToken::ZERO,
        supersedes: None,
    }
}

#[tokio::test]
async fn a_lease_that_the_stores_clock_ended_is_not_renewed_because_the_answer_to_its_grant_came_late() {
    let clock = ManualClock::new();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let records = MemoryVersioned::new(Arc::clone(&shared));
    let late = LateAnswers { records: records.clone(), clock: clock.clone() };
    let holder = Versioned::with_clock(late, Arc::clone(&shared));
    let other = Versioned::with_clock(records, shared);
    let election = ElectionName::new("a").unwrap();
    let random = Random::from_seed(1);
    let bid = bid(&random, "holder");
    let Acquisition::Acquired(lease) = holder.acquire(&election, &bid).await.unwrap() else {
        panic!("a free election is refused");
    };
    let renewal = |lease: &Lease| Renew {
        lease: lease.clone(),
        attempt: Attempt::new(&random),
        open: Vec::new(),
        answer: None,
    };

    // In time, the holder goes on.
    clock.advance(TTL - UNDER_WAY - Duration::from_millis(1));
    let Ok(Renewal::Renewed(lease, _)) = holder.renew(&[renewal(&lease)]).await.remove(0) else {
        panic!("a lease in its time was not renewed");
    };

    clock.advance(TTL - UNDER_WAY);
    assert_eq!(other.read(&election).await.unwrap().unwrap().state, RecordState::Free);
    let answer = holder.renew(&[renewal(&lease)]).await.remove(0);
    assert!(matches!(answer, Ok(Renewal::Lost(_))), "{answer:?}");
    assert_eq!(other.read(&election).await.unwrap().unwrap().state, RecordState::Free);
}

#[tokio::test]
async fn ever_new_names_leave_a_bounded_number_of_entries() {
    let clock = ManualClock::new();
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let records = MemoryVersioned::new(Arc::clone(&shared)).without_age();
    let holder = Versioned::with_clock(records.clone(), Arc::clone(&shared));
    let follower = Versioned::with_clock(records, shared);
    let random = Random::from_seed(1);
    for n in 0..2_000 {
        let election = ElectionName::new(format!("job-{n}")).unwrap();
        let Acquisition::Acquired(lease) = holder.acquire(&election, &bid(&random, "holder")).await.unwrap()
        else {
            panic!("a free election is refused");
        };
        let refused = follower.acquire(&election, &bid(&random, "follower")).await.unwrap();
        assert!(matches!(refused, Acquisition::Refused(_)));
        let release = Release {
            lease,
            attempt: Attempt::new(&random),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        };
        assert_eq!(holder.release(&release).await.unwrap(), Released::Released);
        assert_eq!(holder.shared.known().len(), 0, "a released lease is remembered");
        clock.advance(TTL);
        let followed = follower.shared.known().len();
        assert!(followed <= 64, "{followed} remembered after {n} names");
    }
}
