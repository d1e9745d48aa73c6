//! Byte strings with compare-and-swap in memory: the simplest store behind the versioned door.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;

use crate::clock::{Clock, Moment};
use crate::name::ElectionName;
use crate::store::versioned::{Age, ChangedNames, Found, Revision, VersionedStore, Written};
use crate::store::wake::Wakes;
use crate::store::{ExpiryClock, Guarantees, StoreError, TokenOrder, Wake};

/// A [`VersionedStore`] in memory; clones share it.
///
/// It shows what a store of one's own has to do, and stands in for object storage in tests: with
/// [`without_age`](Self::without_age) it cannot tell how old a record is, as most of them cannot.
#[derive(Clone)]
pub struct MemoryVersioned {
    shared: Arc<Shared>,
    tells_age: bool,
}

struct Shared {
    number: u64,
    clock: Arc<dyn Clock>,
    versions: Mutex<BTreeMap<ElectionName, Version>>,
    wakes: Wakes,
    // Never repeats, not even after a record was removed: a mark that came back would let a stale write pass.
    last_number: AtomicU64,
}

struct Version {
    bytes: Vec<u8>,
    number: u64,
    written: Moment,
}

impl MemoryVersioned {
    /// Makes an empty store that tells the age of its records by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            number: super::next_number(),
            clock,
            versions: Mutex::default(),
            wakes: Wakes::default(),
            last_number: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared), tells_age: true }
    }

    /// Keeps quiet about the age of records, so that observers must time them.
    #[must_use]
    pub fn without_age(mut self) -> Self {
        self.tells_age = false;
        self
    }

    /// Overwrites whatever is there, as somebody with access to a bucket could; for tests.
    pub fn overwrite(&self, election: &ElectionName, bytes: Option<Vec<u8>>) {
        let mut versions = self.versions();
        match bytes {
            None => drop(versions.remove(election)),
            Some(bytes) => drop(self.put(&mut versions, election, bytes)),
        }
    }

    fn versions(&self) -> MutexGuard<'_, BTreeMap<ElectionName, Version>> {
        self.shared.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(
        &self,
        versions: &mut BTreeMap<ElectionName, Version>,
        election: &ElectionName,
        bytes: Vec<u8>,
    ) -> Written {
        let number = self.shared.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        versions.insert(election.clone(), Version { bytes, number, written: self.shared.clock.now() });
        self.shared.wakes.wake(election);
        Written::Written(Revision(number.to_string()))
    }
}

#[async_trait]
impl VersionedStore for MemoryVersioned {
    async fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError> {
        let now = self.shared.clock.now();
        Ok(self.versions().get(election).map(|version| Found {
            bytes: version.bytes.clone(),
            revision: Revision(version.number.to_string()),
            age: if self.tells_age {
                Age::AtLeast(now.boot().saturating_sub(version.written.boot()))
            } else {
                Age::Unknown
            },
        }))
    }

    async fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError> {
        let mut versions = self.versions();
        if versions.contains_key(election) {
            return Ok(Written::Conflict);
        }
        Ok(self.put(&mut versions, election, bytes))
    }

    async fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        revision: &Revision,
    ) -> Result<Written, StoreError> {
        let mut versions = self.versions();
        if versions.get(election).is_none_or(|version| version.number.to_string() != revision.0) {
            return Ok(Written::Conflict);
        }
        Ok(self.put(&mut versions, election, bytes))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        Ok(self.versions().keys().filter(|name| name.as_str().starts_with(prefix)).cloned().collect())
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<ChangedNames> {
        let wake = self.shared.wakes.watch(elections);
        let shared = Arc::clone(&self.shared);
        // The store goes along, so that a watch does not outlive what it watches.
        Some(Box::pin(stream::unfold((shared, wake), |(shared, wake)| async {
            let election = wake.next().await;
            Some((Some(election), (shared, wake)))
        })))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "memory-versioned",
            scope: format!("the tasks of this process that share store {}", self.shared.number),
            linearizable: true,
            survives_restart: false,
            survives_failover: None,
            clock: if self.tells_age { ExpiryClock::Machine } else { ExpiryClock::Observer },
            tokens: TokenOrder::Strict,
            min_ttl: Duration::from_millis(1),
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: vec!["leases and tokens end with the process"],
        }
    }
}

impl fmt::Debug for MemoryVersioned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryVersioned")
    }
}
