//! A store of byte strings whose revisions are hashes of the content, as many object stores have them.

use async_trait::async_trait;
use tenure_core::ElectionName;
use tenure_core::embedded::MemoryVersioned;
use tenure_core::store::versioned::{ChangedNames, Found, Revision, VersionedStore, Written};
use tenure_core::store::{Guarantees, StoreError};

/// [`MemoryVersioned`] with content hashes for revisions: the same bytes written twice have the same revision.
pub struct HashRevisions {
    inner: MemoryVersioned,
}

impl HashRevisions {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: MemoryVersioned) -> Self {
        Self { inner }
    }
}

fn hash(bytes: &[u8]) -> Revision {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Revision(format!("{hash:016x}"))
}

#[async_trait]
impl VersionedStore for HashRevisions {
    async fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError> {
        let found = self.inner.read(election).await?;
        Ok(found.map(|found| Found { revision: hash(&found.bytes), ..found }))
    }

    async fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError> {
        Ok(match self.inner.create(election, bytes.clone()).await? {
            Written::Written(_) => Written::Written(hash(&bytes)),
            Written::Conflict => Written::Conflict,
        })
    }

    async fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        revision: &Revision,
    ) -> Result<Written, StoreError> {
        // One thread, and memory never waits: nothing comes between the look and the write.
        let Some(present) = self.inner.read(election).await? else { return Ok(Written::Conflict) };
        if hash(&present.bytes) != *revision {
            return Ok(Written::Conflict);
        }
        Ok(match self.inner.replace(election, bytes.clone(), &present.revision).await? {
            Written::Written(_) => Written::Written(hash(&bytes)),
            Written::Conflict => Written::Conflict,
        })
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        self.inner.list(prefix).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<ChangedNames> {
        self.inner.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }
}
