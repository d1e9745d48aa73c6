//! Stores that break A8 to A12 and A25.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::store::{
    Acquisition, Bid, ErrorKind, LeaseStore, Release, Released, Renew, Renewal, StoreError,
};
use tenure_core::{Attempt, ElectionName};
use tenure_testkit::Twist;
use tenure_testkit::conformance::Property;

use crate::{bites, bites_records};

/// Counts in whole seconds and does not say so.
struct WholeSeconds;

#[async_trait]
impl Twist for WholeSeconds {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let asked = bid.ttl;
        let mut bid = bid.clone();
        bid.ttl = asked.max(Duration::from_secs(1));
        let answer = inner.acquire(election, &bid).await?;
        let Acquisition::Acquired(mut lease) = answer else {
            return Ok(answer);
        };
        lease.ttl = asked;
        Ok(Acquisition::Acquired(lease))
    }
}

#[tokio::test(start_paused = true)]
async fn a8_a_short_ttl_is_not_honoured() {
    bites(Property::A8, "a lease of 250ms lives for", |_| WholeSeconds).await;
}

/// Renews for whoever knows the token.
struct TokenIsEnough;

#[async_trait]
impl Twist for TokenIsEnough {
    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        let mut renewal = renewal.clone();
        if let Some(record) = inner.read(&renewal.lease.election).await? {
            let foreign = record
                .leader()
                .filter(|holder| record.token == renewal.lease.token && holder.bid != renewal.lease.bid);
            if let Some(holder) = foreign {
                renewal.lease.bid = holder.bid;
                renewal.lease.attempt = holder.attempt;
            }
        }
        inner.renew(&[renewal]).await.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a9_somebody_else_renews() {
    bites(Property::A9, r#"should have lost "a9-foreign""#, |_| TokenIsEnough).await;
}

/// Calls everything released that nobody holds.
struct FreeIsReleased;

#[async_trait]
impl Twist for FreeIsReleased {
    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        let released = inner.release(release).await?;
        let record = inner.read(&release.lease.election).await?;
        if record.is_some_and(|record| record.leader().is_none()) {
            return Ok(Released::Released);
        }
        Ok(released)
    }
}

#[tokio::test(start_paused = true)]
async fn a10_a_second_release_is_one_more() {
    bites(Property::A10, "a second release", |_| FreeIsReleased).await;
}

/// Does not know whether a lease is lost over which it finds what it cannot read.
struct UnreadableIsUnknown;

#[async_trait]
impl Twist for UnreadableIsUnknown {
    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        inner.read(&renewal.lease.election).await?;
        inner.renew(std::slice::from_ref(renewal)).await.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a11_an_overwritten_lease_is_not_lost() {
    bites_records(Property::A11, r#"should have lost "a11-overwritten""#, || UnreadableIsUnknown).await;
}

/// Takes what it cannot read for a store that is away.
struct UnreadableIsAway;

#[async_trait]
impl Twist for UnreadableIsAway {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        inner.acquire(election, bid).await.map_err(|error| {
            if error.kind() == ErrorKind::Corrupt {
                StoreError::new(ErrorKind::Unavailable, "broken", "acquire", error.to_string())
            } else {
                error
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a12_an_unreadable_record_looks_like_an_outage() {
    bites_records(Property::A12, "a bid over what something else wrote", || UnreadableIsAway).await;
}

/// Does not ask who renewed last, if the renewal is a new one.
#[derive(Default)]
struct AnyAttempt {
    seen: Mutex<BTreeSet<Attempt>>,
}

#[async_trait]
impl Twist for AnyAttempt {
    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        let mut renewal = renewal.clone();
        let new = self.seen.lock().unwrap().insert(renewal.attempt);
        if let Some(record) = inner.read(&renewal.lease.election).await?
            && let Some(holder) = record.leader().filter(|h| new && h.bid == renewal.lease.bid)
        {
            renewal.lease.attempt = holder.attempt;
        }
        inner.renew(&[renewal]).await.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a25_both_clones_go_on() {
    bites(Property::A25, r#"should have lost "a25-cloned""#, |_| AnyAttempt::default()).await;
}
