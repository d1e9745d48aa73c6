//! B4: renewal errors for less than the remaining lease keep leadership without a gap; errors to the deadline end
//! permission at the deadline, exactly once.

use std::time::Duration;

use tenure_core::elector::ElectorState;
use tenure_core::store::ErrorKind;
use tenure_core::{Leadership, Settings};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{RENEW, TICK, TRUST, World, count, in_short, ms, secs};

async fn leads_without_a_gap(world: &World, leadership: &Leadership, until: Duration) {
    while world.now() < until {
        assert!(leadership.is_leader(), "a gap at {:?}", world.now());
        world.sleep(ms(100)).await;
    }
}

/// Starts an elector and hands its leadership out.
async fn led(world: &World, a: &crate::world::Candidate) -> (tenure_core::ElectorHandle, Leadership) {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let elector = a.elector("e").on_elected(move |leadership| {
        sender.send(leadership).unwrap();
        std::future::ready(Ok(()))
    });
    let handle = elector.start().unwrap();
    let leadership = world.within(secs(60), "elected", receiver.recv()).await.unwrap();
    (handle, leadership)
}

#[tokio::test(start_paused = true)]
async fn a_few_errors_keep_the_term_and_each_is_told() {
    for errors in [1, 3] {
        for fault in [
            Fault::Before(ErrorKind::Unavailable),
            Fault::After(ErrorKind::Timeout),
            Fault::Before(ErrorKind::Denied),
        ] {
            let world = World::new();
            let a = world.candidate("a");
            let (handle, leadership) = led(&world, &a).await;
            let mut ears = world.ears(&handle);
            for _ in 0..errors {
                a.faults.next(Verb::Renew, fault.clone());
            }
            leads_without_a_gap(&world, &leadership, secs(300)).await;
            assert_eq!(a.faults.injected(Verb::Renew), errors);
            let events = ears.so_far();
            assert_eq!(count(&events, "renew failed 1"), usize::try_from(errors).unwrap());
            assert_eq!(events.len(), usize::try_from(errors).unwrap(), "{:?}", in_short(&events));
            assert_eq!((handle.status().terms, handle.status().last_error), (1, None));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_what_is_left_is_ridden_out() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = led(&world, &a).await;
    let mut ears = world.ears(&handle);
    world.sleep(RENEW - ms(1)).await;
    a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    leads_without_a_gap(&world, &leadership, TRUST - ms(200)).await;
    a.faults.clear();
    leads_without_a_gap(&world, &leadership, secs(300)).await;
    assert_eq!(handle.status().terms, 1);
    assert!(count(&ears.so_far(), "renew failed") >= 3);
}

#[tokio::test(start_paused = true)]
async fn errors_to_the_deadline_end_permission_there_exactly_once() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = led(&world, &a).await;
    let mut ears = world.ears(&handle);
    world.sleep(RENEW + ms(1)).await;
    a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let deadline = RENEW + TRUST;
    assert_eq!(leadership.deadline(), Some(a.moment(deadline)));
    leads_without_a_gap(&world, &leadership, deadline - ms(100)).await;
    leadership.cancelled().await;
    assert!((deadline..=deadline + TICK).contains(&world.now()), "{:?}", world.now());
    assert!(!leadership.is_leader() && !handle.is_leader());
    assert!(leadership.check().is_err() && leadership.deadline().is_none());
    drop(leadership);
    let events = ears.term_ended().await;
    assert_eq!(in_short(&events).last().unwrap(), "term ended 1: deadline passed");
    assert_eq!(count(&events, "renew failed") as u64, a.faults.injected(Verb::Renew));
    world.sleep(secs(60)).await;
    assert_eq!(count(&ears.so_far(), "term ended"), 0, "exactly once");
    a.faults.clear();
    world.leads(&handle).await;
    assert_eq!(handle.status().terms, 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_at_once_is_not_flooded_with_renewals() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = led(&world, &a).await;
    a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    world.sleep(secs(600)).await;
    assert_eq!(handle.status().state, ElectorState::Draining, "the leadership is still held");
    let calls = a.faults.injected(Verb::Renew);
    assert!((20..400).contains(&calls), "{calls} renewals in ten minutes");
    drop(leadership);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_follows_from_the_smaller_of_what_was_asked_and_granted() {
    let world = World::new();
    let a = world.candidate_with("a", Settings::ttl(secs(2)));
    let leadership = a.lead("e").await.unwrap();
    // 2 s × 0.9 − 100 ms − drain, which is 0.8 × (1.7 s − 2 × 2/3 s).
    let drain = leadership.deadline().unwrap().time_until(a.moment(secs(0)));
    let wanted = ms(1_700) - (ms(1_700) - secs(2) / 3 * 2) * 4 / 5;
    assert_eq!(drain, wanted);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_later_one_overtook_is_no_loss() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = led(&world, &a).await;
    let mut ears = world.ears(&handle);
    // Sent at 10 s, at the store at 16 s; the one of 15 s was applied meanwhile, and its answer was lost.
    a.faults.next(Verb::Renew, Fault::Delay(secs(6)));
    a.faults.next(Verb::Renew, Fault::After(ErrorKind::Unavailable));
    leads_without_a_gap(&world, &leadership, secs(100)).await;
    assert_eq!((handle.status().terms, a.faults.injected(Verb::Renew)), (1, 2));
    assert_eq!(in_short(&ears.so_far()), ["renew failed 1 timeout", "renew failed 1 unavailable"]);
}
