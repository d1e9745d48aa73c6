//! Stores that break A6, A7, A24 and A29.

use async_trait::async_trait;
use tenure_core::ElectionName;
use tenure_core::FencingToken;
use tenure_core::store::{Acquisition, Bid, LeaseStore, StoreError, TermEnd};
use tenure_testkit::Twist;
use tenure_testkit::conformance::Property;

use crate::bites;

/// After a second expiry in a row it grants the token of the term before.
struct ForgetsAfterExpiry;

#[async_trait]
impl Twist for ForgetsAfterExpiry {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let answer = inner.acquire(election, bid).await?;
        let Acquisition::Acquired(mut lease) = answer else {
            return Ok(answer);
        };
        let terms = inner.read(election).await?.unwrap().last_terms;
        if let [.., first, second] = &terms[..]
            && first.end == Some(TermEnd::Expired)
            && second.end == Some(TermEnd::Expired)
        {
            lease.token = second.token;
        }
        Ok(Acquisition::Acquired(lease))
    }
}

#[tokio::test(start_paused = true)]
async fn a6_a_token_comes_twice() {
    bites(Property::A6, "the same candidate's own expiry", |_| ForgetsAfterExpiry).await;
}

/// Lets a candidate take its own living lease with a new bid, as a re-entrant mutex would.
struct Reentrant;

#[async_trait]
impl Twist for Reentrant {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let mut bid = bid.clone();
        if let Some(record) = inner.read(election).await? {
            let own = record.leader().filter(|holder| holder.candidate == bid.candidate);
            bid.supersedes = bid.supersedes.or(own.map(|holder| holder.bid));
        }
        inner.acquire(election, &bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a7_a_candidate_takes_its_own_living_lease() {
    bites(Property::A7, r#"should be refused in "a7-superseded""#, |_| Reentrant).await;
}

/// Has no use for a floor where it has no record.
struct NoFloorAtFirst;

#[async_trait]
impl Twist for NoFloorAtFirst {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let mut bid = bid.clone();
        if inner.read(election).await?.is_none() {
            bid.floor = FencingToken::ZERO;
        }
        inner.acquire(election, &bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a24_a_token_is_below_the_floor() {
    bites(Property::A24, "was granted above a floor", |_| NoFloorAtFirst).await;
}

/// Does not know who led if the lease ran out.
struct ForgetsTheExpired;

#[async_trait]
impl Twist for ForgetsTheExpired {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let answer = inner.acquire(election, bid).await?;
        let Acquisition::Acquired(mut lease) = answer else {
            return Ok(answer);
        };
        lease.previous = lease.previous.filter(|previous| previous.end != Some(TermEnd::Expired));
        Ok(Acquisition::Acquired(lease))
    }
}

#[tokio::test(start_paused = true)]
async fn a29_the_previous_term_is_forgotten() {
    bites(Property::A29, "what term 26 says", |_| ForgetsTheExpired).await;
}
