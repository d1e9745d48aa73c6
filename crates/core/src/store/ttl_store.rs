//! The plain-verbs door, for people who bring their own storage.
//!
//! Whoever can insert, compare-and-swap and compare-and-delete values that end by themselves has a [`TtlStore`], and
//! [`Ttl`](super::ttl::Ttl) makes leases of it. [`MemoryTtl`](crate::embedded::MemoryTtl) is the model of one.
//! Storage with types of its own goes through [`TypedTtlStore`].

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures_core::Stream;

use super::{Guarantees, StoreError};

/// What is stored under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry<V = Vec<u8>> {
    /// The value, as it was written.
    pub value: V,
    /// How long it still lives, rounded up, never down; `None` if it does not end or the store cannot tell.
    ///
    /// A store that cannot tell still elects: each observer times an unchanged value himself, from the arrival of the
    /// first answer that shows it, for ttl × (1 + drift) with the ttl in the value. So a lease whose holder died is
    /// taken over when the store has taken it away, or when somebody has timed it to that end, whichever comes first;
    /// and nobody learns how long ago a term ended with success. Such a store says
    /// [`ExpiryClock::Observer`](super::ExpiryClock::Observer) in its guarantees.
    pub time_left: Option<Duration>,
}

/// A stream of keys whose values changed; `None` = changes may have been missed.
pub type ChangedKeys = Pin<Box<dyn Stream<Item = Option<String>> + Send>>;

