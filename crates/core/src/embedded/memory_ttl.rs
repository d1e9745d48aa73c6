//! Values that end by themselves, in memory: the simplest store behind the plain-verbs door.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::clock::Clock;
use crate::store::ttl_store::{ChangedKeys, Entry, TtlStore};
use crate::store::{ExpiryClock, Guarantees, StoreError, TokenOrder, Wake};

/// Changes that a watcher may be behind before it is told to look at everything again.
const CHANGES_KEPT: usize = 1024;

/// A [`TtlStore`] in memory; clones share it.
///
/// It shows what a store of one's own has to do. Values end by the clock that it was made with, which a test can move.
#[derive(Clone)]
pub struct MemoryTtl {
    shared: Arc<Shared>,
}

struct Shared {
    number: u64,
    clock: Arc<dyn Clock>,
    values: Mutex<BTreeMap<String, Stored>>,
    changed: broadcast::Sender<String>,
}

struct Stored {
    value: Vec<u8>,
    /// When it ends, on the boot clock; `None` = never.
    end: Option<Duration>,
}

impl Stored {
    fn lives(&self, now: Duration) -> bool {
        self.end.is_none_or(|end| end > now)
    }
}

impl MemoryTtl {
    /// Makes an empty store whose values end by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared {
            number: super::next_number(),
            clock,
            values: Mutex::default(),
            changed: broadcast::Sender::new(CHANGES_KEPT),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Overwrites the value under `key`, keeping its end, or removes it, as somebody with access to the storage could;
    /// for tests.
    pub fn overwrite(&self, key: &str, value: Option<Vec<u8>>) {
        let mut values = self.values();
        match value {
            None => drop(values.remove(key)),
            Some(value) => {
                let end = values.get(key).and_then(|stored| stored.end);
                values.insert(key.to_owned(), Stored { value, end });
            }
        }
        drop(values);
        self.tell(key);
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        self.shared.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By the boot clock alone, since a store has one clock: two would be two opinions about one value.
    fn now(&self) -> Duration {
        self.shared.clock.now().boot()
    }

    /// Compares and writes in one step; `None` stands for "nothing there".
    fn write(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        new: Option<Vec<u8>>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let mut values = self.values();
        // Read under the lock: between two readings the value could end.
        let now = self.now();
        let present = values.get(key).filter(|stored| stored.lives(now));
        if present.map(|stored| stored.value.as_slice()) != expected {
            return Ok(false);
        }
        match new {
            None => drop(values.remove(key)),
            Some(value) => {
                let end = ttl.map(|ttl| now.saturating_add(ttl));
                values.insert(key.to_owned(), Stored { value, end });
            }
        }
        drop(values);
        self.tell(key);
        Ok(true)
    }

    fn tell(&self, key: &str) {
        // Nobody may be watching: that is no error.
        let _ = self.shared.changed.send(key.to_owned());
    }
}

#[async_trait]
impl TtlStore for MemoryTtl {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let values = self.values();
        let now = self.now();
        let present = values.get(key).filter(|stored| stored.lives(now));
        Ok(present.map(|stored| Entry {
            value: stored.value.clone(),
            time_left: stored.end.map(|end| end.saturating_sub(now)),
        }))
    }

    async fn insert_if_absent(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.write(key, None, Some(value), ttl)
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.write(key, Some(expected), Some(new), ttl)
    }

    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError> {
        self.write(key, Some(expected), None, None)
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "memory-ttl",
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

    async fn list(&self, prefix: &str) -> Result<Option<Vec<String>>, StoreError> {
        let values = self.values();
        let now = self.now();
        let live = values.iter().filter(|(_, stored)| stored.lives(now));
        let keys = live.map(|(key, _)| key).filter(|key| key.starts_with(prefix));
        Ok(Some(keys.cloned().collect()))
    }

    fn watch(&self, keys: &[String]) -> Option<ChangedKeys> {
        let keys: BTreeSet<String> = keys.iter().cloned().collect();
        let changed = self.shared.changed.subscribe();
        Some(Box::pin(stream::unfold((changed, keys), |(mut changed, keys)| async {
            loop {
                match changed.recv().await {
                    Ok(key) if keys.contains(&key) => return Some((Some(key), (changed, keys))),
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => return Some((None, (changed, keys))),
                    Err(RecvError::Closed) => return None,
                }
            }
        })))
    }
}

impl fmt::Debug for MemoryTtl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryTtl")
    }
}
