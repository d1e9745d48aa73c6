//! The door for stores that only have compare-and-swap, and its one adaptor to the contract.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;
use futures_util::{StreamExt, stream};

use super::recent::Recent;
use super::record::{self, Decision, Record, STRETCH_PERMILLE, Sight};
use super::together::renew_together;
use super::{
    Acquisition, Bid, Change, Changes, ControlRequest, ErrorKind, Guarantees, LeaseRecord, LeaseStore,
    Operator, Pause, Release, Released, Renew, Renewal, Requested, StoreError,
};
use crate::clock::{Clock, Moment, SystemClock};
use crate::flaw::{Flaw, flawed};
use crate::name::{Attempt, CandidateId, ElectionName};
use crate::token::FencingToken;

/// The store's compare-and-swap mark; opaque.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Revision(pub String);

/// How long ago a record was written, by the store's own judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// At least this long.
    AtLeast(Duration),
    /// The store cannot tell; the observer times it.
    Unknown,
}

/// What a read found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The record's bytes, as they were written.
    pub bytes: Vec<u8>,
    /// The mark of this version.
    pub revision: Revision,
    /// How long ago it was written.
    pub age: Age,
}

/// The answer to a conditional write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is in place under this mark.
    Written(Revision),
    /// Somebody else was first: nothing happened.
    Conflict,
}

/// A stream of the names of elections whose records changed; `None` = changes may have been missed.
pub type ChangedNames = Pin<Box<dyn Stream<Item = Option<ElectionName>> + Send>>;

/// A store of byte strings with compare-and-swap.
///
/// # Contract
///
/// `read` sees every write that was answered before it. `create` and `replace` take effect whole or not at all, and
/// only if the condition holds at that moment. `Conflict` is definite; after an error of an unknown kind the write may
/// still take effect later, if its condition then still holds.
#[async_trait]
pub trait VersionedStore: Send + Sync + 'static {
    /// Reads the present version; `None` if there is none.
    async fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError>;

    /// Writes the first version, if there is none.
    async fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError>;

    /// Writes the next version, if `revision` is the present one.
    async fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        revision: &Revision,
    ) -> Result<Written, StoreError>;

    /// Lists the elections whose names begin with `prefix`, in order.
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError>;

    /// Reports changed elections without polling, or `None` where the store cannot. Renewals need not be reported.
    fn watch(&self, elections: &[ElectionName]) -> Option<ChangedNames>;

    /// Says what the store promises.
    fn guarantees(&self) -> Guarantees;

    /// Returns what this process leaves in its records for others to see whether it lives; for stores that can see
    /// processes. It must be in force before it is returned.
    ///
    /// # Errors
    /// If it should be there and cannot be had: then nothing is acquired.
    async fn life_sign(&self) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// Tells whether the process that left `life_sign` is certainly gone.
    async fn is_dead(&self, _life_sign: &str) -> bool {
        false
    }

    /// Returns a number that a first token must exceed; for stores whose records can vanish while tokens must not.
    ///
    /// # Errors
    /// If it cannot be read: then nothing is acquired.
    async fn token_base(&self, _election: &ElectionName) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Makes sure that `token` will never be granted again, before the record that grants it is written.
    ///
    /// # Errors
    /// If that cannot be made sure: then nothing is acquired.
    async fn before_grant(&self, _election: &ElectionName, _token: FencingToken) -> Result<(), StoreError> {
        Ok(())
    }
}

/// How often a write is decided anew after somebody else was first. Every conflict means that another write succeeded,
/// so that the store as a whole gets on; a caller that loses this often hears `Conflict`.
const CONFLICTS: usize = 16;

/// Leases on a [`VersionedStore`].
#[derive(Clone, Debug)]
pub struct Versioned<S> {
    shared: Arc<Shared<S>>,
}

