//! Leases on a [`TtlStore`]: the one adaptor of the plain-verbs door.
//!
//! # What is stored
//!
//! | key | holds | ends |
//! |---|---|---|
//! | `tenure/lease/<election>` | who has the place: a bid, then its lease, then its release | with the lease's ttl, or with the window after a release |
//! | `tenure/record/<election>` | the highest token, the last terms, the last holder, release and answer | never |
//! | `tenure/pause/<election>` | a pause | with the pause |
//! | `tenure/request/<election>` | an operator's request | with the request |
//! | `tenure/success/<election>` | a successful end; its age tells how long ago | [later than anybody asks](SUCCESS_KEPT) |
//!
//! Whatever lasts for a time has an entry of its own, so that the store's clock ends it and no machine's clock is asked.
//! Where the store cannot tell how long an entry still lives, each observer times it: from the arrival of the first
//! answer that shows these bytes, for the ttl in them × (1 + drift). The lease's entry alone says who may lead; it is only ever written over exactly the bytes that were judged.
//!
//! # Why the order of each step matters
//!
//! *Acquire* takes the place first (an entry with the ttl, without token), then advances the counter, then puts the
//! token into the lease. Token first would let a candidate that slept between the two lead with a token below one that
//! was granted meanwhile. In this order: A takes the place, draws 6 and sleeps; its lease ends; B takes the place,
//! draws 7 and leads. A's third step expects its own entry, finds another one (or none), and fails: nobody leads with
//! 6. A's second step, if it came this late, would either find the counter changed and fail, or come before B's, which
//! then fails, looks again and draws one more: tokens jump, they never go back.
//!
//! The record is always read *before* the lease's entry is seen or written, and replaced only if it did not change
//! since. So whoever writes the record had the place at some moment after the version that he replaces; a term cannot
//! be written off while its lease lives.
//!
//! A crash between the steps leaves a bid without token. It blocks for its ttl at most, nobody leads by it, and
//! *anybody* who bids meanwhile completes it (its entry says all that is needed), so that the bid that is repeated after
//! a lost answer finds a whole lease, and the others see a whole holder. A bid that is spent, or that meets a pause, is
//! taken away instead.
//!
//! *Release* turns the lease's entry into the release, in one swap: from that moment nothing can renew the lease, and a
//! window for a successor or a cool-down is in force, since it is the same entry. Only then is it recorded; until then
//! nobody can take the place without recording it first. The same release repeated finds itself in either entry.
//!
//! *Renew* swaps the lease's entry, with a fresh ttl. The record follows, for people: a renewal that is not recorded is
//! counted with the next one.
//!
//! *Pause* writes its entry first and touches the record second: a bid that did not see the pause finds the record
//! changed when it draws.
//!
//! *Request* writes its entry and then looks whether the lease is still held; whoever records a release looks for
//! requests after the lease was given back. So a request that is accepted is found by one of the two: it is answered, or
//! told that it came too late.

mod entries;
mod holding;
mod taking;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

pub use entries::Keys;

use super::recent::Recent;
use super::record::parts::{Asking, Kept, Paused, Slot};
use super::record::{self, Decision};
use super::together::renew_together;
use super::ttl_store::{ChangedKeys, TtlStore};
use super::{
    Acquisition, Bid, Change, Changes, ControlRequest, ErrorKind, ExpiryClock, Guarantees, LeaseRecord,
    LeaseStore, Operator, Pause, RecordState, Release, Released, Renew, Renewal, Requested, StoreError,
};
use crate::clock::{Clock, SystemClock};
use crate::name::{Attempt, BidId, CandidateId, ElectionName, RequestId};
use crate::token::FencingToken;
use entries::{Found, Held, Timed};

/// How long a successful end is remembered: longer than a year, the longest interval that anybody gives a job, and
/// short enough for stores that count seconds in 32 bits.
pub const SUCCESS_KEPT: Duration = Duration::from_secs(400 * 24 * 3600);

/// How often a write is decided anew after somebody else was first. Every conflict means that another write succeeded,
/// so that the store as a whole gets on; a caller that loses this often hears `Conflict`.
const CONFLICTS: usize = 16;

/// Leases on a [`TtlStore`]; clones share what they know.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use tenure_core::embedded::MemoryTtl;
/// use tenure_core::store::LeaseStore;
/// use tenure_core::store::ttl::Ttl;
/// use tenure_core::{ElectionName, SystemClock};
///
/// let leases = Ttl::new(MemoryTtl::new(Arc::new(SystemClock)));
/// assert_eq!(leases.read(&ElectionName::new("billing")?).await?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Ttl<S> {
    shared: Arc<Shared<S>>,
}

