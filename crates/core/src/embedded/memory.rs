//! Leases in the memory of this process, for tests and for electing among tasks.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;

use crate::clock::{Clock, Moment, SystemClock};
use crate::name::{Attempt, CandidateId, ElectionName};
use crate::store::record::{self, Decision, Record, Sight};
use crate::store::wake::{self, Wakes};
use crate::store::{
    Acquisition, Bid, Change, Changes, ControlRequest, ExpiryClock, Guarantees, LeaseRecord, LeaseStore,
    Operator, Pause, Release, Released, Renew, Renewal, Requested, StoreError, TokenOrder, Wake,
};

/// Leases in memory; clones share them.
///
/// Leases end by the clock that the store was made with, which a test can move: see
/// [`ManualClock`](crate::clock::ManualClock).
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    number: u64,
    clock: Arc<dyn Clock>,
    records: Mutex<BTreeSet<Entry>>,
    wakes: Wakes,
}

/// A record, found by the election that it names.
struct Entry {
    record: Box<Record>,
    /// When, by the boot clock alone, since a store has one clock: two would be two opinions about one lease.
    written_ns: u64,
}

impl Borrow<str> for Entry {
    fn borrow(&self) -> &str {
        self.record.election().as_str()
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.record.election().cmp(other.record.election())
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// Makes an empty store on the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// Makes an empty store whose leases end by `clock`.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            number: super::next_number(),
            clock,
            records: Mutex::default(),
            wakes: Wakes::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Decides on the present record of `election` and writes what was decided, in one step.
    fn change<T>(
        &self,
        election: &ElectionName,
        decide: impl FnOnce(Option<&Record>, &Sight) -> Decision<T>,
    ) -> T {
        let mut records = self.shared.records.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.change(&mut records, election, decide).0
    }

    fn change_and_wake<T>(
        &self,
        election: &ElectionName,
        decide: impl FnOnce(Option<&Record>, &Sight) -> Decision<T>,
    ) -> T {
        let (answer, written) = {
            let mut records = self.shared.records.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.change(&mut records, election, decide)
        };
        if written {
            self.shared.wakes.wake(election);
        }
        answer
    }
}

impl Shared {
    fn change<T>(
        &self,
        records: &mut BTreeSet<Entry>,
        election: &ElectionName,
        decide: impl FnOnce(Option<&Record>, &Sight) -> Decision<T>,
    ) -> (T, bool) {
        let now = self.clock.now();
        let entry = records.get(election.as_str());
        let sight = self.sight(entry, now);
        match decide(entry.map(|entry| entry.record.as_ref()), &sight) {
            Decision::Keep(answer) => (answer, false),
            Decision::Write(record, answer) => {
                records.replace(Entry { record, written_ns: now.boot_ns() });
                (answer, true)
            }
        }
    }

    fn sight(&self, entry: Option<&Entry>, now: Moment) -> Sight {
        let age_ns = entry.map_or(0, |entry| now.boot_ns().saturating_sub(entry.written_ns));
        Sight::exact(Duration::from_nanos(age_ns), self.clock.wall())
    }

    fn read(&self, election: &ElectionName) -> Option<LeaseRecord> {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = records.get(election.as_str())?;
        Some(entry.record.view(&self.sight(Some(entry), self.clock.now())))
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        Ok(self.change_and_wake(election, |present, sight| record::acquire(present, election, bid, sight)))
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        // Nobody is woken by a renewal: followers time the lease, and are refused once more when it was renewed.
        let renew = |renewal: &Renew| {
            Ok(self.change(&renewal.lease.election, |present, sight| record::renew(present, renewal, sight)))
        };
        renewals.iter().map(renew).collect()
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let election = &release.lease.election;
        Ok(self.change_and_wake(election, |present, sight| record::release(present, release, sight)))
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        Ok(self.shared.read(election))
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let wake = self.shared.wakes.watch(elections);
        Some(Box::pin(Watched { shared: Arc::clone(&self.shared), wake }))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "memory",
            scope: format!("the tasks of this process that share store {}", self.shared.number),
            linearizable: true,
            survives_restart: false,
            survives_failover: None,
            clock: ExpiryClock::Machine,
            tokens: TokenOrder::Strict,
            min_ttl: Duration::from_millis(1),
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: vec!["leases and tokens end with the process"],
        }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        Some(self)
    }
}

/// The changes of some elections, as they are when they are asked for.
struct Watched {
    shared: Arc<Shared>,
    wake: wake::Wake,
}

impl Stream for Watched {
    type Item = Change;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        let election = ready!(self.wake.poll_next(context));
        let record = self.shared.read(&election);
        Poll::Ready(Some(record.map_or(Change::Gap, |record| Change::Record(Box::new(record)))))
    }
}

#[async_trait]
impl Operator for MemoryStore {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        let records = self.shared.records.lock().unwrap_or_else(PoisonError::into_inner);
        let names = records.iter().map(|entry| entry.record.election());
        Ok(names.filter(|name| name.as_str().starts_with(prefix)).cloned().collect())
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        Ok(self
            .change_and_wake(election, |present, sight| record::request(present, &request, attempt, sight)))
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        self.change_and_wake(election, |present, sight| {
            record::pause(present, election, &pause, attempt, sight)
        });
        Ok(())
    }

    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError> {
        self.change_and_wake(election, |present, sight| record::resume(present, attempt, sight));
        Ok(())
    }

    async fn candidates(&self, _election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        Ok(None)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryStore")
    }
}
