//! B16: permission is a one-way latch: a late `Renewed` does not revive it.

use std::sync::{Arc, Mutex};

use tenure_core::elector::ElectorState;
use tenure_core::store::ErrorKind;
use tenure_testkit::fault::{Fault, Verb};

use crate::b15_work_cancelled::held_outside;
use crate::world::{CALL, RENEW, TICK, TRUST, World, in_short, ms, secs};

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_the_deadline_does_not_bring_permission_back() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    // The renewal of 10 s reaches the store in time and answers when the deadline has passed.
    a.faults.next(Verb::Renew, Fault::Delay(TRUST - RENEW + ms(500)));
    a.faults.next(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    a.faults.always(Verb::Renew, Fault::Delay(secs(20)));
    leadership.cancelled().await;
    assert!((TRUST..=TRUST + TICK).contains(&world.now()));
    let seen = Arc::new(Mutex::new(false));
    let mut statuses = handle.statuses();
    let renewed = statuses.wait_for(|status| status.renewals == 1);
    drop(world.within(secs(1), "renewed late", renewed).await.unwrap());
    for _ in 0..100 {
        *seen.lock().unwrap() |= leadership.is_leader() || handle.is_leader();
        world.sleep(ms(10)).await;
    }
    assert!(!*seen.lock().unwrap());
    assert_eq!(leadership.deadline(), None);
    drop(leadership);
    let events = in_short(&ears.term_ended().await);
    assert_eq!(events.last().unwrap(), "term ended 1: deadline passed");
}

