//! A server whose data can vanish, go back or be copied, and which can be wrong on purpose.
//!
//! What may be written is decided by the shipped rules of a record; this only keeps the pages, with absolute stamps of
//! the server's own clock, as servers with expiring keys do. Tokens are at least the server's time in microseconds, as
//! DESIGN rule 7 demands of a store that may lose data.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use serde_json::{Map, Value};
use tenure_core::store::record::{self, Decision, Record, Sight};
use tenure_core::store::wake::Wakes;
use tenure_core::store::{
    Acquisition, Bid, Change, Changes, ControlRequest, ExpiryClock, Guarantees, LeaseRecord, LeaseStore,
    Next, Operator, Pause, Release, Released, Renew, Renewal, Requested, StoreError, TokenOrder, Wake,
};
use tenure_core::{Attempt, CandidateId, Clock, ElectionName, FencingToken};
use tenure_testkit::VirtualClock;

use crate::wrong::Wrong;

/// Records on one simulated server; clones share them.
#[derive(Clone)]
pub struct Ledger {
    shared: Arc<Shared>,
}

struct Shared {
    clock: VirtualClock,
    pages: Mutex<Pages>,
    wakes: Wakes,
    wrong: Option<Wrong>,
    bids: AtomicU64,
}

/// All records of a server, as a copy of its disk.
pub type Pages = BTreeMap<ElectionName, Page>;

/// One record and when it was written, by the server's clock.
#[derive(Clone)]
pub struct Page {
    record: Box<Record>,
    written: Duration,
}

impl Ledger {
    /// Makes an empty server.
    #[must_use]
    pub fn new(clock: VirtualClock, wrong: Option<Wrong>) -> Self {
        Self::with_pages(clock, wrong, Pages::new())
    }

