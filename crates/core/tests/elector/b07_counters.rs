//! B7: attempts, renewals, terms; and whether anybody else led since my last term.

use std::sync::Arc;

use tenure_core::embedded::MemoryVersioned;
use tenure_core::store::ErrorKind;
use tenure_core::store::versioned::Versioned;
use tenure_core::{Clock, FencingToken, Settings};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{RETRY, TTL, World, election, secs};

#[tokio::test(start_paused = true)]
async fn attempts_count_the_bids_of_one_campaign() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    assert_eq!(leader.status().attempts, 1);
    let follower = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    assert_eq!(follower.status().attempts, 1, "bid once, waiting");
    leader.stop().await;
    world.leads(&follower).await;
    assert_eq!(follower.status().attempts, 2);
    follower.resign(None).await.unwrap();
    world.sleep(RETRY).await;
    world.leads(&follower).await;
    assert_eq!((follower.status().attempts, follower.status().terms), (1, 2), "a new campaign counts anew");
}

#[tokio::test(start_paused = true)]
async fn repeating_a_bid_whose_answer_was_lost_is_no_further_attempt() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::After(ErrorKind::Timeout));
    a.faults.next(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let leadership = a.lead("e").await.unwrap();
    assert_eq!((leadership.attempts(), leadership.token().0), (1, 1));
    assert_eq!(a.faults.injected(Verb::Acquire), 2);
}

#[tokio::test(start_paused = true)]
async fn renewals_count_from_zero_in_each_term_and_on_over_the_records_life() {
    let world = World::new();
    let first = world.candidate("a").elector("e").start().unwrap();
    world.sleep(secs(35)).await;
    assert_eq!((first.status().renewals, first.status().renew_total), (3, 3));
    first.stop().await;
    let second = world.candidate("b").elector("e").start().unwrap();
    world.leads(&second).await;
    assert_eq!((second.status().renewals, second.status().renew_total), (0, 3));
    world.sleep(secs(15)).await;
    assert_eq!((second.status().renewals, second.status().renew_total), (1, 4));
    assert_eq!((first.status().terms, second.status().terms), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn whether_others_led_is_answered_exactly() {
    let world = World::new();
    let (a, b) = (world.candidate("a"), world.candidate("b"));
    let first = a.lead("e").await.unwrap();
    let token = first.token();
    assert!(first.others_led_since(FencingToken(0)), "nobody knows of a term before the first");
    drop(first);
    a.release("e").await;
    let second = a.lead("e").await.unwrap();
    assert!(!second.others_led_since(token));
    let token = second.token();
    drop(second);
    a.release("e").await;
    drop(b.lead("e").await.unwrap());
    let third = a.lead("e").await.unwrap();
    assert!(third.others_led_since(token), "b led");
    let token = third.token();
    drop(third);
    a.release("e").await;
    let fourth = a.lead("e").await.unwrap();
    assert!(!fourth.others_led_since(token) && fourth.others_led_since(FencingToken(2)));
}

#[tokio::test(start_paused = true)]
async fn a_term_that_ran_out_and_was_taken_up_again_by_the_same_candidate_had_no_other_leader() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    ears.elected().await;
    world.sleep(secs(12)).await;
    world.clock.jump_boot(secs(60));
    ears.elected().await;
    let previous = world.record().await.leader().unwrap().previous.clone().unwrap();
    assert_eq!((previous.token.0, previous.candidate.clone()), (1, world.id("a")));
}

#[tokio::test(start_paused = true)]
async fn after_a_loss_of_data_somebody_may_have_led_and_tokens_rise_all_the_same() {
    let world = World::new();
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let records = MemoryVersioned::new(Arc::clone(&clock));
    let a = world.candidate_on(Versioned::with_clock(records.clone(), clock), "a", Settings::ttl(TTL));
    for _ in 0..3 {
        drop(a.lead("e").await.unwrap());
        a.release("e").await;
    }
    records.overwrite(&election(), None);
    let leadership = a.lead("e").await.unwrap();
    assert!(leadership.others_led_since(FencingToken(3)));
    assert_eq!(leadership.token().0, 4);
}