#[derive(Debug)]
struct Shared<S> {
    store: S,
    clock: Arc<dyn Clock>,
    stretch_permille: u32,
    known: Mutex<Recent<ElectionName, Known>>,
}

/// What was last seen of an election.
#[derive(Clone, Debug)]
struct Known {
    record: Box<Record>,
    revision: Revision,
    /// When the first answer that showed this mark arrived: distrust starts at the reply.
    mark_seen: Moment,
    /// When the first answer that showed this write arrived.
    write_seen: Moment,
    /// When the last request was sent whose answer showed this.
    asked: Moment,
    /// How old the mark was then, by the store's judgement; zero where it cannot tell.
    mark_age: Duration,
}

impl Known {
    /// Returns how old the mark is at most: whoever counts from before the last request cannot count too little.
    fn oldest_mark(&self, now: Moment) -> Duration {
        self.mark_age.saturating_add(now.time_since(self.asked))
    }
}

/// A record and how it looks now.
struct Present {
    known: Option<Known>,
    sight: Sight,
}

impl<S: VersionedStore> Versioned<S> {
    /// Makes leases of `store`, timing unchanged records on the machine's clock.
    pub fn new(store: S) -> Self {
        Self::with_clock(store, Arc::new(SystemClock))
    }

    /// Makes leases of `store`, timing unchanged records on `clock`.
    pub fn with_clock(store: S, clock: Arc<dyn Clock>) -> Self {
        let observed = store.guarantees().clock == super::ExpiryClock::Observer;
        let stretch_permille = if observed { STRETCH_PERMILLE } else { 0 };
        let shared = Shared { store, clock, stretch_permille, known: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the store underneath.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.shared.store
    }
}

impl<S: VersionedStore> Shared<S> {
    fn known(&self) -> MutexGuard<'_, Recent<ElectionName, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the answer to a request of `asked` showed; the answer has just arrived.
    fn note(
        &self,
        election: &ElectionName,
        record: Box<Record>,
        revision: Revision,
        asked: Moment,
        age: Age,
    ) -> Known {
        let now = if flawed(Flaw::ObserverAnchoredAtSend) { asked } else { self.clock.now() };
        let mut known = self.known();
        let before = known.get(election);
        let mark_seen =
            before.filter(|b| b.record.mark() == record.mark()).map_or(now, |before| before.mark_seen);
        let write_seen = before
            .filter(|b| b.record.write_mark() == record.write_mark())
            .map_or(now, |before| before.write_seen);
        let age = match age {
            Age::AtLeast(age) => age,
            Age::Unknown => Duration::ZERO,
        };
        let mark_age = record.mark_age_when_written().saturating_add(age);
        let seen = Known { record, revision, mark_seen, write_seen, asked, mark_age };
        let longest = seen.record.longest_wait();
        known.insert(election.clone(), seen.clone(), now, longest);
        seen
    }

    fn sight(&self, known: Option<&Known>, age: Age) -> Sight {
        let mut sight = Sight::exact(Duration::ZERO, self.clock.wall());
        let Some(known) = known else { return sight };
        let now = self.clock.now();
        // Lower bounds all: a clock that stood still makes a lease look younger, never older.
        let watched_write = now.least_since(known.write_seen);
        sight.watched = now.least_since(known.mark_seen);
        sight.age = match age {
            Age::AtLeast(age) => age,
            Age::Unknown => watched_write,
        };
        sight.stretch_permille = self.stretch_permille;
        if self.stretch_permille == 0 {
            // One clock judges everything here; what this process has watched adds nothing to it.
            sight.watched = Duration::ZERO;
        }
        sight
    }