    fn with_pages(clock: VirtualClock, wrong: Option<Wrong>, pages: Pages) -> Self {
        let shared = Shared {
            clock,
            pages: Mutex::new(pages),
            wakes: Wakes::default(),
            wrong,
            bids: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Copies the server's disk.
    #[must_use]
    pub fn copy(&self) -> Pages {
        self.pages().clone()
    }

    /// Puts an older disk in; nobody is told.
    pub fn put_back(&self, pages: Pages) {
        *self.pages() = pages;
    }

    /// Makes another server from a copy of a disk, with a clock of its own.
    #[must_use]
    pub fn promote(&self, pages: Pages, clock: VirtualClock) -> Self {
        Self::with_pages(clock, self.shared.wrong, pages)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.shared.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, wrong: Wrong) -> bool {
        self.shared.wrong == Some(wrong)
    }

    fn sight(&self, page: Option<&Page>) -> Sight {
        let clock = &self.shared.clock;
        let age = page.map_or(Duration::ZERO, |page| clock.now().boot().saturating_sub(page.written));
        let mut sight = Sight::exact(age, clock.wall());
        if !self.is(Wrong::IgnoresFloor) && !self.is(Wrong::ForgetsTokens) {
            sight.token_base = u64::try_from(clock.now().boot().as_micros()).unwrap_or(u64::MAX);
        }
        sight
    }

    fn change<T>(
        &self,
        election: &ElectionName,
        decide: impl FnOnce(Option<&Record>, &Sight) -> Decision<T>,
    ) -> T {
        let mut pages = self.pages();
        let page = pages.get(election);
        match decide(page.map(|page| page.record.as_ref()), &self.sight(page)) {
            Decision::Keep(answer) => answer,
            Decision::Write(record, answer) => {
                let written = self.shared.clock.now().boot();
                pages.insert(election.clone(), Page { record, written });
                drop(pages);
                self.shared.wakes.wake(election);
                answer
            }
        }
    }

    /// Looks without going through any network.
    #[must_use]
    pub fn peek(&self, election: &ElectionName) -> Option<LeaseRecord> {
        let pages = self.pages();
        let page = pages.get(election)?;
        Some(page.record.view(&self.sight(Some(page))))
    }

    /// Edits a record as no rule allows.
    fn tamper(&self, election: &ElectionName, edit: impl FnOnce(&mut Map<String, Value>)) {
        let mut pages = self.pages();
        let Some(page) = pages.get_mut(election) else { return };
        let Ok(Value::Object(mut map)) = serde_json::to_value(&page.record) else { return };
        edit(&mut map);
        if let Ok(record) = serde_json::from_value(Value::Object(map)) {
            *page.record = record;
        }
    }

    fn corrupt_bid(&self, election: &ElectionName, bid: &mut Bid, sight: &mut Sight) {
        match self.shared.wrong {
            Some(Wrong::IgnoresFloor) => bid.floor = FencingToken::ZERO,
            Some(Wrong::OwnTtlForTheirs) => sight.holder_dead = sight.age >= bid.ttl,
            Some(Wrong::IgnoresReservation) => self.tamper(election, |map| drop(map.remove("given_back"))),
            Some(Wrong::GrantsSpentBids) => self.tamper(election, |map| drop(map.remove("last_terms"))),
            _ => {}
        }
    }

    /// Decides a bid; `holder_gone`: whoever held the lease does not any more, for a reason that no clock knows.
    #[must_use]
    pub fn acquire_if(&self, election: &ElectionName, bid: &Bid, holder_gone: bool) -> Acquisition {
        let (mut bid, mut seen) = (bid.clone(), self.sight(self.pages().get(election)));
        seen.holder_dead = holder_gone;
        self.corrupt_bid(election, &mut bid, &mut seen);
        let every_other = self.shared.bids.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        self.change(election, |present, sight| {
            let sight = Sight { holder_dead: seen.holder_dead, ..*sight };
            match record::acquire(present, election, &bid, &sight) {
                Decision::Write(_, answer) if self.is(Wrong::AnswersBeforeCommit) && every_other => {
                    Decision::Keep(answer)
                }
                decision => decision,
            }
        })
    }
}

#[async_trait]
impl LeaseStore for Ledger {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        Ok(self.acquire_if(election, bid, false))
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let renew = |renewal: &Renew| {
            let election = &renewal.lease.election;
            let mut renewal = renewal.clone();
            if self.is(Wrong::IgnoresNonce)
                && let Some(last) = self.peek(election).and_then(|record| record.holder)
            {
                renewal.open.push(last.attempt);
            }
            Ok(self.change(election, |present, sight| record::renew(present, &renewal, sight)))
        };
        renewals.iter().map(renew).collect()
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let election = &release.lease.election;
        let mut release = release.clone();
        if self.is(Wrong::ReservesForEver)
            && let Next::Successor { window, .. } = &mut release.next
        {
            *window = window.saturating_mul(1000);
        }
        let released = self.change(election, |present, sight| record::release(present, &release, sight));
        if self.is(Wrong::ForgetsTokens) && released == Released::Released {
            self.pages().remove(election);
        }
        Ok(released)
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        Ok(self.peek(election))
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let wake = self.shared.wakes.watch(elections);
        let changes = stream::unfold((self.clone(), wake), |(ledger, wake)| async {
            let election = wake.next().await;
            let change =
                ledger.peek(&election).map_or(Change::Gap, |record| Change::Record(Box::new(record)));
            Some((change, (ledger, wake)))
        });
        Some(Box::pin(changes))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "ledger",
            scope: "the processes of one simulation".into(),
            linearizable: true,
            survives_restart: false,
            survives_failover: Some(false),
            clock: ExpiryClock::Store("a step ahead ends leases early"),
            tokens: TokenOrder::StrictWithin(Duration::from_secs(1)),
            min_ttl: Duration::from_millis(1),
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: vec!["exists only in the simulation"],
        }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        Some(self)
    }
}

#[async_trait]
impl Operator for Ledger {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        Ok(self.pages().keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect())
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        mut request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        if self.is(Wrong::RequestToAnyTerm)
            && let Some(record) = self.peek(election)
        {
            request.token = record.token;
        }
        let requested =
            self.change(election, |present, sight| record::request(present, &request, attempt, sight));
        if self.is(Wrong::RequestRenews) {
            self.tamper(election, |map| drop(map.insert("age_us".into(), Value::from(0))));
        }
        Ok(requested)
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        self.change(election, |present, sight| record::pause(present, election, &pause, attempt, sight));
        Ok(())
    }

    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError> {
        self.change(election, |present, sight| record::resume(present, attempt, sight));
        Ok(())
    }

    async fn candidates(&self, _election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        Ok(None)
    }
}
