//! What every property is written with: candidates that bid, renew and release, and ways to wait for facts.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::clock::ClockExt;
use tenure_core::store::{
    Acquisition, Bid, ErrorKind, Lease, LeaseRecord, LeaseStore, Metadata, Next, Operator, Origin,
    RecordState, Release, Released, Renew, Renewal, StoreError,
};
use tenure_core::{Attempt, BidId, CandidateId, Clock, ElectionName, FencingToken, Random};
use tokio::task::JoinHandle;

use super::network::CallFaults;
use super::{Fixture, Network, Property};

/// `Err` = the property does not apply, and why. What does not hold panics.
pub(super) type Checked = Result<(), &'static str>;

pub(super) struct Cx {
    pub(super) fixture: Arc<dyn Fixture>,
    pub(super) random: Random,
    property: Property,
    left_out: Mutex<Vec<&'static str>>,
}

impl Cx {
    pub(super) fn new(fixture: Arc<dyn Fixture>, property: Property) -> Arc<Self> {
        Arc::new(Self {
            fixture,
            // The same in every run, so that a failure repeats itself.
            random: Random::from_seed(property as u64),
            property,
            left_out: Mutex::default(),
        })
    }

    /// Notes a part of the property that cannot be shown here.
    pub(super) fn leave_out(&self, part: &'static str) {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    pub(super) fn left_out(&self) -> Vec<&'static str> {
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn ttl(&self) -> Duration {
        self.fixture.ttl()
    }

    /// The ttl of leases that must outlast the whole property, however slow the machine is: those that nobody waits for.
    pub(super) fn lasting(&self) -> Duration {
        (self.ttl() * 20).max(Duration::from_secs(60))
    }

    /// What a call, a timer and a coarse clock of the store may cost on top of what is measured.
    pub(super) fn slack(&self) -> Duration {
        self.ttl() / 2
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.fixture.clock()
    }

    pub(super) fn now(&self) -> Duration {
        self.clock().now().boot()
    }

    pub(super) async fn sleep(&self, d: Duration) {
        self.clock().sleep(d).await;
    }

    /// Waits for `future`, at most for `limit`.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        what: &str,
        future: impl Future<Output = T> + Send,
    ) -> T {
        tokio::select! {
            biased;
            value = future => value,
            () = self.sleep(limit) => panic!("{what}: nothing within {limit:?}"),
        }
    }

    /// Names an election of this property.
    pub(super) fn election(&self, label: &str) -> ElectionName {
        name(&format!("{}-{label}", self.property.id().to_lowercase()))
    }

    /// Opens the store for a candidate of its own.
    pub(super) async fn candidate(self: &Arc<Self>, name: &str) -> Candidate {
        self.candidate_over(name, self.fixture.handle().await)
    }

    pub(super) fn candidate_over(self: &Arc<Self>, name: &str, store: Arc<dyn LeaseStore>) -> Candidate {
        Candidate { id: candidate_id(name), store, cx: Arc::clone(self) }
    }

    pub(super) fn attempt(&self) -> Attempt {
        Attempt::new(&self.random)
    }

    /// The way that can be disturbed: the fixture's own, or the calls themselves.
    pub(super) async fn network(&self) -> Arc<dyn Network> {
        match self.fixture.network() {
            Some(network) => network,
            None => Arc::new(CallFaults::new(self.fixture.handle().await, self.clock(), self.ttl() / 10)),
        }
    }
}

/// One candidate with its own view of the store.
#[derive(Clone)]
pub(super) struct Candidate {
    pub(super) id: CandidateId,
    pub(super) store: Arc<dyn LeaseStore>,
    cx: Arc<Cx>,
}

impl Candidate {
    pub(super) fn bid(&self) -> Bid {
        Bid {
            id: BidId::new(&self.cx.random),
            attempt: self.cx.attempt(),
            open: Vec::new(),
            candidate: self.id.clone(),
            identity: None,
            origin: Origin::default(),
            ttl: self.cx.ttl(),
            metadata: Metadata::new(),
            floor: FencingToken::ZERO,
            supersedes: None,
        }
    }

