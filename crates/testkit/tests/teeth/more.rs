//! A second broken store for properties that have several sides.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures_util::StreamExt;
use tenure_core::store::{
    Acquisition, Bid, Changes, ControlRequest, LeaseStore, Next, Operator, Pause, Release, Released, Renew,
    Renewal, Requested, StoreError,
};
use tenure_core::{Attempt, ElectionName, Random};
use tenure_testkit::Twist;
use tenure_testkit::conformance::Property;

use crate::bites;

/// Takes a star in a prefix for "anything".
struct MatchesPatterns;

#[async_trait]
impl Twist for MatchesPatterns {
    async fn list(&self, inner: &dyn Operator, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        inner.list(prefix.split('*').next().unwrap()).await
    }
}

#[tokio::test(start_paused = true)]
async fn a4_a_prefix_is_a_pattern() {
    bites(Property::A4, r#"listed with prefix "*""#, |_| MatchesPatterns).await;
}

/// A bid that is repeated word for word renews a lease that was not renewed yet.
struct RepeatedBidRenews {
    random: Random,
}

#[async_trait]
impl Twist for RepeatedBidRenews {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        if let Some(record) = inner.read(election).await?
            && let Some(lease) = record.lease_of(bid.id)
            && lease.attempt == bid.attempt
        {
            let renewal =
                Renew { lease, attempt: Attempt::new(&self.random), open: Vec::new(), answer: None };
            inner.renew(&[renewal]).await.remove(0)?;
        }
        inner.acquire(election, bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a7_a_repeated_bid_renews() {
    bites(Property::A7, "an attempt that arrives twice answers the same lease", |_| RepeatedBidRenews {
        random: Random::from_seed(1),
    })
    .await;
}

/// Reports three changes and no more.
struct SaysItThrice;

impl Twist for SaysItThrice {
    fn watch(&self, inner: &dyn LeaseStore, elections: &[ElectionName]) -> Option<Changes> {
        Some(Box::pin(inner.watch(elections)?.take(3)))
    }
}

#[tokio::test(start_paused = true)]
async fn a17_a_watch_ends() {
    bites(Property::A17, "the watch ended", |_| SaysItThrice).await;
}

/// Lets everybody in when a successor was named.
struct NoWindow;

#[async_trait]
impl Twist for NoWindow {
    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        let mut release = release.clone();
        if matches!(release.next, Next::Successor { .. }) {
            release.next = Next::Anybody;
        }
        inner.release(&release).await
    }
}

#[tokio::test(start_paused = true)]
async fn a19_an_outsider_comes_before_the_successor() {
    bites(Property::A19, r#"should be refused in "a19-handoff""#, |_| NoWindow).await;
}

/// Leaves the last of many answers out.
struct ForgetsTheLast;

#[async_trait]
impl Twist for ForgetsTheLast {
    async fn renew(&self, inner: &dyn LeaseStore, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = inner.renew(renewals).await;
        answers.truncate(999);
        answers
    }
}

#[tokio::test(start_paused = true)]
async fn a20_an_answer_is_missing() {
    bites(Property::A20, "as many answers as renewals", |_| ForgetsTheLast).await;
}

/// A request keeps the lease alive, as any write would that does not carry the age over.
#[derive(Default)]
struct RequestRenews {
    requests: AtomicUsize,
}

#[async_trait]
impl Twist for RequestRenews {
    async fn request(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        let operator = inner.operator().unwrap();
        let requested = operator.request(election, attempt, request).await?;
        let record = inner.read(election).await?;
        if let (Requested::Accepted(_), Some(record)) = (&requested, record)
            && let Some(lease) = record.leader().and_then(|holder| record.lease_of(holder.bid))
            && self.requests.fetch_add(1, Ordering::Relaxed) == 0
        {
            let renewal = Renew { lease, attempt, open: Vec::new(), answer: None };
            inner.renew(&[renewal]).await.remove(0)?;
        }
        Ok(requested)
    }
}

#[tokio::test(start_paused = true)]
async fn a26_a_request_lengthens_the_lease() {
    bites(Property::A26, "a request lengthened the lease", |_| RequestRenews::default()).await;
}

/// A pause has no end.
struct PausesForEver;

#[async_trait]
impl Twist for PausesForEver {
    async fn pause(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        attempt: Attempt,
        pause: Pause,
    ) -> Result<(), StoreError> {
        let pause = Pause { ends_in: pause.ends_in * 1000, ..pause };
        let operator = inner.operator().unwrap();
        operator.pause(election, attempt, pause).await
    }
}

#[tokio::test(start_paused = true)]
async fn a26_a_pause_is_forgotten_and_never_ends() {
    bites(Property::A26, r#"is still refused in "a26-paused""#, |_| PausesForEver).await;
}
