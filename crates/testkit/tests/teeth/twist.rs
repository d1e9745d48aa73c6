//! A store that is right but for one thing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::store::{
    Acquisition, Bid, Changes, ControlRequest, Guarantees, LeaseRecord, LeaseStore, Operator, Pause, Release,
    Released, Renew, Renewal, Requested, StoreError,
};
use tenure_core::{Attempt, CandidateId, Clock, ElectionName};
use tenure_testkit::conformance::{ByHand, Fixture, Session};

/// What is wrong with a store. What is not overridden is as it should be.
#[async_trait]
pub trait Twist: Send + Sync + 'static {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        inner.acquire(election, bid).await
    }

    async fn renew(&self, inner: &dyn LeaseStore, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = Vec::new();
        for renewal in renewals {
            answers.push(self.renew_one(inner, renewal).await);
        }
        answers
    }

    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        inner.renew(std::slice::from_ref(renewal)).await.remove(0)
    }

    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        inner.release(release).await
    }

    async fn read(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
    ) -> Result<Option<LeaseRecord>, StoreError> {
        inner.read(election).await
    }

    fn watch(&self, inner: &dyn LeaseStore, elections: &[ElectionName]) -> Option<Changes> {
        inner.watch(elections)
    }

    async fn list(&self, inner: &dyn Operator, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        inner.list(prefix).await
    }

    async fn request(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        let operator = inner.operator().unwrap();
        operator.request(election, attempt, request).await
    }

    async fn pause(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        attempt: Attempt,
        pause: Pause,
    ) -> Result<(), StoreError> {
        let operator = inner.operator().unwrap();
        operator.pause(election, attempt, pause).await
    }
}

struct Twisted<T> {
    inner: Arc<dyn LeaseStore>,
    twist: Arc<T>,
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
        self.inner.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        Some(self)
    }
}

#[async_trait]
impl<T: Twist> Operator for Twisted<T> {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        self.twist.list(self.inner.operator().unwrap(), prefix).await
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
        let operator = self.inner.operator().unwrap();
        operator.resume(election, attempt).await
    }

    async fn candidates(&self, election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        let operator = self.inner.operator().unwrap();
        operator.candidates(election).await
    }
}

/// A good fixture whose handles are all twisted in the same way.
pub struct Broken<B, T> {
    pub base: B,
    pub twist: Arc<T>,
}

impl<B: Fixture, T: Twist> Broken<B, T> {
    pub fn new(base: B, twist: T) -> Self {
        Self { base, twist: Arc::new(twist) }
    }
}

#[async_trait]
impl<B: Fixture, T: Twist> Fixture for Broken<B, T> {
    async fn handle(&self) -> Arc<dyn LeaseStore> {
        Arc::new(Twisted { inner: self.base.handle().await, twist: Arc::clone(&self.twist) })
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.base.clock()
    }

    fn ttl(&self) -> Duration {
        self.base.ttl()
    }

    fn by_hand(&self) -> Option<&dyn ByHand> {
        self.base.by_hand()
    }

    fn session(&self) -> Option<&dyn Session> {
        self.base.session()
    }
}