    async fn look(&self, election: &ElectionName, operation: &'static str) -> Result<Present, StoreError> {
        let asked = self.clock.now();
        let Some(found) = self.store.read(election).await? else {
            self.known().remove(election);
            return Ok(Present { known: None, sight: self.sight(None, Age::Unknown) });
        };
        // Read before, most of the time: whoever was woken by a change looks again to bid.
        let known = self.known().get(election).filter(|known| known.revision == found.revision).cloned();
        let record = match known {
            Some(known) => known.record,
            None => Box::new(self.decode(election, &found.bytes, operation)?),
        };
        let known = self.note(election, record, found.revision, asked, found.age);
        let mut sight = self.sight(Some(&known), found.age);
        if let Some(life_sign) = known.record.life_sign() {
            sight.holder_dead = self.store.is_dead(life_sign).await;
        }
        Ok(Present { known: Some(known), sight })
    }

    fn decode(
        &self,
        election: &ElectionName,
        bytes: &[u8],
        operation: &'static str,
    ) -> Result<Record, StoreError> {
        Record::decode(election, bytes).map_err(|e| {
            let message = format!(
                "the record of election {:?} cannot be understood: {e}; nobody is elected until it is repaired",
                election.as_str()
            );
            StoreError::new(ErrorKind::Corrupt, self.store.guarantees().store, operation, message)
        })
    }

    async fn write(
        &self,
        election: &ElectionName,
        record: Box<Record>,
        over: Option<&Revision>,
    ) -> Result<bool, StoreError> {
        let bytes = record.encode();
        let asked = self.clock.now();
        let written = match over {
            None => self.store.create(election, bytes).await?,
            Some(revision) => self.store.replace(election, bytes, revision).await?,
        };
        match written {
            Written::Written(revision) => {
                self.note(election, record, revision, asked, Age::AtLeast(Duration::ZERO));
                Ok(true)
            }
            Written::Conflict => {
                self.known().remove(election);
                Ok(false)
            }
        }
    }

    /// Looks, decides and writes, again and again while others are faster.
    async fn change<T>(
        &self,
        election: &ElectionName,
        operation: &'static str,
        decide: impl Fn(Option<&Record>, &Sight) -> Decision<T>,
    ) -> Result<T, StoreError> {
        for _ in 0..CONFLICTS {
            let mut present = self.look(election, operation).await?;
            match self.decide(election, &mut present, &decide).await? {
                Decision::Keep(answer) => return Ok(answer),
                Decision::Write(record, answer) => {
                    if self
                        .write(election, record, present.known.as_ref().map(|known| &known.revision))
                        .await?
                    {
                        return Ok(answer);
                    }
                }
            }
        }
        let message = format!(
            "others wrote the record of election {:?} first, {CONFLICTS} times in a row",
            election.as_str()
        );
        Err(StoreError::new(ErrorKind::Conflict, self.store.guarantees().store, operation, message))
    }

    /// Decides, and lets the store have its say about a token before it is granted.
    async fn decide<T>(
        &self,
        election: &ElectionName,
        present: &mut Present,
        decide: impl Fn(Option<&Record>, &Sight) -> Decision<T>,
    ) -> Result<Decision<T>, StoreError> {
        let record = present.known.as_ref().map(|known| known.record.as_ref());
        let last = record.map_or(FencingToken::ZERO, Record::token);
        let grants = |decision: &Decision<T>| match decision {
            Decision::Write(next, _) => Some(next.token()).filter(|token| *token > last),
            Decision::Keep(_) => None,
        };
        let mut decision = decide(record, &present.sight);
        if grants(&decision).is_some() && last == FencingToken::ZERO {
            // No earlier term in the record: it may be new while the election is not.
            present.sight.token_base = self.store.token_base(election).await?;
            decision = decide(record, &present.sight);
        }
        if let Some(token) = grants(&decision) {
            self.store.before_grant(election, token).await?;
        }
        Ok(decision)
    }

