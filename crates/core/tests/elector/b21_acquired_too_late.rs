//! B21: `Acquired` too late is renewed or released, never led stale.

use tenure_core::store::ErrorKind;
use tenure_testkit::fault::{Fault, Verb};

use crate::b15_work_cancelled::held_outside;
use crate::world::{TRUST, TTL, World, ms, secs};

/// The bid of 0 s is granted at once, and nobody hears of it before its deadline has passed.
async fn granted_too_late(world: &World) -> (crate::world::Candidate, tenure_core::ElectorHandle) {
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::After(ErrorKind::Timeout));
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let handle = a.elector("e").start().unwrap();
    world.sleep(TRUST + ms(500)).await;
    (a, handle)
}

#[tokio::test(start_paused = true)]
async fn it_is_led_after_a_renewal_and_from_the_send_of_that() {
    for round_trip in [ms(0), ms(50), secs(1)] {
        let world = World::new();
        let (a, handle) = granted_too_late(&world).await;
        let mut ears = world.ears(&handle);
        a.faults.always(Verb::Renew, Fault::Delay(round_trip));
        a.faults.clear();
        a.faults.always(Verb::Renew, Fault::Delay(round_trip));
        let elected = ears.elected().await;
        let at = world.time_of(elected.last().unwrap());
        assert!(at < TTL, "{at:?}");
        let record = world.record().await;
        assert_eq!((record.token.0, record.renew_total), (1, 1), "round trip {round_trip:?}");
        a.faults.always(Verb::Renew, Fault::Hang);
        let ended = ears.term_ended().await;
        let lasted = world.time_of(ended.last().unwrap()) - at;
        // From the renewal's send to the deadline; it was led when that was answered.
        assert!(
            (TRUST - round_trip - ms(2)..=TRUST).contains(&lasted),
            "{lasted:?}, round trip {round_trip:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_given_back_if_it_cannot_be_renewed_and_bid_for_anew() {
    let world = World::new();
    let (a, handle) = granted_too_late(&world).await;
    let mut ears = world.ears(&handle);
    a.faults.clear();
    a.faults.next(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    let elected = ears.elected().await;
    assert!(world.time_of(elected.last().unwrap()) < TTL, "not waited out");
    let record = world.record().await;
    assert_eq!((record.token.0, record.last_terms.len()), (2, 1));
    assert_eq!(handle.status().terms, 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_has_run_out_by_the_time_it_is_heard_of_is_never_led() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::Hang);
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let start = a.elector("e").start().unwrap();
    let mut ears = world.ears(&start);
    world.sleep(secs(1)).await;
    // Suspended with its bid in flight: it is granted meanwhile, and answered to a machine that sleeps.
    a.clock.suspend_for(secs(100));
    a.faults.clear();
    a.faults.let_go();
    world.sleep(secs(50)).await;
    let b = world.candidate("b");
    let leadership = b.lead("e").await.unwrap();
    world.sleep(secs(100)).await;
    assert!(leadership.is_leader());
    for event in ears.so_far() {
        assert!(
            !matches!(event.kind, tenure_core::elector::EventKind::Elected { token, .. } if token > leadership.token())
        );
    }
    assert!(!start.is_leader());
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_time_is_led_from_its_send() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::Delay(secs(3)));
    let (_handle, leadership) = held_outside(&world, &a).await;
    assert_eq!(world.now(), secs(3));
    assert_eq!(leadership.deadline(), Some(a.moment(TRUST)));
}

#[tokio::test(start_paused = true)]
async fn a_bid_whose_term_ended_unheard_of_is_not_repeated_for_ever() {
    let world = World::new();
    let (a, handle) = granted_too_late(&world).await;
    let b = world.candidate("b").elector("e").start().unwrap();
    world.leads(&b).await;
    assert!((TTL..TTL + ms(100)).contains(&world.now()));
    a.faults.clear();
    world.sleep(secs(20)).await;
    assert_eq!(handle.status().leader, Some(world.id("b")));
    b.stop().await;
    world.within(ms(1), "a leads", world.leads(&handle)).await;
    assert_eq!(handle.status().token.0, 3);
}
