//! Storage that cannot tell how long an entry still lives: observers time it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Ttl;
use super::support_test::{Rig, TTL, ms, secs};
use crate::embedded::MemoryTtl;
use crate::name::ElectionName;
use crate::store::ttl_store::{Entry, TtlStore};
use crate::store::{
    Acquisition, ExpiryClock, Guarantees, LeaseRecord, LeaseStore, Next, Pause, RecordState, Release,
    Renewal, StoreError,
};
use crate::token::FencingToken;

/// What an observer gives a lease: ttl × (1 + drift).
const OBSERVED: Duration = Duration::from_secs(33);

struct Untold {
    memory: MemoryTtl,
    /// How much later than it should it takes away what has ended, as stores do that clean up from time to time.
    late: Duration,
}

#[async_trait]
impl TtlStore for Untold {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let entry = self.memory.get(key).await?;
        Ok(entry.map(|entry| Entry { time_left: None, ..entry }))
    }

    async fn insert_if_absent(
        &self,
        key: &str,
        value: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.memory.insert_if_absent(key, value, ttl.map(|ttl| ttl + self.late)).await
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        self.memory.compare_and_swap(key, expected, new, ttl.map(|ttl| ttl + self.late)).await
    }

    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError> {
        self.memory.compare_and_delete(key, expected).await
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { clock: ExpiryClock::Observer, ..self.memory.guarantees() }
    }
}

/// Opens the store of `rig` as another process would, without being told any time.
fn untold(rig: &Rig, late: Duration) -> Ttl<Untold> {
    let store = Untold { memory: rig.store.memory.clone(), late };
    Ttl::with_clock(store, Arc::new(rig.clock.clone()))
}

async fn refused(rig: &Rig, leases: &Ttl<Untold>) -> LeaseRecord {
    match leases.acquire(&rig.election, &rig.bid("b")).await.unwrap() {
        Acquisition::Refused(record) => *record,
        Acquisition::Acquired(lease) => panic!("acquired: {lease:?}"),
    }
}

#[tokio::test]
async fn a_store_that_cannot_tell_the_time_left_still_elects() {
    let rig = Rig::new();
    let leases = untold(&rig, Duration::ZERO);
    let lease = rig.lead("a").await;
    rig.clock.advance(secs(29));
    let seen = refused(&rig, &leases).await;
    assert_eq!(seen.opens_in, Some(OBSERVED), "a whole ttl and the drift, from the first look");
    rig.release(&Release { succeeded: true, next: Next::CoolDown(secs(10)), ..rig.ending(&lease) }).await;
    let seen = leases.read(&rig.election).await.unwrap().unwrap();
    assert_eq!((seen.opens_in, seen.last_success), (Some(secs(10)), None));
    rig.clock.advance(secs(10));
    let acquired = leases.acquire(&rig.election, &rig.bid("b")).await.unwrap();
    assert!(matches!(acquired, Acquisition::Acquired(lease) if lease.token == FencingToken(2)));
}

#[tokio::test]
async fn an_unchanged_lease_is_timed_from_the_first_look_and_a_renewal_begins_anew() {
    let rig = Rig::new();
    let leases = untold(&rig, Duration::ZERO);
    let lease = rig.lead("a").await;
    assert_eq!(refused(&rig, &leases).await.time_left, Some(OBSERVED));
    rig.clock.advance(secs(13));
    assert_eq!(refused(&rig, &leases).await.time_left, Some(OBSERVED - secs(13)));
    rig.renewed(&lease).await;
    assert_eq!(refused(&rig, &leases).await.time_left, Some(OBSERVED));
    // The store's own end counts where it comes first.
    rig.clock.advance(TTL);
    let seen = leases.read(&rig.election).await.unwrap().unwrap();
    assert_eq!((seen.state, seen.time_left), (RecordState::Free, None));
}

#[tokio::test]
async fn a_lease_that_the_store_takes_away_late_is_over_for_whoever_has_timed_it() {
    let rig = Rig::new();
    let hour = secs(3600);
    let (holder, observer) = (untold(&rig, hour), untold(&rig, hour));
    let Acquisition::Acquired(lease) = holder.acquire(&rig.election, &rig.bid("a")).await.unwrap() else {
        panic!("a free election is refused");
    };
    rig.clock.advance(secs(20));
    refused(&rig, &observer).await;
    rig.clock.advance(OBSERVED - ms(1));
    assert_eq!(refused(&rig, &observer).await.opens_in, Some(ms(1)));
    rig.clock.advance(ms(1));
    let acquired = observer.acquire(&rig.election, &rig.bid("b")).await.unwrap();
    assert!(matches!(acquired, Acquisition::Acquired(lease) if lease.token == FencingToken(2)));
    let renewed = holder.renew(&[rig.renewal(&lease)]).await.remove(0).unwrap();
    assert!(matches!(renewed, Renewal::Lost(_)), "{renewed:?}");
}

#[tokio::test]
async fn a_pause_that_the_store_takes_away_late_is_over_for_whoever_has_timed_it() {
    let rig = Rig::new();
    let store = untold(&rig, secs(3600));
    let operator = store.operator().unwrap();
    let pause = Pause { by: "operator".to_owned(), ends_in: secs(60) };
    operator.pause(&rig.election, rig.attempt(), pause).await.unwrap();
    let seen = refused(&rig, &store).await;
    assert_eq!((seen.state, seen.opens_in), (RecordState::Paused, Some(secs(60))));
    rig.clock.advance(secs(60));
    let acquired = store.acquire(&rig.election, &rig.bid("b")).await.unwrap();
    assert!(matches!(acquired, Acquisition::Acquired(_)));
}

#[tokio::test]
async fn ever_new_names_leave_a_bounded_number_of_entries() {
    let rig = Rig::new();
    let leases = untold(&rig, Duration::ZERO);
    for n in 0..2_000 {
        let election = ElectionName::new(format!("job-{n}")).unwrap();
        rig.leases.acquire(&election, &rig.bid("a")).await.unwrap();
        leases.acquire(&election, &rig.bid("b")).await.unwrap();
        rig.clock.advance(TTL);
        let timed = leases.shared.timed.lock().unwrap().len();
        let known = rig.leases.shared.known.lock().unwrap().len();
        assert!(timed <= 64 && known <= 64, "{timed} timed, {known} known after {n} names");
    }
}
