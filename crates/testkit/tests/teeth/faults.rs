//! Stores that break A13 to A15, A16b and A21 to A23.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::store::{
    Acquisition, Bid, ErrorKind, LeaseRecord, LeaseStore, Release, Released, Renew, Renewal, StoreError,
};
use tenure_core::{Attempt, BidId, Clock, ElectionName};
use tenure_testkit::Twist;
use tenure_testkit::conformance::Property;

use crate::bites;
use crate::fixtures::TTL;

/// Releases only if every renewal was answered.
struct ForgetsOpenRenewals;

#[async_trait]
impl Twist for ForgetsOpenRenewals {
    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        let mut release = release.clone();
        release.open.clear();
        inner.release(&release).await
    }
}

#[tokio::test(start_paused = true)]
async fn a13_a_lost_answer_is_not_found_out() {
    bites(Property::A13, "should release", |_| ForgetsOpenRenewals).await;
}

/// Believes that a bid which was sent before must have arrived.
struct ExpectsTheFirst;

#[async_trait]
impl Twist for ExpectsTheFirst {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        if !bid.open.is_empty() && inner.read(election).await?.is_none() {
            return Err(StoreError::new(
                ErrorKind::Conflict,
                "broken",
                "acquire",
                "the first attempt is missing",
            ));
        }
        inner.acquire(election, bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a14_a_lost_bid_cannot_be_repeated() {
    bites(Property::A14, "a hundred conflicts", |_| ExpectsTheFirst).await;
}

/// A connection that was idle for four ttls is dead, and is not replaced.
struct DiesIdle {
    clock: Arc<dyn Clock>,
    last_used: Mutex<Option<Duration>>,
}

#[async_trait]
impl Twist for DiesIdle {
    async fn read(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
    ) -> Result<Option<LeaseRecord>, StoreError> {
        let now = self.clock.now().boot();
        let idle = {
            let mut last_used = self.last_used.lock().unwrap();
            let idle = last_used.map_or(Duration::ZERO, |last| now.saturating_sub(last));
            if idle <= TTL * 4 {
                *last_used = Some(now);
            }
            idle
        };
        if idle > TTL * 4 {
            return Err(StoreError::new(ErrorKind::Unavailable, "broken", "read", "the connection is gone"));
        }
        inner.read(election).await
    }

    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        self.read(inner, election).await?;
        inner.acquire(election, bid).await
    }

    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        self.read(inner, &renewal.lease.election).await?;
        inner.renew(std::slice::from_ref(renewal)).await.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a15_an_outage_is_for_ever() {
    bites(Property::A15, "the handle does not work again", |clock| DiesIdle {
        clock,
        last_used: Mutex::default(),
    })
    .await;
}

/// A release that arrives again frees the term that follows, as long as that one has not been renewed.
#[derive(Default)]
struct FreesTheNext {
    /// Whether the term that follows must be the same candidate's, or another's.
    same_candidate: bool,
    seen: Mutex<BTreeSet<Attempt>>,
}

#[async_trait]
impl Twist for FreesTheNext {
    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        let again = !self.seen.lock().unwrap().insert(release.attempt);
        let mut release = release.clone();
        if let Some(record) = inner.read(&release.lease.election).await? {
            let next = record.leader().filter(|holder| {
                let same = holder.candidate == release.lease.candidate;
                again && holder.renew_count == 0 && same == self.same_candidate
            });
            if let Some(lease) = next.and_then(|holder| record.lease_of(holder.bid)) {
                release.lease = lease;
            }
        }
        inner.release(&release).await
    }
}

#[tokio::test(start_paused = true)]
async fn a16b_a_late_release_frees_another_candidates_term() {
    bites(Property::A16b, "a late renewal and release changed the record", |_| FreesTheNext::default()).await;
}

#[tokio::test(start_paused = true)]
async fn a23_a_late_release_frees_the_same_candidates_next_term() {
    bites(Property::A23, "a late release changed the record", |_| FreesTheNext {
        same_candidate: true,
        ..FreesTheNext::default()
    })
    .await;
}

/// A renewal that arrives again extends whatever term its candidate has now.
#[derive(Default)]
struct ExtendsTheNext {
    seen: Mutex<BTreeSet<Attempt>>,
}

#[async_trait]
impl Twist for ExtendsTheNext {
    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        let again = !self.seen.lock().unwrap().insert(renewal.attempt);
        let mut renewal = renewal.clone();
        if let Some(record) = inner.read(&renewal.lease.election).await? {
            let next = record.leader().filter(|holder| {
                again && record.token > renewal.lease.token && holder.candidate == renewal.lease.candidate
            });
            if let Some(lease) = next.and_then(|holder| record.lease_of(holder.bid)) {
                renewal.lease = lease;
            }
        }
        inner.renew(&[renewal]).await.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a21_a_duplicate_renewal_extends_a_later_term() {
    bites(Property::A21, "a duplicate of renew after a newer term of the same candidate", |_| {
        ExtendsTheNext::default()
    })
    .await;
}

/// Shows the attempt that won the term, never the one that renewed it.
#[derive(Default)]
struct ShowsTheGrant {
    granted: Mutex<BTreeMap<BidId, Attempt>>,
}

#[async_trait]
impl Twist for ShowsTheGrant {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let answer = inner.acquire(election, bid).await?;
        if let Acquisition::Acquired(lease) = &answer {
            let mut granted = self.granted.lock().unwrap();
            granted.entry(lease.bid).or_insert(lease.attempt);
        }
        Ok(answer)
    }

    async fn read(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
    ) -> Result<Option<LeaseRecord>, StoreError> {
        let mut record = inner.read(election).await?;
        if let Some(holder) = record.as_mut().and_then(|record| record.holder.as_mut())
            && let Some(attempt) = self.granted.lock().unwrap().get(&holder.bid)
        {
            holder.attempt = *attempt;
        }
        Ok(record)
    }
}

#[tokio::test(start_paused = true)]
async fn a22_a_record_does_not_show_the_applied_attempt() {
    bites(Property::A22, "the attempt in the record", |_| ShowsTheGrant::default()).await;
}