    /// Makes a bid for a lease that [outlasts the property](Cx::lasting).
    pub(super) fn lasting_bid(&self) -> Bid {
        Bid { ttl: self.cx.lasting(), ..self.bid() }
    }

    /// Sends a bid until it is answered: losing a race again and again is no answer.
    pub(super) async fn answer_to(&self, election: &ElectionName, bid: &Bid) -> Acquisition {
        let mut bid = bid.clone();
        for _ in 0..100 {
            match self.store.acquire(election, &bid).await {
                Ok(answer) => return answer,
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    bid.open.push(bid.attempt);
                    bid.attempt = self.cx.attempt();
                    self.cx.sleep(self.cx.ttl() / 1000).await;
                }
                Err(error) => panic!("{} bid for {election:?}: {error}", self.id),
            }
        }
        panic!("{} bid for {election:?}: a hundred conflicts", self.id)
    }

    pub(super) async fn acquire(&self, election: &ElectionName) -> Acquisition {
        self.answer_to(election, &self.bid()).await
    }

    /// Bids and must win.
    pub(super) async fn win(&self, election: &ElectionName) -> Lease {
        self.win_with(election, &self.bid()).await
    }

    /// Bids for a lease that [outlasts the property](Cx::lasting), and must win.
    pub(super) async fn win_lasting(&self, election: &ElectionName) -> Lease {
        self.win_with(election, &self.lasting_bid()).await
    }

    pub(super) async fn win_with(&self, election: &ElectionName, bid: &Bid) -> Lease {
        match self.answer_to(election, bid).await {
            Acquisition::Acquired(lease) => {
                assert_eq!(lease.election, *election, "the lease is of another election");
                assert_eq!(lease.bid, bid.id, "the lease is of another bid");
                lease
            }
            Acquisition::Refused(record) => {
                panic!("{} should win {election:?} but is refused: {record:?}", self.id)
            }
        }
    }

    /// Bids and must not win.
    pub(super) async fn refused(&self, election: &ElectionName) -> LeaseRecord {
        self.refused_with(election, &self.bid()).await
    }

    pub(super) async fn refused_with(&self, election: &ElectionName, bid: &Bid) -> LeaseRecord {
        match self.answer_to(election, bid).await {
            Acquisition::Acquired(lease) => {
                panic!("{} should be refused in {election:?} but got {lease:?}", self.id)
            }
            Acquisition::Refused(record) => *record,
        }
    }

    /// Bids as a follower does until it wins, and tells when the winning bid was answered.
    pub(super) async fn campaign(&self, election: &ElectionName, limit: Duration) -> (Lease, Duration) {
        let begun = self.cx.now();
        loop {
            let record = match self.acquire(election).await {
                Acquisition::Acquired(lease) => return (lease, self.cx.now()),
                Acquisition::Refused(record) => record,
            };
            let waited = self.cx.now().saturating_sub(begun);
            assert!(
                waited <= limit,
                "{} is still refused in {election:?} after {waited:?}: {record:?}",
                self.id
            );
            // More often than a follower would, to notice a lease that ends too early.
            let step = self.cx.ttl() / 10;
            let opens_in = record.opens_in.unwrap_or(step);
            self.cx.sleep(opens_in.clamp(Duration::from_millis(1), step)).await;
        }
    }

    pub(super) fn renewal(&self, lease: &Lease) -> Renew {
        Renew { lease: lease.clone(), attempt: self.cx.attempt(), open: Vec::new(), answer: None }
    }

    pub(super) async fn try_renew(&self, renewal: &Renew) -> Result<Renewal, StoreError> {
        let mut answers = self.store.renew(std::slice::from_ref(renewal)).await;
        assert_eq!(answers.len(), 1, "one renewal has {} answers", answers.len());
        answers.remove(0)
    }

    /// Renews and must go on holding.
    pub(super) async fn renew(&self, lease: &Lease) -> Lease {
        self.renew_with(&self.renewal(lease)).await
    }

    pub(super) async fn renew_with(&self, renewal: &Renew) -> Lease {
        match self.try_renew(renewal).await {
            Ok(Renewal::Renewed(lease, _)) => lease,
            other => panic!("{} should renew {:?} but: {other:?}", self.id, renewal.lease.election),
        }
    }

