//! B23: a hung attempt leaves time for a second one, which may go over a new connection.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tenure_core::store::{Acquisition, Bid, ErrorKind, LeaseStore, Renew, Renewal, StoreError};
use tenure_core::{ElectionName, Settings};
use tenure_testkit::fault::{Fault, Verb};
use tenure_testkit::{Twist, Twisted};

use crate::b15_work_cancelled::held_outside;
use crate::world::{CALL, RENEW, TICK, TRUST, TTL, World, count, ms, secs};

#[tokio::test(start_paused = true)]
async fn a_hung_renewal_costs_no_term_and_is_told() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    a.faults.next(Verb::Renew, Fault::Hang);
    world.sleep(secs(300)).await;
    assert!(leadership.is_leader() && handle.status().terms == 1);
    assert_eq!((a.faults.hung(), count(&ears.so_far(), "renew failed 1 timeout")), (1, 1));
    a.faults.let_go();
    world.sleep(secs(300)).await;
    assert!(leadership.is_leader() && handle.status().terms == 1, "its late answer says nothing");
    assert!(ears.so_far().is_empty());
}

#[tokio::test(start_paused = true)]
async fn however_late_the_first_try_begins_there_is_a_second_before_the_deadline() {
    // The first try fails, the second one hangs and would by its own limit hang past the deadline.
    let world = World::new();
    let settings = Settings::ttl(TTL).renew_interval(ms(10_900)).call_timeout(ms(10_800));
    let a = world.candidate_with("a", settings);
    let (handle, leadership) = held_outside(&world, &a).await;
    a.faults.next(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    a.faults.next(Verb::Renew, Fault::Hang);
    world.sleep(secs(300)).await;
    assert_eq!(a.faults.injected(Verb::Renew), 2);
    assert!(leadership.is_leader() && handle.status().terms == 1);
}

#[tokio::test(start_paused = true)]
async fn a_black_hole_is_tried_again_and_again_and_ends_at_the_deadline() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    a.faults.always(Verb::Renew, Fault::Hang);
    leadership.cancelled().await;
    assert!((TRUST..=TRUST + TICK).contains(&world.now()));
    let tries = count(&ears.so_far(), "renew failed");
    assert!((2..=20).contains(&tries), "{tries}");
}

#[tokio::test(start_paused = true)]
async fn a_hung_bid_is_repeated_after_one_calls_time() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::Hang);
    let leadership = a.lead("e").await.unwrap();
    assert!((CALL..CALL + ms(100)).contains(&world.now()), "{:?}", world.now());
    assert_eq!((leadership.token().0, leadership.attempts()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_for_hours_is_asked_once_a_ttl_and_no_more() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Acquire, Fault::Hang);
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(7200)).await;
    let once_a_ttl = usize::try_from(7200 / TTL.as_secs()).unwrap();
    assert!((9..=once_a_ttl + 8).contains(&a.faults.hung()), "{}", a.faults.hung());
    a.faults.clear();
    a.faults.let_go();
    world.leads(&handle).await;
    // What was asked for two hours ago was given back, and asked for anew.
    assert_eq!(world.record().await.token.0, 2);
    world.sleep(secs(100)).await;
    assert!(handle.is_leader() && handle.status().terms == 1);
}

/// Notes how many open attempts each renewal and bid names: by that a store knows that it needs a fresh connection.
#[derive(Default)]
struct Noting {
    bids: Mutex<Vec<usize>>,
    renewals: Mutex<Vec<usize>>,
}

#[async_trait]
impl Twist for Noting {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        self.bids.lock().unwrap().push(bid.open.len());
        inner.acquire(election, bid).await
    }

    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        self.renewals.lock().unwrap().push(renewal.open.len());
        inner.renew(std::slice::from_ref(renewal)).await.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_names_the_first_so_that_the_store_can_take_a_fresh_connection() {
    let world = World::new();
    let noting = Arc::new(Noting::default());
    let store = Twisted::sharing(world.store.clone(), Arc::clone(&noting));
    let a = world.candidate_on(store, "a", Settings::ttl(TTL));
    a.faults.next(Verb::Acquire, Fault::Hang);
    let _leadership = a.lead("e").await.unwrap();
    assert_eq!(*noting.bids.lock().unwrap(), [1]);
    a.faults.next(Verb::Renew, Fault::Hang);
    world.sleep(RENEW + CALL + ms(100)).await;
    assert_eq!(*noting.renewals.lock().unwrap(), [1]);
}
