//! B22: a token that is not above all seen is not led.

use async_trait::async_trait;
use tenure_core::embedded::MemoryStore;
use tenure_core::store::{
    Acquisition, Bid, Changes, Guarantees, LeaseRecord, LeaseStore, Operator, Release, Released, Renew,
    Renewal, StoreError,
};
use tenure_core::{ElectionName, FencingToken, Settings};

use std::sync::{Arc, Mutex};

use crate::world::{TTL, World, in_short, secs};

/// A store that does not look at the floor, and can lose its data.
#[derive(Clone)]
struct Careless(Arc<Mutex<MemoryStore>>);

impl Careless {
    fn store(&self) -> MemoryStore {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl LeaseStore for Careless {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        let bid = Bid { floor: FencingToken::ZERO, ..bid.clone() };
        self.store().acquire(election, &bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        self.store().renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.store().release(release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        self.store().read(election).await
    }

    fn watch(&self, _: &[ElectionName]) -> Option<Changes> {
        None
    }

    fn guarantees(&self) -> Guarantees {
        self.store().guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_of_data_only_a_token_above_all_seen_is_led() {
    let world = World::new();
    let careless = Careless(Arc::new(Mutex::new(world.store.clone())));
    let a = world.candidate_on(careless.clone(), "a", Settings::ttl(TTL));
    let b = world.candidate_on(careless.clone(), "b", Settings::ttl(TTL));
    for _ in 0..2 {
        for candidate in [&b, &a] {
            drop(candidate.lead("e").await.unwrap());
            candidate.release("e").await;
        }
    }
    *careless.0.lock().unwrap() = MemoryStore::with_clock(Arc::new(world.clock.clone()));
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    let events = world.within(secs(60), "led", ears.elected()).await;
    assert_eq!(in_short(&events), ["elected 5"], "not 1, 2, 3 or 4");
    // Seen as a follower counts too: b led 3 last, and hears of 5 by being refused.
    assert!(b.try_lead("e").await.unwrap().is_none());
    *careless.0.lock().unwrap() = MemoryStore::with_clock(Arc::new(world.clock.clone()));
    let leadership = world.within(secs(60), "led", b.lead("e")).await.unwrap();
    assert_eq!(leadership.token().0, 6);
    assert!(leadership.attempts() > 5);
}

/// A store that grants the same token for ever.
#[derive(Clone)]
struct Stuck(MemoryStore);

#[async_trait]
impl LeaseStore for Stuck {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        Ok(match self.0.acquire(election, bid).await? {
            Acquisition::Acquired(lease) => {
                Acquisition::Acquired(tenure_core::store::Lease { token: FencingToken(1), ..lease })
            }
            refused @ Acquisition::Refused(_) => refused,
        })
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        self.0.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let token = self.0.read(&release.lease.election).await?.unwrap().token;
        let lease = tenure_core::store::Lease { token, ..release.lease.clone() };
        self.0.release(&Release { lease, ..release.clone() }).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        self.0.read(election).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        self.0.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.0.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_grants_old_tokens_for_ever_is_not_asked_without_a_break() {
    let world = World::new();
    let a = world.candidate_on(Stuck(world.store.clone()), "a", Settings::ttl(TTL));
    drop(a.lead("e").await.unwrap());
    a.release("e").await;
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(300)).await;
    assert_eq!((handle.status().terms, handle.is_leader()), (0, false));
    let bids = handle.status().attempts;
    assert!((10..200).contains(&bids), "{bids} bids in five minutes");
}