#[tokio::test(start_paused = true)]
async fn whoever_sees_the_deadline_pass_ends_it_even_if_a_renewal_is_answered_at_that_moment() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    // The elector is held up, its user is not: the user looks first.
    a.clock.suspend_for(secs(25));
    world.sleep(secs(24)).await;
    assert!(!leadership.is_leader());
    world.sleep(secs(2)).await;
    assert!(!leadership.is_leader() && !handle.is_leader());
    drop(leadership);
    let events = in_short(&ears.term_ended().await);
    assert_eq!(events.last().unwrap(), "term ended 1: deadline passed");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_in_a_later_term_says_nothing_about_that_term() {
    let world = World::new();
    let a = world.candidate("a");
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    ears.elected().await;
    // Held back until a later term rules: a `Lost` of the first term by then.
    a.faults.next(Verb::Renew, Fault::Late { give_up: None });
    world.sleep(secs(12)).await;
    assert_eq!(a.faults.held_back(), 1);
    handle.resign(Some(secs(1))).await.unwrap();
    ears.elected().await;
    assert_eq!(a.faults.deliver().await, 1);
    world.sleep(secs(100)).await;
    assert_eq!((handle.status().state, handle.status().terms), (ElectorState::Leading, 2));
    assert!(ears.so_far().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_renewal_counts_from_its_own_send_when_its_answer_comes_after_all() {
    let world = World::new();
    let a = world.candidate("a");
    let (_handle, leadership) = held_outside(&world, &a).await;
    // Sent at 10 s, answered at 16 s; what was sent meanwhile was lost.
    a.faults.next(Verb::Renew, Fault::Delay(CALL + secs(1)));
    a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    world.sleep(ms(16_500)).await;
    let deadline = leadership.deadline().unwrap();
    assert!(
        deadline.has_passed(a.moment(RENEW + TRUST + TICK))
            && !deadline.has_passed(a.moment(RENEW + TRUST - ms(1)))
    );
    leadership.cancelled().await;
    assert!((RENEW + TRUST..=RENEW + TRUST + TICK * 2).contains(&world.now()), "{:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn a_bid_found_out_later_counts_from_the_send_of_the_attempt_that_was_applied() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::After(ErrorKind::Unavailable));
    for _ in 0..8 {
        a.faults.next(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    }
    a.faults.always(Verb::Renew, Fault::Hang);
    let leadership = a.lead("e").await.unwrap();
    assert!(world.now() > secs(3), "it took a while: {:?}", world.now());
    assert_eq!(leadership.deadline(), Some(a.moment(TRUST)), "from the first send, not from the last");
    leadership.cancelled().await;
    assert!((TRUST..=TRUST + TICK).contains(&world.now()));
}

#[tokio::test(start_paused = true)]
async fn a_bid_found_out_later_is_renewed_next() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::After(ErrorKind::Unavailable));
    let leadership = a.lead("e").await.unwrap();
    let found = world.now();
    world.sleep(ms(1)).await;
    assert_eq!(leadership.deadline(), Some(a.moment(found + TRUST)));
    assert_eq!(world.record().await.renew_total, 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_of_a_bid_that_leads_does_not_give_its_lease_back() {
    for late in [Fault::Hang, Fault::Late { give_up: None }] {
        let world = World::new();
        let a = world.candidate("a");
        a.faults.next(Verb::Acquire, late);
        let (handle, leadership) = held_outside(&world, &a).await;
        assert!((CALL..CALL + secs(1)).contains(&world.now()), "led by the second attempt");
        let b = world.candidate("b").elector("e").start().unwrap();
        world.sleep(secs(1)).await;
        // The first attempt arrives: the same bid again, answered with the same term.
        a.faults.let_go();
        a.faults.deliver().await;
        world.sleep(secs(8)).await;
        assert!(leadership.is_leader());
        let record = world.record().await;
        assert_eq!((record.token.0, &record.leader().unwrap().candidate), (1, &world.id("a")));
        assert_eq!((handle.status().terms, b.status().terms), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_bid_that_wins_when_its_term_is_long_over_is_given_back_and_not_led() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::Late { give_up: None });
    let (handle, leadership) = held_outside(&world, &a).await;
    drop(leadership);
    handle.stop().await;
    // So many terms that the store does not remember the bid any more.
    for n in 0..10 {
        let other = world.candidate(&format!("b{n}"));
        drop(other.lead("e").await.unwrap());
        other.release("e").await;
    }
    assert_eq!(a.faults.deliver().await, 1);
    assert_eq!(world.record().await.token.0, 12, "it won");
    world.within(ms(5), "given back", world.is_free()).await;
    assert!(!handle.is_leader());
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_finds_permission_ended_by_whoever_looked_ends_the_term() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    // Sent at 10 s, answered at 25 s: it would move the deadline to 31.9 s.
    a.faults.next(Verb::Renew, Fault::Delay(secs(15)));
    a.faults.always(Verb::Renew, Fault::Hang);
    world.sleep(secs(16)).await;
    // The elector's timer is held up; a thread that is not looks at 23 s.
    a.clock.suspend_for(secs(60));
    world.sleep_until(secs(23)).await;
    assert!(!leadership.is_leader());
    leadership.cancelled().await;
    assert_eq!(world.now(), secs(25));
    drop(leadership);
    let events = in_short(&ears.term_ended().await);
    assert_eq!(events.last().unwrap(), "term ended 1: deadline passed");
}

#[tokio::test(start_paused = true)]
async fn calls_that_reach_the_store_twice_change_nothing() {
    let world = World::new();
    let (a, b) = (world.candidate("a"), world.candidate("b"));
    for verb in Verb::ALL {
        a.faults.always(verb, Fault::Duplicate);
        b.faults.always(verb, Fault::Duplicate);
    }
    let first = a.elector("e").start().unwrap();
    world.leads(&first).await;
    let second = b.elector("e").start().unwrap();
    world.sleep(secs(300)).await;
    assert!(first.is_leader() && first.status().terms == 1);
    first.handoff(world.id("b")).await.unwrap();
    world.leads(&second).await;
    world.sleep(secs(300)).await;
    assert!(second.is_leader() && second.status().terms == 1);
    assert!(a.faults.injected(Verb::Renew) > 20 && a.faults.injected(Verb::Release) > 0);
}
