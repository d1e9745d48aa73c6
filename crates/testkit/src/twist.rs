//! A wrapper for any store that changes what a test wants changed, and passes everything else on.

use std::sync::Arc;

use async_trait::async_trait;
use tenure_core::store::{
    Acquisition, Bid, Changes, ControlRequest, ErrorKind, Guarantees, LeaseRecord, LeaseStore, Operator,
    Pause, Release, Released, Renew, Renewal, Requested, StoreError,
};
use tenure_core::{Attempt, CandidateId, ElectionName};

/// What is different about a store. What is not overridden is passed on.
///
/// ```
/// use async_trait::async_trait;
/// use tenure_core::embedded::MemoryStore;
/// use tenure_core::store::{Guarantees, LeaseStore};
/// use tenure_testkit::{Twist, Twisted};
///
/// /// A store that rounds ttls up to whole seconds.
/// struct Coarse;
///
/// #[async_trait]
/// impl Twist for Coarse {
///     fn guarantees(&self, inner: &dyn LeaseStore) -> Guarantees {
///         Guarantees { ttl_grain: std::time::Duration::from_secs(1), ..inner.guarantees() }
///     }
/// }
///
/// let store = Twisted::new(MemoryStore::new(), Coarse);
/// assert_eq!(store.guarantees().ttl_grain.as_secs(), 1);
/// ```
#[async_trait]
pub trait Twist: Send + Sync + 'static {
    /// Stands in for [`LeaseStore::acquire`].
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        inner.acquire(election, bid).await
    }

    /// Stands in for [`LeaseStore::renew`]; one after the other, as [`renew_one`](Self::renew_one) does each.
    async fn renew(&self, inner: &dyn LeaseStore, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = Vec::new();
        for renewal in renewals {
            answers.push(self.renew_one(inner, renewal).await);
        }
        answers
    }

    /// Renews one lease.
    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        inner.renew(std::slice::from_ref(renewal)).await.remove(0)
    }

    /// Stands in for [`LeaseStore::release`].
    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        inner.release(release).await
    }

    /// Stands in for [`LeaseStore::read`].
    async fn read(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
    ) -> Result<Option<LeaseRecord>, StoreError> {
        inner.read(election).await
    }

    /// Stands in for [`LeaseStore::watch`].
    fn watch(&self, inner: &dyn LeaseStore, elections: &[ElectionName]) -> Option<Changes> {
        inner.watch(elections)
    }

    /// Stands in for [`LeaseStore::guarantees`].
    fn guarantees(&self, inner: &dyn LeaseStore) -> Guarantees {
        inner.guarantees()
    }

    /// Stands in for [`Operator::list`].
    async fn list(&self, inner: &dyn Operator, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        inner.list(prefix).await
    }

    /// Stands in for [`Operator::request`].
    async fn request(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        operator_of(inner, "request")?.request(election, attempt, request).await
    }

    /// Stands in for [`Operator::pause`].
    async fn pause(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        attempt: Attempt,
        pause: Pause,
    ) -> Result<(), StoreError> {
        operator_of(inner, "pause")?.pause(election, attempt, pause).await
    }
}

/// A store with a [`Twist`]; clones share both.
pub struct Twisted<T> {
    inner: Arc<dyn LeaseStore>,
    twist: Arc<T>,
}

impl<T: Twist> Twisted<T> {
    /// Wraps `inner`.
    pub fn new(inner: impl LeaseStore, twist: T) -> Self {
        Self::sharing(inner, Arc::new(twist))
    }

    /// Wraps `inner` in a twist that others hold too, such as a test that looks at what it noted.
    pub fn sharing(inner: impl LeaseStore, twist: Arc<T>) -> Self {
        Self { inner: Arc::new(inner), twist }
    }
}

impl<T> Clone for Twisted<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), twist: Arc::clone(&self.twist) }
    }
}

/// Returns what operators can do at `store`. Asked only where it was there before.
pub(crate) fn operator_of<'a>(
    store: &'a dyn LeaseStore,
    operation: &'static str,
) -> Result<&'a dyn Operator, StoreError> {
    store.operator().ok_or_else(|| {
        let name = store.guarantees().store;
        StoreError::new(ErrorKind::Invalid, name, operation, "the store has no operator")
    })
}

#[async_trait]
impl<T: Twist> LeaseStore for Twisted<T> {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.twist.acquire(&self.inner, election, bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        self.twist.renew(&self.inner, renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.twist.release(&self.inner, release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        self.twist.read(&self.inner, election).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        self.twist.watch(&self.inner, elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.twist.guarantees(&self.inner)
    }

    fn operator(&self) -> Option<&dyn Operator> {
        self.inner.operator().map(|_| self as &dyn Operator)
    }
}

#[async_trait]
impl<T: Twist> Operator for Twisted<T> {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        self.twist.list(operator_of(&self.inner, "list")?, prefix).await
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        self.twist.request(&self.inner, election, attempt, request).await
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        self.twist.pause(&self.inner, election, attempt, pause).await
    }

    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError> {
        operator_of(&self.inner, "resume")?.resume(election, attempt).await
    }

    async fn candidates(&self, election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        operator_of(&self.inner, "candidates")?.candidates(election).await
    }
}
