//! B22: a token that is not above all seen is not led.

use std::sync::Arc;

use async_trait::async_trait;
use tenure_core::embedded::MemoryVersioned;
use tenure_core::store::versioned::Versioned;
use tenure_core::store::{Acquisition, Bid, Changes, Lease, LeaseStore, Release, Released, StoreError};
use tenure_core::{Clock, ElectionName, FencingToken, Settings};
use tenure_testkit::{Twist, Twisted};

use crate::world::{TTL, World, election, in_short, secs};

/// A store that does not look at the floor, and wakes nobody.
struct Careless;

#[async_trait]
impl Twist for Careless {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        inner.acquire(election, &Bid { floor: FencingToken::ZERO, ..bid.clone() }).await
    }

    fn watch(&self, _: &dyn LeaseStore, _: &[ElectionName]) -> Option<Changes> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_of_data_only_a_token_above_all_seen_is_led() {
    let world = World::new();
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let records = MemoryVersioned::new(Arc::clone(&clock));
    let careless = Twisted::new(Versioned::with_clock(records.clone(), clock), Careless);
    let a = world.candidate_on(careless.clone(), "a", Settings::ttl(TTL));
    let b = world.candidate_on(careless, "b", Settings::ttl(TTL));
    for _ in 0..2 {
        for candidate in [&b, &a] {
            drop(candidate.lead("e").await.unwrap());
            candidate.release("e").await;
        }
    }
    records.overwrite(&election(), None);
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    let events = world.within(secs(60), "led", ears.elected()).await;
    assert_eq!(in_short(&events), ["elected 5"], "not 1, 2, 3 or 4");
    // Seen as a follower counts too: b led 3 last, and hears of 5 by being refused.
    assert!(b.try_lead("e").await.unwrap().is_none());
    records.overwrite(&election(), None);
    let leadership = world.within(secs(60), "led", b.lead("e")).await.unwrap();
    assert_eq!(leadership.token().0, 6);
    assert!(leadership.attempts() > 5);
}

/// A store that grants the same token for ever.
struct Stuck;

#[async_trait]
impl Twist for Stuck {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        Ok(match inner.acquire(election, bid).await? {
            Acquisition::Acquired(lease) => Acquisition::Acquired(Lease { token: FencingToken(1), ..lease }),
            refused @ Acquisition::Refused(_) => refused,
        })
    }

    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        let token = inner.read(&release.lease.election).await?.unwrap().token;
        let lease = Lease { token, ..release.lease.clone() };
        inner.release(&Release { lease, ..release.clone() }).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_grants_old_tokens_for_ever_is_not_asked_without_a_break() {
    let world = World::new();
    let a = world.candidate_on(Twisted::new(world.store.clone(), Stuck), "a", Settings::ttl(TTL));
    drop(a.lead("e").await.unwrap());
    a.release("e").await;
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(300)).await;
    assert_eq!((handle.status().terms, handle.is_leader()), (0, false));
    let bids = handle.status().attempts;
    assert!((10..200).contains(&bids), "{bids} bids in five minutes");
}
