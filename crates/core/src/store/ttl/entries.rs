//! The entries of an election: where they are, how they are read and written.

use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{SUCCESS_KEPT, Shared};
use crate::clock::Moment;
use crate::name::ElectionName;
use crate::store::recent::Recent;
use crate::store::record::Sight;
use crate::store::record::parts::{self, Asking, Kept, Parts, Paused, Progress, Slot, Success};
use crate::store::ttl_store::TtlStore;
use crate::store::{ErrorKind, StoreError};

/// The keys under which an election is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Who has the place.
    pub lease: String,
    /// What never ends: token and last terms.
    pub record: String,
    /// A pause.
    pub pause: String,
    /// An operator's request.
    pub request: String,
    /// The last successful end.
    pub success: String,
}

impl Keys {
    /// What the key of every record begins with.
    pub(super) const RECORD: &'static str = "tenure/record/";

    /// Returns the keys of `election`. The name comes last, so that no name can reach into another one's keys.
    #[must_use]
    pub fn of(election: &ElectionName) -> Self {
        Self {
            lease: format!("tenure/lease/{election}"),
            record: format!("{}{election}", Self::RECORD),
            pause: format!("tenure/pause/{election}"),
            request: format!("tenure/request/{election}"),
            success: format!("tenure/success/{election}"),
        }
    }
}

/// An entry that was read and understood, with its bytes: only they can be replaced.
#[derive(Clone, Debug)]
pub(super) struct Found<T> {
    value: T,
    bytes: Vec<u8>,
    pub(super) progress: Progress,
}

impl<T> Found<T> {
    /// An entry that was just written.
    pub(super) fn new(value: T, bytes: Vec<u8>) -> Self {
        Self { value, bytes, progress: Progress::Fresh }
    }

    pub(super) fn value(&self) -> &T {
        &self.value
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What lasts for a time, and how long; `None` if it never ends, or if nobody times it.
pub(super) trait Lasting {
    fn lasts(&self) -> Option<Duration>;
}

impl Lasting for Kept {
    fn lasts(&self) -> Option<Duration> {
        None
    }
}

impl Lasting for Slot {
    fn lasts(&self) -> Option<Duration> {
        Some(self.lasts())
    }
}

impl Lasting for Paused {
    fn lasts(&self) -> Option<Duration> {
        Some(self.pause.ends_in)
    }
}

impl Lasting for Asking {
    fn lasts(&self) -> Option<Duration> {
        Some(self.request.expires_in)
    }
}

impl Lasting for Success {
    fn lasts(&self) -> Option<Duration> {
        None
    }
}

/// An entry that an observer times.
#[derive(Debug)]
pub(super) struct Timed {
    bytes: Vec<u8>,
    first_seen: Moment,
}

/// A lease that is held through here, as it was last written.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) kept: Option<Found<Kept>>,
    pub(super) slot: Found<Slot>,
}

/// The entries of one election, as a look found them.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    election: ElectionName,
    pub(super) kept: Option<Found<Kept>>,
    pub(super) slot: Option<Found<Slot>>,
    pub(super) pause: Option<Found<Paused>>,
    pub(super) request: Option<Found<Asking>>,
    success: Option<Duration>,
}

impl Seen {
    /// What is known of a lease without looking.
    pub(super) fn of(election: &ElectionName, held: Held) -> Self {
        Self {
            election: election.clone(),
            kept: held.kept,
            slot: Some(held.slot),
            pause: None,
            request: None,
            success: None,
        }
    }

    pub(super) fn parts(&self) -> Parts<'_> {
        Parts {
            election: &self.election,
            kept: self.kept.as_ref().map(Found::value),
            slot: self.slot.as_ref().map(|slot| (slot.value(), slot.progress)),
            pause: self.pause.as_ref().map(Found::value),
            request: self.request.as_ref().map(|found| &found.value.request),
            success: self.success,
        }
    }
}

impl<S: TtlStore> Shared<S> {
    /// Returns how the entries of `seen` look now.
    pub(super) fn sight(&self, seen: &Seen) -> Sight {
        // Every age here is as of now already.
        let sight = Sight::exact(Duration::ZERO, self.clock.wall());
        let stretch_permille = seen.slot.as_ref().map_or(0, |slot| slot.progress.stretch_permille());
        Sight { stretch_permille, ..sight }
    }

    pub(super) fn error(
        &self,
        kind: ErrorKind,
        operation: &'static str,
        message: impl Into<String>,
    ) -> StoreError {
        StoreError::new(kind, self.store.guarantees().store, operation, message)
    }

    pub(super) fn conflict(&self, election: &ElectionName, operation: &'static str) -> StoreError {
        let message = format!(
            "others wrote the entries of election {:?} first, {} times in a row",
            election.as_str(),
            super::CONFLICTS
        );
        self.error(ErrorKind::Conflict, operation, message)
    }

    /// Reads everything that is stored about an election.
    pub(super) async fn look(
        &self,
        election: &ElectionName,
        operation: &'static str,
    ) -> Result<Seen, StoreError> {
        let keys = Keys::of(election);
        // The record before the lease: see the order in the module's words.
        let kept = self.get(election, &keys.record, operation).await?;
        let (slot, pause, request, success) = future::try_join4(
            self.get(election, &keys.lease, operation),
            self.get::<Paused>(election, &keys.pause, operation),
            self.get::<Asking>(election, &keys.request, operation),
            self.get::<Success>(election, &keys.success, operation),
        )
        .await?;
        Ok(Seen {
            election: election.clone(),
            kept,
            slot,
            pause: pause.map(with_pause_left),
            request: request.map(with_request_left),
            success: success.and_then(|found| match found.progress {
                Progress::Left(left) => Some(SUCCESS_KEPT.saturating_sub(left)),
                // Whoever just began to watch cannot tell how long ago that was.
                Progress::Fresh | Progress::Watched(_) => None,
            }),
        })
    }

