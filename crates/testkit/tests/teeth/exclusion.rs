//! Stores that break A1 to A5.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use tenure_core::store::{Acquisition, Bid, LeaseRecord, LeaseStore, Metadata, RecordState, StoreError};
use tenure_core::{BidId, ElectionName, FencingToken};
use tenure_testkit::Twist;
use tenure_testkit::conformance::Property;

use crate::bites;

/// Under more than sixteen bids at once it tells a loser that it won.
#[derive(Default)]
struct Overflows {
    under_way: AtomicUsize,
}

/// Counts a bid for as long as it is under way, also if it is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Twist for Overflows {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay(&self.under_way);
        tokio::task::yield_now().await;
        match inner.acquire(election, bid).await? {
            Acquisition::Refused(record) if before > 16 => {
                let mut lease = record.lease_of(record.holder.as_ref().unwrap().bid).unwrap();
                lease.bid = bid.id;
                lease.candidate = bid.candidate.clone();
                Ok(Acquisition::Acquired(lease))
            }
            answer => Ok(answer),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a1_two_winners_of_many_bids() {
    bites(Property::A1, "winners of one election", |_| Overflows::default()).await;
}

/// A refused bid leaves what it told about itself in the record.
#[derive(Default)]
struct ShowsTheRefused {
    told: Mutex<BTreeMap<ElectionName, Metadata>>,
}

#[async_trait]
impl Twist for ShowsTheRefused {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let answer = inner.acquire(election, bid).await?;
        if matches!(answer, Acquisition::Refused(_)) && !bid.metadata.is_empty() {
            let mut told = self.told.lock().unwrap();
            told.insert(election.clone(), bid.metadata.clone());
        }
        Ok(answer)
    }

    async fn read(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
    ) -> Result<Option<LeaseRecord>, StoreError> {
        let mut record = inner.read(election).await?;
        let told = self.told.lock().unwrap().get(election).cloned();
        if let (Some(holder), Some(told)) = (record.as_mut().and_then(|r| r.holder.as_mut()), told) {
            holder.metadata = told;
        }
        Ok(record)
    }
}

#[tokio::test(start_paused = true)]
async fn a2_a_refused_bid_changes_the_record() {
    bites(Property::A2, "a refused bid changed the record", |_| ShowsTheRefused::default()).await;
}

/// Takes a lease for expired when a fifth of it is left.
struct EndsEarly;

#[async_trait]
impl Twist for EndsEarly {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let mut bid = bid.clone();
        if let Some(record) = inner.read(election).await? {
            let almost = record.time_left.is_some_and(|left| left < bid.ttl / 5);
            if let Some(holder) = record.leader().filter(|holder| almost && holder.bid != bid.id) {
                bid.supersedes = Some(holder.bid);
            }
        }
        inner.acquire(election, &bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a3_a_lease_ends_early() {
    bites(Property::A3, "a lease of 10s was taken after", |_| EndsEarly).await;
}

/// Takes upper and lower case for the same.
struct FoldsCase;

#[async_trait]
impl Twist for FoldsCase {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let folded = ElectionName::new(election.as_str().to_lowercase()).unwrap();
        if folded != *election
            && let Some(record) = inner.read(&folded).await?
            && record.state == RecordState::Held
        {
            return Ok(Acquisition::Refused(Box::new(record)));
        }
        inner.acquire(election, bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a4_two_names_are_one_election() {
    bites(Property::A4, r#"should win "X" but is refused"#, |_| FoldsCase).await;
}

/// At its 150th term an election gets a token from long ago.
#[derive(Default)]
struct WrapsAround {
    granted: Mutex<BTreeMap<ElectionName, Vec<BidId>>>,
}

#[async_trait]
impl Twist for WrapsAround {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let answer = inner.acquire(election, bid).await?;
        let mut granted = self.granted.lock().unwrap();
        let bids = granted.entry(election.clone()).or_default();
        match answer {
            Acquisition::Acquired(mut lease) => {
                if bids.last() != Some(&lease.bid) {
                    bids.push(lease.bid);
                }
                if bids.len() == 150 {
                    lease.token = FencingToken(1);
                }
                Ok(Acquisition::Acquired(lease))
            }
            refused => Ok(refused),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a5_a_term_in_the_middle_has_an_old_token() {
    bites(Property::A5, "was granted after", |_| WrapsAround::default()).await;
}
