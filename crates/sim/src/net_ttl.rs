//! Values that end by themselves, over the network: the plain-verbs door in one process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::embedded::MemoryTtl;
use tenure_core::store::ttl_store::{ChangedKeys, Entry, TtlStore};
use tenure_core::store::{Guarantees, StoreError};

use crate::doors::verb;
use crate::network::{Link, Step};

/// The values of a server, over the network.
pub struct NetTtl {
    /// The way there.
    pub link: Arc<Link>,
    /// The store over there.
    pub values: MemoryTtl,
}

/// A write of this door takes effect once at most: that is its contract. (What was inserted, has ended and is inserted
/// again by a late copy of the same message would be there twice.)
fn write() -> Step {
    Step { verb: verb(), inside: true, machine: 0, once: true }
}

#[async_trait]
impl TtlStore for NetTtl {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let (values, key) = (self.values.clone(), key.to_owned());
        let serve = move |_| {
            let (values, key) = (values.clone(), key.clone());
            async move { values.get(&key).await }
        };
        self.link.call(verb(), false, serve).await?
    }

    async fn insert_if_absent(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let (values, key) = (self.values.clone(), key.to_owned());
        let serve = move |_| {
            let (values, key, value) = (values.clone(), key.clone(), value.clone());
            async move { values.insert_if_absent(&key, value, ttl).await }
        };
        self.link.call_at(write(), serve).await?
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let (values, swap) = (self.values.clone(), Arc::new((key.to_owned(), expected.to_vec(), new)));
        let serve = move |_| {
            let (values, swap) = (values.clone(), Arc::clone(&swap));
            async move { values.compare_and_swap(&swap.0, &swap.1, swap.2.clone(), ttl).await }
        };
        self.link.call_at(write(), serve).await?
    }

    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError> {
        let (values, delete) = (self.values.clone(), Arc::new((key.to_owned(), expected.to_vec())));
        let serve = move |_| {
            let (values, delete) = (values.clone(), Arc::clone(&delete));
            async move { values.compare_and_delete(&delete.0, &delete.1).await }
        };
        self.link.call_at(write(), serve).await?
    }

    fn guarantees(&self) -> Guarantees {
        self.values.guarantees()
    }

    async fn list(&self, prefix: &str) -> Result<Option<Vec<String>>, StoreError> {
        self.values.list(prefix).await
    }

    fn watch(&self, keys: &[String]) -> Option<ChangedKeys> {
        Some(self.link.watch(self.values.watch(keys)?, || None))
    }
}