    /// Reads what a holder needs: the record, the lease, and what an operator asks.
    ///
    /// An entry that a holder has no use for cannot cost it its lease, whatever stands there.
    pub(super) async fn look_as_holder(
        &self,
        election: &ElectionName,
        operation: &'static str,
    ) -> Result<Seen, StoreError> {
        let keys = Keys::of(election);
        let kept = self.get(election, &keys.record, operation).await?;
        let (slot, request) = future::try_join(
            self.get(election, &keys.lease, operation),
            self.request_of(election, operation),
        )
        .await?;
        Ok(Seen { election: election.clone(), kept, slot, pause: None, request, success: None })
    }

    /// Reads what an operator asks; something unreadable asks nothing.
    pub(super) async fn request_of(
        &self,
        election: &ElectionName,
        operation: &'static str,
    ) -> Result<Option<Found<Asking>>, StoreError> {
        let key = Keys::of(election).request;
        match self.get(election, &key, operation).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            found => Ok(found?.map(with_request_left)),
        }
    }

    pub(super) async fn get<T: DeserializeOwned + Lasting>(
        &self,
        election: &ElectionName,
        key: &str,
        operation: &'static str,
    ) -> Result<Option<Found<T>>, StoreError> {
        let Some(entry) = self.store.get(key).await? else {
            return Ok(None);
        };
        let value: T = parts::decode(election, &entry.value).map_err(|e| {
            let message = format!(
                "the entry {key:?} of election {:?} cannot be understood: {e}; nobody is elected until it is \
                 repaired or removed",
                election.as_str()
            );
            self.error(ErrorKind::Corrupt, operation, message)
        })?;
        let progress = match (entry.time_left, value.lasts()) {
            (Some(left), _) => Progress::Left(left),
            (None, Some(lasts)) => Progress::Watched(self.watched(key, entry.value.clone(), lasts)),
            (None, None) => Progress::Fresh,
        };
        Ok(Some(Found { value, bytes: entry.value, progress }))
    }

    /// Returns for how long an entry has been seen unchanged, for stores that cannot tell how long it still lives.
    /// The answer that shows it has just arrived: distrust starts at the reply.
    fn watched(&self, key: &str, bytes: Vec<u8>, lasts: Duration) -> Duration {
        let now = self.clock.now();
        let mut timed = self.timed.lock().unwrap_or_else(PoisonError::into_inner);
        // No two writes of a lease are the same bytes: each has an attempt of its own, from whose send its holder counts.
        let before = timed.get(key).filter(|timed| timed.bytes == bytes);
        let first_seen = before.map_or(now, |timed| timed.first_seen);
        timed.insert(key.to_owned(), Timed { bytes, first_seen }, now, parts::longest(lasts));
        now.least_since(first_seen)
    }

    /// Writes bytes over exactly those that were judged, or where nothing was.
    pub(super) async fn put(
        &self,
        key: &str,
        over: Option<&[u8]>,
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        // The answer to a write shows the entry, too: whoever times it counts from there.
        let timed = ttl.filter(|_| self.observed).map(|ttl| (new.clone(), ttl));
        let written = match over {
            None => self.store.insert_if_absent(key, new, ttl).await?,
            Some(expected) => self.store.compare_and_swap(key, expected, new, ttl).await?,
        };
        if let Some((bytes, ttl)) = timed.filter(|_| written) {
            self.watched(key, bytes, ttl);
        }
        Ok(written)
    }

    /// Writes what stands for a time; what stands for no time at all is taken away.
    pub(super) async fn put_for<T: Serialize>(
        &self,
        election: &ElectionName,
        key: &str,
        over: Option<&[u8]>,
        new: T,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        match over {
            Some(over) if ttl.is_zero() => self.store.compare_and_delete(key, over).await,
            None if ttl.is_zero() => Ok(true),
            over => self.put(key, over, parts::encode(election, new), Some(ttl)).await,
        }
    }

    /// Writes the entry that never ends.
    pub(super) async fn keep(
        &self,
        election: &ElectionName,
        present: Option<&Found<Kept>>,
        next: &Kept,
    ) -> Result<bool, StoreError> {
        let key = Keys::of(election).record;
        let bytes = parts::encode(election, next);
        self.put(&key, present.map(Found::bytes), bytes, None).await
    }

    fn known(&self) -> MutexGuard<'_, Recent<ElectionName, Held>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn known_of(&self, election: &ElectionName) -> Option<Held> {
        self.known().get(election).cloned()
    }

    pub(super) fn remember(&self, election: &ElectionName, held: Held) {
        let (now, longest) = (self.clock.now(), parts::longest(held.slot.value().lasts()));
        self.known().insert(election.clone(), held, now, longest);
    }

    pub(super) fn forget(&self, election: &ElectionName) {
        self.known().remove(election);
    }
}

fn with_pause_left(mut found: Found<Paused>) -> Found<Paused> {
    let ends_in = &mut found.value.pause.ends_in;
    *ends_in = ends_in.saturating_sub(found.progress.age(*ends_in));
    found
}

fn with_request_left(mut found: Found<Asking>) -> Found<Asking> {
    let expires_in = &mut found.value.request.expires_in;
    *expires_in = expires_in.saturating_sub(found.progress.age(*expires_in));
    found
}