    async fn renew(&self, renewal: &Renew) -> Result<Renewal, StoreError> {
        let election = &renewal.lease.election;
        // Our own last write is still the present version, most of the time: one request instead of two.
        let known = self.known().get(election).cloned();
        if let Some(known) = known {
            let mut sight = self.sight(Some(&known), Age::Unknown);
            if self.stretch_permille == 0 {
                // The store's clock counts from when a write was applied, which was before we heard of it: without a
                // look, a lease that may be over counts as over, so that none comes back that others saw end.
                sight.watched = known.oldest_mark(self.clock.now());
            }
            if let Decision::Write(record, answer) = record::renew(Some(&known.record), renewal, &sight)
                && self.write(election, record, Some(&known.revision)).await?
            {
                return Ok(answer);
            }
        }
        // Looking settles everything else: an operator's request changed the revision, an earlier attempt of ours was
        // applied without our hearing it, or the lease is gone.
        self.change(election, "renew", |present, sight| record::renew(present, renewal, sight))
            .await
            .or_else(lost)
    }
}

/// Renewing over something that is not our own bid is a loss, also if it cannot be read.
fn lost(error: StoreError) -> Result<Renewal, StoreError> {
    if error.kind() == ErrorKind::Corrupt { Ok(Renewal::Lost(None)) } else { Err(error) }
}

#[async_trait]
impl<S: VersionedStore> LeaseStore for Versioned<S> {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        let life_sign = self.shared.store.life_sign().await?;
        let decide =
            |present: Option<&Record>, sight: &Sight| match record::acquire(present, election, bid, sight) {
                Decision::Write(record, answer) => {
                    Decision::Write(record.with_life_sign(life_sign.clone()), answer)
                }
                keep @ Decision::Keep(_) => keep,
            };
        self.shared.change(election, "acquire", decide).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        // Alone, nobody is held up.
        if let [renewal] = renewals {
            return vec![self.shared.renew(renewal).await];
        }
        // Each record is a write of its own.
        let name = self.shared.store.guarantees().store;
        let renew = |renewal: Renew| {
            let shared = Arc::clone(&self.shared);
            async move { shared.renew(&renewal).await }
        };
        renew_together(renewals, &self.shared.clock, name, renew).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let decide = |present: Option<&Record>, sight: &Sight| record::release(present, release, sight);
        let released = self.shared.change(&release.lease.election, "release", decide).await;
        if released.is_ok() {
            // Whoever stands again looks first: nothing that was known is needed any more.
            self.shared.known().remove(&release.lease.election);
        }
        match released {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Released::NotHeld),
            released => released,
        }
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let present = self.shared.look(election, "read").await?;
        Ok(present.known.map(|known| known.record.view(&present.sight)))
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let names = self.shared.store.watch(elections)?;
        let shared = Arc::clone(&self.shared);
        let changes = stream::unfold((shared, names), |(shared, mut names)| async {
            let change = match names.next().await? {
                None => Change::Gap,
                Some(election) => match shared.look(&election, "watch").await {
                    Ok(Present { known: Some(known), sight }) => {
                        Change::Record(Box::new(known.record.view(&sight)))
                    }
                    // Gone, or not readable just now: whoever watches looks for himself.
                    Ok(Present { known: None, .. }) | Err(_) => Change::Gap,
                },
            };
            Some((change, (shared, names)))
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

#[async_trait]
impl<S: VersionedStore> Operator for Versioned<S> {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        self.shared.store.list(prefix).await
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        let decide =
            |present: Option<&Record>, sight: &Sight| record::request(present, &request, attempt, sight);
        self.shared.change(election, "request", decide).await
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        let decide = |present: Option<&Record>, sight: &Sight| {
            record::pause(present, election, &pause, attempt, sight)
        };
        self.shared.change(election, "pause", decide).await
    }

    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError> {
        let decide = |present: Option<&Record>, sight: &Sight| record::resume(present, attempt, sight);
        self.shared.change(election, "resume", decide).await
    }

    async fn candidates(&self, _election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        Ok(None)
    }
}

#[cfg(test)]
#[path = "versioned_test.rs"]
mod tests;
