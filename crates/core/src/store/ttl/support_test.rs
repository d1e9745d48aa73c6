//! A store in memory whose verbs can fail, come late or wait, and shorthands for bids.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;

use super::{Keys, Ttl};
use crate::clock::ManualClock;
use crate::embedded::MemoryTtl;
use crate::name::{Attempt, BidId, CandidateId, ElectionName};
use crate::random::Random;
use crate::store::ttl_store::{ChangedKeys, Entry, TtlStore};
use crate::store::{
    Acquisition, Bid, ErrorKind, Guarantees, Lease, LeaseRecord, LeaseStore, Next, Origin, Release, Released,
    Renew, Renewal, StoreError,
};
use crate::token::FencingToken;

pub(super) const TTL: Duration = Duration::from_secs(30);

pub(super) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What happens to one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It does not arrive; its sender hears `Timeout`.
    Lost,
    /// It is applied; its sender hears `Timeout`.
    Unanswered,
    /// Its sender hears `Timeout`; it is applied when the test delivers it.
    Late,
    /// It is refused: `Denied`.
    Denied,
}

#[derive(Debug)]
enum Plan {
    Fault(Fault),
    /// Waits for the second, after telling the first.
    Hold(oneshot::Sender<()>, oneshot::Receiver<()>),
    /// Likewise, after it was applied.
    HoldAnswer(oneshot::Sender<()>, oneshot::Receiver<()>),
}

#[derive(Clone, Debug)]
enum Write {
    Insert(String, Vec<u8>, Option<Duration>),
    Swap(String, Vec<u8>, Vec<u8>, Option<Duration>),
    Delete(String, Vec<u8>),
}

#[derive(Debug, Default)]
struct State {
    /// Writes to come before the plan.
    plan: Option<(usize, Plan)>,
    late: Vec<Write>,
    reads: usize,
    writes: usize,
}

/// A [`MemoryTtl`] with faults.
#[derive(Clone, Debug)]
pub(super) struct Faulty {
    pub(super) memory: MemoryTtl,
    state: Arc<Mutex<State>>,
}

impl Faulty {
    fn state<T>(&self, with: impl FnOnce(&mut State) -> T) -> T {
        with(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lets `fault` happen to the write after `before` others.
    pub(super) fn fail(&self, before: usize, fault: Fault) {
        self.state(|state| state.plan = Some((before, Plan::Fault(fault))));
    }

    /// Holds up the write after `before` others: the first end tells that it is there, the second lets it go on.
    pub(super) fn hold(&self, before: usize) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (there, is_there) = oneshot::channel();
        let (go, may_go) = oneshot::channel();
        self.state(|state| state.plan = Some((before, Plan::Hold(there, may_go))));
        (is_there, go)
    }

    /// Holds up the answer to the write after `before` others, as [`Self::hold`] does with the write.
    pub(super) fn hold_answer(&self, before: usize) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let (there, is_there) = oneshot::channel();
        let (go, may_go) = oneshot::channel();
        self.state(|state| state.plan = Some((before, Plan::HoldAnswer(there, may_go))));
        (is_there, go)
    }

    /// Tells whether the planned fault is still to come.
    pub(super) fn is_pending(&self) -> bool {
        self.state(|state| state.plan.is_some())
    }

    /// Returns reads and writes since the last call.
    pub(super) fn count(&self) -> (usize, usize) {
        self.state(|state| (std::mem::take(&mut state.reads), std::mem::take(&mut state.writes)))
    }

    /// Applies what was held back.
    pub(super) async fn deliver(&self) {
        for write in self.state(|state| std::mem::take(&mut state.late)) {
            self.apply(write).await.unwrap();
        }
    }

    async fn apply(&self, write: Write) -> Result<bool, StoreError> {
        match write {
            Write::Insert(key, value, ttl) => self.memory.insert_if_absent(&key, value, ttl).await,
            Write::Swap(key, expected, new, ttl) => {
                self.memory.compare_and_swap(&key, &expected, new, ttl).await
            }
            Write::Delete(key, expected) => self.memory.compare_and_delete(&key, &expected).await,
        }
    }

    async fn write(&self, write: Write) -> Result<bool, StoreError> {
        let error = |kind| StoreError::new(kind, "faulty", "write", "planned");
        let plan = self.state(|state| {
            state.writes += 1;
            match state.plan.take() {
                Some((0, plan)) => Some(plan),
                Some((n, plan)) => {
                    state.plan = Some((n - 1, plan));
                    None
                }
                None => None,
            }
        });
        match plan {
            None => self.apply(write).await,
            Some(Plan::Hold(there, may_go)) => {
                there.send(()).unwrap();
                may_go.await.unwrap();
                self.apply(write).await
            }
            Some(Plan::HoldAnswer(there, may_go)) => {
                let answer = self.apply(write).await;
                there.send(()).unwrap();
                may_go.await.unwrap();
                answer
            }
            Some(Plan::Fault(Fault::Lost)) => Err(error(ErrorKind::Timeout)),
            Some(Plan::Fault(Fault::Denied)) => Err(error(ErrorKind::Denied)),
            Some(Plan::Fault(Fault::Unanswered)) => {
                self.apply(write).await?;
                Err(error(ErrorKind::Timeout))
            }
            Some(Plan::Fault(Fault::Late)) => {
                self.state(|state| state.late.push(write));
                Err(error(ErrorKind::Timeout))
            }
        }
    }
}