#[derive(Debug)]
struct Shared<S> {
    store: S,
    clock: Arc<dyn Clock>,
    /// Whether the store says that it cannot tell how long an entry still lives.
    observed: bool,
    /// What was last written for the leases that are held through here, so that a renewal need not read first.
    known: Mutex<Recent<ElectionName, Held>>,
    /// Entries that are timed here, by key, because the store cannot tell how long they still live.
    timed: Mutex<Recent<String, Timed>>,
}

impl<S: TtlStore> Ttl<S> {
    /// Makes leases of `store`.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, Arc::new(SystemClock))
    }

    /// Makes leases of `store`; `clock` gives the wall-clock times that people read and limits
    /// how long one renewal may hold up the others of its call. No lease ends by it, unless `store` cannot tell
    /// [how long an entry still lives](super::ttl_store::Entry::time_left).
    pub fn with_clock(store: S, clock: Arc<dyn Clock>) -> Self {
        let observed = store.guarantees().clock == ExpiryClock::Observer;
        let shared = Shared { store, clock, observed, known: Mutex::default(), timed: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the store underneath.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.shared.store
    }
}

#[async_trait]
impl<S: TtlStore> LeaseStore for Ttl<S> {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.shared.acquire(election, bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        // Alone, nobody is held up.
        if let [renewal] = renewals {
            return vec![self.shared.renew(renewal).await];
        }
        // Each is a write of its own.
        let name = self.shared.store.guarantees().store;
        let renew = |renewal: Renew| {
            let shared = Arc::clone(&self.shared);
            async move { shared.renew(&renewal).await }
        };
        renew_together(renewals, &self.shared.clock, name, renew).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.shared.release(release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let seen = self.shared.look(election, "read").await?;
        Ok(seen.parts().view(&self.shared.sight(&seen)))
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let mut names = BTreeMap::new();
        for election in elections {
            // Not the record: it only follows what happens in these.
            let keys = Keys::of(election);
            for key in [keys.lease, keys.pause, keys.request] {
                names.insert(key, election.clone());
            }
        }
        let keys: Vec<String> = names.keys().cloned().collect();
        let changed = self.shared.store.watch(&keys)?;
        let shared = Arc::clone(&self.shared);
        let told = BTreeMap::new();
        let watching = Watching { shared, changed, names, told };
        let changes = stream::unfold(watching, |mut watching| async {
            let change = watching.next().await?;
            Some((change, watching))
        });
        Some(Box::pin(changes))
    }

    fn guarantees(&self) -> Guarantees {
        self.shared.store.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        Some(self)
    }
}

/// What a watcher has been told about an election: more than a renewal has happened if it differs.
#[derive(PartialEq, Eq)]
struct Told {
    state: RecordState,
    token: FencingToken,
    bid: Option<BidId>,
    request: Option<RequestId>,
    paused_by: Option<String>,
}

impl Told {
    /// Returns the lease that was told of: its bid and its token.
    fn lease(&self) -> Option<(BidId, FencingToken)> {
        let bid = self.bid.filter(|_| self.state == RecordState::Held)?;
        Some((bid, self.token))
    }
}

impl<S: TtlStore> Shared<S> {
    /// Tells whether all that happened is that a lease which was told of lives on: one read for what happens most.
    async fn is_renewed(
        &self,
        election: &ElectionName,
        changed: Option<&str>,
        told: Option<(BidId, FencingToken)>,
    ) -> bool {
        let key = Keys::of(election).lease;
        let Some((bid, token)) = told.filter(|_| changed == Some(&key)) else {
            return false;
        };
        let found = self.get::<Slot>(election, &key, "watch").await;
        matches!(found, Ok(Some(found)) if found.value().is_lease_of(bid, token))
    }
}

struct Watching<S> {
    shared: Arc<Shared<S>>,
    changed: ChangedKeys,
    names: BTreeMap<String, ElectionName>,
    told: BTreeMap<ElectionName, Told>,
}

impl<S: TtlStore> Watching<S> {
    /// Waits for the next change that somebody may act on. Renewals pass in silence: nobody does anything about them,
    /// and there are many.
    async fn next(&mut self) -> Option<Change> {
        loop {
            let key = self.changed.next().await?;
            let Some(election) = key.as_ref().and_then(|key| self.names.get(key)) else {
                return Some(Change::Gap);
            };
            let told = self.told.get(election).and_then(Told::lease);
            if self.shared.is_renewed(election, key.as_deref(), told).await {
                continue;
            }
            let view = match self.shared.look(election, "watch").await {
                Ok(seen) => seen.parts().view(&self.shared.sight(&seen)),
                // Not readable just now: whoever watches looks for himself.
                Err(_) => None,
            };
            let Some(view) = view else {
                return Some(Change::Gap);
            };
            let told = Told {
                state: view.state.clone(),
                token: view.token,
                bid: view.holder.as_ref().map(|holder| holder.bid),
                request: view.request.as_ref().map(|request| request.id),
                paused_by: view.pause.as_ref().map(|pause| pause.by.clone()),
            };
            if self.told.get(election) != Some(&told) {
                self.told.insert(election.clone(), told);
                return Some(Change::Record(Box::new(view)));
            }
        }
    }
}

#[async_trait]
impl<S: TtlStore> Operator for Ttl<S> {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        let begin = Keys::RECORD;
        let keys = self.shared.store.list(&format!("{begin}{prefix}")).await?;
        let Some(keys) = keys else {
            let message = "this store cannot list what it holds: give the name of the election, or implement \
                           `TtlStore::list`";
            return Err(self.shared.error(ErrorKind::Invalid, "list", message));
        };
        let mut names: Vec<_> =
            keys.iter().filter_map(|key| ElectionName::new(key.strip_prefix(begin)?).ok()).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        for _ in 0..CONFLICTS {
            let seen = self.shared.look(election, "request").await?;
            let sight = self.shared.sight(&seen);
            let present = seen.parts().record(&sight);
            let answer = match record::request(present.as_ref(), &request, attempt, &sight) {
                Decision::Keep(answer) => return Ok(answer),
                Decision::Write(_, answer) => answer,
            };
            let asking = Asking { write: attempt, request: request.clone() };
            // An entry of its own, so that asking a dead leader again and again does not keep its lease alive.
            let over = seen.request.as_ref().map(Found::bytes);
            let key = Keys::of(election).request;
            let ttl = request.expires_in;
            if self.shared.put_for(election, &key, over, &asking, ttl).await? {
                let ended = self.shared.ended_before(election, &asking).await?;
                return Ok(ended.unwrap_or(answer));
            }
        }
        Err(self.shared.conflict(election, "request"))
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        let shared = &self.shared;
        let key = Keys::of(election).pause;
        let mut paused = false;
        for _ in 0..CONFLICTS {
            let seen = shared.look(election, "pause").await?;
            // The same pause again, after a lost answer, does not begin anew.
            paused |= seen.pause.as_ref().is_some_and(|found| found.value().write == attempt);
            if !paused {
                let ttl = pause.ends_in;
                let new = Paused { write: attempt, pause: pause.clone() };
                let over = seen.pause.as_ref().map(Found::bytes);
                paused = shared.put_for(election, &key, over, new, ttl).await?;
                if !paused {
                    continue;
                }
            }
            // Whoever looked before the pause was there and has not drawn a token yet finds the record changed.
            let present = seen.kept.as_ref();
            let touched = Kept::touched(present.map(Found::value), election, attempt);
            if shared.keep(election, present, &touched).await? {
                return Ok(());
            }
        }
        Err(shared.conflict(election, "pause"))
    }

    async fn resume(&self, election: &ElectionName, _attempt: Attempt) -> Result<(), StoreError> {
        for _ in 0..CONFLICTS {
            let seen = self.shared.look(election, "resume").await?;
            let Some(pause) = &seen.pause else { return Ok(()) };
            let key = Keys::of(election).pause;
            if self.shared.store.compare_and_delete(&key, pause.bytes()).await? {
                return Ok(());
            }
        }
        Err(self.shared.conflict(election, "resume"))
    }

    async fn candidates(&self, _election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        Ok(None)
    }
}

#[cfg(test)]
#[path = "contract_test.rs"]
mod contract_test;
#[cfg(test)]
#[path = "crash_test.rs"]
mod crash_test;
#[cfg(test)]
#[path = "model_test.rs"]
mod model_test;
#[cfg(test)]
#[path = "operator_test.rs"]
mod operator_test;
#[cfg(test)]
#[path = "support_test.rs"]
mod support_test;
#[cfg(test)]
#[path = "untold_test.rs"]
mod untold_test;