/// Values that can end by themselves, under keys, with compare-and-swap.
///
/// # Contract
///
/// *Reads are current.* `get` sees every write that was answered before it.
///
/// *Writes are conditional and whole.* Each takes effect at one moment, if its condition holds at that moment, or not
/// at all. `true` and `false` are facts. After an error of an unknown kind (see [`ErrorKind`](super::ErrorKind)) the
/// write may still take effect once, later, if its condition then holds; never twice, so a client that repeats writes by
/// itself must be told not to. Values are compared whole, byte by byte.
///
/// *Values end by the store's clock.* A value written with a ttl is gone that long after it was written, and never
/// before; `None` means that it does not end. What is taken away late blocks whoever just began to look, nobody else:
/// see [`Entry::time_left`]. A swap replaces the ttl together with the value. What has ended is
/// absent for every verb. The ttls of the adaptor reach from one millisecond to [400 days](super::ttl::SUCCESS_KEPT).
///
/// *Nothing else writes* the keys that begin with `tenure/`, and nothing evicts them early. A store that evicts, or
/// that loses data in a failover, says so in its [`Guarantees`].
///
/// Keys are text of up to 300 bytes in any characters but control characters. Values are JSON of a few kilobytes.
///
/// # Example
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure_core::store::StoreError> {
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tenure_core::embedded::MemoryTtl;
/// use tenure_core::store::ttl_store::TtlStore;
/// use tenure_core::ManualClock;
///
/// let clock = ManualClock::new();
/// let store = MemoryTtl::new(Arc::new(clock.clone()));
/// let ttl = Some(Duration::from_secs(30));
/// assert!(store.insert_if_absent("who", b"me".to_vec(), ttl).await?);
/// assert!(!store.insert_if_absent("who", b"you".to_vec(), ttl).await?);
/// assert!(store.compare_and_swap("who", b"me", b"still me".to_vec(), ttl).await?);
/// clock.advance(Duration::from_secs(30));
/// assert_eq!(store.get("who").await?, None);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait TtlStore: Send + Sync + 'static {
    /// Reads what is stored under `key`; `None` if nothing is, or if it has ended.
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError>;

    /// Stores `value` if nothing is there; tells whether it did.
    async fn insert_if_absent(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError>;

    /// Stores `new`, with its own ttl, if exactly `expected` is there; tells whether it did.
    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError>;

    /// Removes what is there if it is exactly `expected`; tells whether it did.
    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError>;

    /// Says what the store promises.
    fn guarantees(&self) -> Guarantees;

    /// Lists the keys that begin with `prefix`, in any order, or `None` where the store cannot. Without it everything
    /// works but listing elections.
    async fn list(&self, _prefix: &str) -> Result<Option<Vec<String>>, StoreError> {
        Ok(None)
    }

    /// Reports which of `keys` changed, without polling, or `None` where the store cannot: then followers look.
    fn watch(&self, _keys: &[String]) -> Option<ChangedKeys> {
        None
    }
}

/// A [`TtlStore`] with keys and values of its own types, such as a typed cache.
///
/// The verbs and their contract are those of [`TtlStore`]; the three conversions say how a key and a value look there.
/// `value(bytes(v))` must be equal to `v`, since values are compared.
///
/// # Example
///
/// A typed map becomes a place for leases:
///
/// ```
/// # use std::collections::HashMap;
/// # use std::sync::{Arc, Mutex};
/// # use std::time::Duration;
/// use async_trait::async_trait;
/// use tenure_core::store::ttl::Ttl;
/// use tenure_core::store::ttl_store::{Entry, Typed, TypedTtlStore};
/// use tenure_core::store::{ErrorKind, Guarantees, StoreError};
/// # use tenure_core::store::{Acquisition, Bid, ExpiryClock, LeaseStore, Origin, TokenOrder, Wake};
/// # use tenure_core::{Attempt, BidId, CandidateId, Clock, ElectionName, FencingToken, Random, SystemClock};
///
/// #[derive(Clone, Debug, PartialEq, Eq, Hash)]
/// enum CacheKey {
///     Election(String),
/// }
/// #[derive(Clone, Debug, PartialEq)]
/// enum CacheValue {
///     Text(String),
/// }
///
/// struct Cache {
///     // What is stored, and when it ends on the boot clock.
///     map: Mutex<HashMap<CacheKey, (CacheValue, Option<Duration>)>>,
/// }
///
/// impl Cache {
///     fn write(
///         &self,
///         key: &CacheKey,
///         expected: Option<&CacheValue>,
///         new: Option<(CacheValue, Option<Duration>)>,
///     ) -> bool {
///         let now = SystemClock.now().boot();
///         let mut map = self.map.lock().unwrap();
///         let found = map.get(key).filter(|(_, end)| end.is_none_or(|end| end > now));
///         if found.map(|(value, _)| value) != expected {
///             return false;
///         }
///         match new {
///             Some((value, ttl)) => map.insert(key.clone(), (value, ttl.map(|ttl| now + ttl))),
///             None => map.remove(key),
///         };
///         true
///     }
/// }
///
/// #[async_trait]
/// impl TypedTtlStore for Cache {
///     type Key = CacheKey;
///     type Value = CacheValue;
///
///     fn key(&self, key: &str) -> CacheKey {
///         CacheKey::Election(key.to_owned())
///     }
///
///     fn value(&self, bytes: Vec<u8>) -> Result<CacheValue, StoreError> {
///         // What the adaptor writes is JSON, so it is text.
///         let text = String::from_utf8(bytes)
///             .map_err(|e| StoreError::new(ErrorKind::Invalid, "cache", "write", "not text").with_source(e))?;
///         Ok(CacheValue::Text(text))
///     }
///
///     fn bytes(&self, value: CacheValue) -> Vec<u8> {
///         let CacheValue::Text(text) = value;
///         text.into_bytes()
///     }
///
///     async fn get(&self, key: &CacheKey) -> Result<Option<Entry<CacheValue>>, StoreError> {
///         let now = SystemClock.now().boot();
///         let map = self.map.lock().unwrap();
///         Ok(map
///             .get(key)
///             .filter(|(_, end)| end.is_none_or(|end| end > now))
///             .map(|(value, end)| Entry {
///                 value: value.clone(),
///                 time_left: end.map(|end| end - now),
///             }))
///     }
///
///     async fn insert_if_absent(
///         &self,
///         key: &CacheKey,
///         value: CacheValue,
///         ttl: Option<Duration>,
///     ) -> Result<bool, StoreError> {
///         Ok(self.write(key, None, Some((value, ttl))))
///     }
///
///     async fn compare_and_swap(
///         &self,
///         key: &CacheKey,
///         expected: &CacheValue,
///         new: CacheValue,
///         ttl: Option<Duration>,
///     ) -> Result<bool, StoreError> {
///         Ok(self.write(key, Some(expected), Some((new, ttl))))
///     }
///
///     async fn compare_and_delete(&self, key: &CacheKey, expected: &CacheValue) -> Result<bool, StoreError> {
///         Ok(self.write(key, Some(expected), None))
///     }
///
///     fn guarantees(&self) -> Guarantees {
///         // …
/// #       Guarantees {
/// #           store: "cache",
/// #           scope: "this process".into(),
/// #           linearizable: true,
/// #           survives_restart: false,
/// #           survives_failover: None,
/// #           clock: ExpiryClock::Machine,
/// #           tokens: TokenOrder::Strict,
/// #           min_ttl: Duration::from_millis(1),
/// #           ttl_grain: Duration::from_millis(1),
/// #           wake: Wake::Look(Duration::from_secs(1)),
/// #           assumptions: vec![],
/// #       }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let leases = Ttl::new(Typed(Cache { map: Mutex::default() }));
/// # let random = Random::from_seed(1);
/// # let bid = Bid {
/// #     id: BidId::new(&random),
/// #     attempt: Attempt::new(&random),
/// #     open: Vec::new(),
/// #     candidate: CandidateId::new("a")?,
/// #     identity: None,
/// #     origin: Origin::default(),
/// #     ttl: Duration::from_secs(30),
/// #     metadata: Default::default(),
/// #     floor: FencingToken::ZERO,
/// #     supersedes: None,
/// # };
/// let acquired = leases.acquire(&ElectionName::new("billing")?, &bid).await?;
/// assert!(matches!(acquired, Acquisition::Acquired(lease) if lease.token == FencingToken(1)));
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait TypedTtlStore: Send + Sync + 'static {
    /// What values are stored under.
    type Key: Send + Sync;
    /// What is stored.
    type Value: Send + Sync;

    /// Makes a key; different texts make different keys.
    fn key(&self, key: &str) -> Self::Key;

    /// Makes a value of what [`bytes`](Self::bytes) gave, or of JSON text that the adaptor made.
    ///
    /// # Errors
    /// If the storage cannot carry it: then nothing is written.
    fn value(&self, bytes: Vec<u8>) -> Result<Self::Value, StoreError>;

    /// Returns a value as bytes: those that it was made of, or any others for a value that something else wrote.
    fn bytes(&self, value: Self::Value) -> Vec<u8>;

    /// Reads what is stored under `key`; `None` if nothing is, or if it has ended.
    async fn get(&self, key: &Self::Key) -> Result<Option<Entry<Self::Value>>, StoreError>;

    /// Stores `value` if nothing is there; tells whether it did.
    async fn insert_if_absent(
        &self,
        key: &Self::Key,
        value: Self::Value,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError>;

    /// Stores `new`, with its own ttl, if a value equal to `expected` is there; tells whether it did.
    async fn compare_and_swap(
        &self,
        key: &Self::Key,
        expected: &Self::Value,
        new: Self::Value,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError>;

    /// Removes what is there if it is equal to `expected`; tells whether it did.
    async fn compare_and_delete(&self, key: &Self::Key, expected: &Self::Value) -> Result<bool, StoreError>;

    /// Says what the store promises.
    fn guarantees(&self) -> Guarantees;

    /// Lists the keys, as texts, that begin with `prefix`, or `None` where the store cannot.
    async fn list(&self, _prefix: &str) -> Result<Option<Vec<String>>, StoreError> {
        Ok(None)
    }

    /// Reports which of `keys` changed, without polling, or `None` where the store cannot.
    fn watch(&self, _keys: &[String]) -> Option<ChangedKeys> {
        None
    }
}

/// Makes a [`TtlStore`] of a [`TypedTtlStore`].
#[derive(Clone, Debug)]
pub struct Typed<S>(pub S);

#[async_trait]
impl<S: TypedTtlStore> TtlStore for Typed<S> {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.0.get(&self.0.key(key)).await?;
        Ok(entry.map(|entry| Entry { value: self.0.bytes(entry.value), time_left: entry.time_left }))
    }

    async fn insert_if_absent(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let value = self.0.value(value)?;
        self.0.insert_if_absent(&self.0.key(key), value, ttl).await
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let (expected, new) = (self.0.value(expected.to_vec())?, self.0.value(new)?);
        self.0.compare_and_swap(&self.0.key(key), &expected, new, ttl).await
    }

    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError> {
        let expected = self.0.value(expected.to_vec())?;
        self.0.compare_and_delete(&self.0.key(key), &expected).await
    }

    fn guarantees(&self) -> Guarantees {
        self.0.guarantees()
    }

    async fn list(&self, prefix: &str) -> Result<Option<Vec<String>>, StoreError> {
        self.0.list(prefix).await
    }

    fn watch(&self, keys: &[String]) -> Option<ChangedKeys> {
        self.0.watch(keys)
    }
}