#[async_trait]
impl TtlStore for Faulty {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        self.state(|state| state.reads += 1);
        self.memory.get(key).await
    }

    async fn insert_if_absent(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.write(Write::Insert(key.into(), value, ttl)).await
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        assert_ne!(expected, new, "no byte string is written twice");
        self.write(Write::Swap(key.into(), expected.into(), new, ttl)).await
    }

    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError> {
        self.write(Write::Delete(key.into(), expected.into())).await
    }

    fn guarantees(&self) -> Guarantees {
        self.memory.guarantees()
    }

    async fn list(&self, prefix: &str) -> Result<Option<Vec<String>>, StoreError> {
        self.memory.list(prefix).await
    }

    fn watch(&self, keys: &[String]) -> Option<ChangedKeys> {
        self.memory.watch(keys)
    }
}

/// One election on a faulty store, in manual time.
#[derive(Clone)]
pub(super) struct Rig {
    pub(super) clock: ManualClock,
    pub(super) store: Faulty,
    pub(super) leases: Ttl<Faulty>,
    pub(super) random: Arc<Random>,
    pub(super) election: ElectionName,
}

impl Rig {
    pub(super) fn new() -> Self {
        let clock = ManualClock::new();
        let store = Faulty { memory: MemoryTtl::new(Arc::new(clock.clone())), state: Arc::default() };
        Self {
            leases: Ttl::with_clock(store.clone(), Arc::new(clock.clone())),
            clock,
            store,
            random: Arc::new(Random::from_seed(7)),
            election: ElectionName::new("billing").unwrap(),
        }
    }

    /// The same election, seen by another process: it knows nothing of what this one wrote.
    pub(super) fn elsewhere(&self) -> Self {
        Self { leases: Ttl::with_clock(self.store.clone(), Arc::new(self.clock.clone())), ..self.clone() }
    }

    pub(super) fn keys(&self) -> Keys {
        Keys::of(&self.election)
    }

    pub(super) fn attempt(&self) -> Attempt {
        Attempt::new(&self.random)
    }

    pub(super) fn bid(&self, candidate: &str) -> Bid {
        Bid {
            id: BidId::new(&self.random),
            attempt: self.attempt(),
            open: Vec::new(),
            candidate: CandidateId::new(candidate).unwrap(),
            identity: None,
            origin: Origin::default(),
            ttl: TTL,
            metadata: [("address".to_owned(), candidate.to_owned())].into(),
            floor: FencingToken::ZERO,
            supersedes: None,
        }
    }

    pub(super) fn again(&self, bid: &Bid) -> Bid {
        let mut open = bid.open.clone();
        open.push(bid.attempt);
        Bid { attempt: self.attempt(), open, ..bid.clone() }
    }

    pub(super) async fn acquire(&self, bid: &Bid) -> Acquisition {
        self.leases.acquire(&self.election, bid).await.unwrap()
    }

    pub(super) async fn lead(&self, candidate: &str) -> Lease {
        self.acquired(&self.bid(candidate)).await
    }

    #[track_caller]
    pub(super) fn acquired(&self, bid: &Bid) -> impl Future<Output = Lease> {
        let caller = std::panic::Location::caller();
        let (rig, bid) = (self.clone(), bid.clone());
        async move {
            match rig.acquire(&bid).await {
                Acquisition::Acquired(lease) => lease,
                Acquisition::Refused(record) => panic!("refused at {caller}: {record:#?}"),
            }
        }
    }

    #[track_caller]
    pub(super) fn refused(&self, bid: &Bid) -> impl Future<Output = LeaseRecord> {
        let caller = std::panic::Location::caller();
        let (rig, bid) = (self.clone(), bid.clone());
        async move {
            match rig.acquire(&bid).await {
                Acquisition::Refused(record) => *record,
                Acquisition::Acquired(lease) => panic!("acquired at {caller}: {lease:#?}"),
            }
        }
    }

    pub(super) async fn read(&self) -> LeaseRecord {
        self.leases.read(&self.election).await.unwrap().unwrap()
    }

    pub(super) fn renewal(&self, lease: &Lease) -> Renew {
        Renew { lease: lease.clone(), attempt: self.attempt(), open: Vec::new(), answer: None }
    }

    pub(super) async fn renew(&self, renewal: &Renew) -> Result<Renewal, StoreError> {
        let mut answers = self.leases.renew(std::slice::from_ref(renewal)).await;
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    pub(super) async fn renewed(&self, lease: &Lease) -> Lease {
        match self.renew(&self.renewal(lease)).await.unwrap() {
            Renewal::Renewed(lease, _) => lease,
            Renewal::Lost(record) => panic!("lost: {record:#?}"),
        }
    }

    pub(super) async fn is_lost(&self, lease: &Lease) -> bool {
        matches!(self.renew(&self.renewal(lease)).await.unwrap(), Renewal::Lost(_))
    }

    pub(super) fn ending(&self, lease: &Lease) -> Release {
        Release {
            lease: lease.clone(),
            attempt: self.attempt(),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        }
    }

    pub(super) async fn release(&self, release: &Release) -> Released {
        self.leases.release(release).await.unwrap()
    }
}
