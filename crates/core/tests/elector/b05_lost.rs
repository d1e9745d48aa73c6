//! B5: `Lost` on renew ends the term at once, and the elector campaigns again without a pause.

use tenure_core::elector::ElectorState;
use tenure_core::store::{LeaseStore, Renew, Renewal};
use tenure_core::{Attempt, Random};

use crate::world::{LATENCY, RENEW, TICK, World, in_short, ms, secs};

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_term_and_the_next_campaign_begins_at_once() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    world.sleep(secs(12)).await;
    // The store's clock jumps: the lease is over there, and nobody is told.
    world.clock.jump_boot(secs(60));
    let mut events = ears.term_ended().await;
    let ended = world.time_of(events.last().unwrap());
    assert!((RENEW * 2..=RENEW * 2 + TICK * 2).contains(&ended), "at the next renewal: {ended:?}");
    let elected = ears.elected().await;
    assert_eq!(world.time_of(elected.last().unwrap()), ended);
    events.extend(elected);
    assert_eq!(in_short(&events), ["elected 1", "leader -", "term ended 1: lost", "elected 2"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_took_over_is_lost_at_once_and_the_loser_stands_by() {
    let world = World::new();
    let a = world.candidate("a").elector("e").start().unwrap();
    world.leads(&a).await;
    let mut ears = world.ears(&a);
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(12)).await;
    world.take_away().await;
    let events = ears.term_ended().await;
    assert!(world.time_of(events.last().unwrap()) <= secs(12) + LATENCY + TICK);
    // Whether the other one leads already when the loss is seen is a matter of microseconds.
    let events = in_short(&events);
    assert!(events[0] == "leader -" || events[0] == "leader b", "{events:?}");
    assert_eq!(events[1..], ["term ended 1: lost"]);
    world.leads(&b).await;
    assert!(world.now() <= secs(12) + LATENCY + TICK);
    world.sleep(secs(100)).await;
    assert_eq!((a.status().state, a.status().leader), (ElectorState::Following, Some(world.id("b"))));
    assert!(b.is_leader() && !a.is_leader());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_freed_by_hand_is_noticed_before_the_next_renewal() {
    let world = World::new();
    let a = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&a);
    world.leads(&a).await;
    world.sleep(ms(1_500)).await;
    world.take_away().await;
    let events = ears.term_ended().await;
    assert!(world.time_of(events.last().unwrap()) <= ms(1_500) + LATENCY + TICK);
    world.leads(&a).await;
    assert_eq!(a.status().token.0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_cloned_process_that_renews_the_same_lease_is_noticed_and_told() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    world.sleep(secs(12)).await;
    let record = world.record().await;
    let lease = record.lease_of(record.leader().unwrap().bid).unwrap();
    let attempt = Attempt::new(&Random::from_seed(7));
    let renewal = Renew { lease, attempt, open: Vec::new(), answer: None };
    assert!(matches!(world.store.renew(&[renewal]).await[0], Ok(Renewal::Renewed(..))));
    let events = in_short(&ears.term_ended().await);
    assert_eq!(events, ["elected 1", "identity shared 1", "term ended 1: lost"]);
}