    /// Renews and must have lost.
    pub(super) async fn lost(&self, renewal: &Renew) -> Option<LeaseRecord> {
        match self.try_renew(renewal).await {
            Ok(Renewal::Lost(record)) => record.map(|record| *record),
            other => panic!("{} should have lost {:?} but: {other:?}", self.id, renewal.lease.election),
        }
    }

    pub(super) fn release_of(&self, lease: &Lease) -> Release {
        Release {
            lease: lease.clone(),
            attempt: self.cx.attempt(),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        }
    }

    pub(super) async fn try_release(&self, release: &Release) -> Released {
        match self.store.release(release).await {
            Ok(released) => released,
            Err(error) => panic!("{} released {:?}: {error}", self.id, release.lease.election),
        }
    }

    /// Releases and must have held.
    pub(super) async fn release(&self, lease: &Lease) {
        self.release_with(&self.release_of(lease)).await;
    }

    pub(super) async fn release_with(&self, release: &Release) {
        let released = self.try_release(release).await;
        assert_eq!(released, Released::Released, "{} should release {:?}", self.id, release.lease);
    }

    pub(super) async fn read(&self, election: &ElectionName) -> Option<LeaseRecord> {
        match self.store.read(election).await {
            Ok(record) => record,
            Err(error) => panic!("{} read {election:?}: {error}", self.id),
        }
    }

    /// Reads a record that must be there.
    pub(super) async fn record(&self, election: &ElectionName) -> LeaseRecord {
        match self.read(election).await {
            Some(record) => record,
            None => panic!("{election:?} has no record"),
        }
    }

    /// Reads until nobody holds the lease, which nobody renews meanwhile.
    pub(super) async fn wait_until_over(&self, election: &ElectionName) {
        let begun = self.cx.now();
        loop {
            let record = self.record(election).await;
            if record.state != RecordState::Held {
                return;
            }
            let waited = self.cx.now().saturating_sub(begun);
            assert!(waited <= self.longest(), "{election:?} is still held after {waited:?}: {record:?}");
            let left = record.opens_in.unwrap_or(self.cx.ttl() / 10);
            self.cx.sleep(left.max(Duration::from_millis(1))).await;
        }
    }

    /// How long a lease that nobody renews lasts at most for one who begins to look now.
    pub(super) fn longest(&self) -> Duration {
        // Observers wait a tenth longer (the limit of a slewed clock); a coarse store rounds up.
        self.cx.ttl() + self.cx.ttl() / 10 + self.store.guarantees().ttl_grain + self.cx.slack()
    }

    pub(super) fn operator(&self) -> Option<&dyn Operator> {
        self.store.operator()
    }
}

/// Waits for a task; if it panicked, so does this.
pub(super) async fn joined<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => panic!("a task of the suite was ended: {error}"),
        },
    }
}

pub(super) fn name(name: &str) -> ElectionName {
    match ElectionName::new(name) {
        Ok(name) => name,
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn candidate_id(name: &str) -> CandidateId {
    match CandidateId::new(name) {
        Ok(name) => name,
        Err(error) => panic!("{error}"),
    }
}

/// Checks that nothing but time has passed between two looks through the same handle.
pub(super) fn assert_unchanged(cx: &Cx, before: &LeaseRecord, after: &LeaseRecord, what: &str) {
    let still = |record: &LeaseRecord| {
        let mut record = record.clone();
        record.time_left = None;
        record.opens_in = None;
        record.last_success = None;
        if let Some(pause) = &mut record.pause {
            pause.ends_in = Duration::ZERO;
        }
        if let Some(request) = &mut record.request {
            request.expires_in = Duration::ZERO;
        }
        record
    };
    assert_eq!(still(before), still(after), "{what} changed the record");
    // A coarse clock of the store may show a little more than it did.
    let grain = cx.ttl() / 50;
    assert!(
        after.time_left <= before.time_left.map(|left| left + grain),
        "{what} extended the lease: {:?} left before, {:?} after",
        before.time_left,
        after.time_left
    );
}
