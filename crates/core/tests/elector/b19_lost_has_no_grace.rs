//! B19: `Lost`: no grace.

use tenure_core::ClockExt;
use tenure_core::elector::ElectorState;

use crate::b15_work_cancelled::{held_outside, releases};
use crate::world::{DRAIN, LATENCY, RENEW, TICK, World, in_short, ms, secs};

#[tokio::test(start_paused = true)]
async fn work_is_dropped_the_moment_the_lease_is_known_to_be_lost() {
    let world = World::new();
    let clock = world.clock.clone();
    let (sender, mut dropped) = tokio::sync::mpsc::unbounded_channel::<()>();
    let elector = world.candidate("a").elector("e").on_elected(move |leadership| {
        let (clock, sender) = (clock.clone(), sender.clone());
        async move {
            leadership.cancelled().await;
            // Wants all of the drain timeout.
            clock.sleep(DRAIN).await;
            sender.send(()).unwrap();
            Ok(())
        }
    });
    let handle = elector.start().unwrap();
    let mut ears = world.ears(&handle);
    ears.elected().await;
    world.sleep(secs(12)).await;
    world.clock.jump_boot(secs(60));
    let events = ears.term_ended().await;
    assert_eq!(in_short(&events).last().unwrap(), "term ended 1: lost");
    assert!(world.time_of(events.last().unwrap()) <= RENEW * 2 + TICK * 2, "at once");
    handle.stop().await;
    assert!(dropped.try_recv().is_err(), "it did not get to its end");
}

#[tokio::test(start_paused = true)]
async fn work_that_cannot_be_dropped_is_reported_within_latency_and_nothing_is_released() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    let released = releases(&a);
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(3)).await;
    world.take_away().await;
    leadership.cancelled().await;
    assert!(world.now() <= secs(3) + LATENCY + TICK);
    let events =
        ears.until("overrun", |kind| matches!(kind, tenure_core::elector::EventKind::Overrun { .. })).await;
    assert!(world.time_of(events.last().unwrap()) <= secs(3) + LATENCY * 2 + TICK * 2);
    world.sleep(secs(60)).await;
    assert!(b.is_leader());
    assert_eq!(released.load(std::sync::atomic::Ordering::Relaxed), 0);
    assert_eq!(handle.status().state, ElectorState::Draining);
    drop(leadership);
    world.sleep(ms(1)).await;
    assert_eq!(released.load(std::sync::atomic::Ordering::Relaxed), 0, "what is not ours is not given back");
    assert_eq!(handle.status().state, ElectorState::Following);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_while_it_drains_ends_the_grace() {
    let world = World::new();
    let clock = world.clock.clone();
    let elector = world.candidate("a").elector("e").on_elected(move |leadership| {
        let clock = clock.clone();
        async move {
            leadership.cancelled().await;
            clock.sleep(secs(100)).await;
            Ok(())
        }
    });
    let handle = elector.start().unwrap();
    world.leads(&handle).await;
    // Shortly before a renewal, so that it goes out inside the grace.
    world.sleep(secs(8)).await;
    let stopping = tokio::spawn({
        let handle = handle.clone();
        async move { handle.stop().await }
    });
    world.reaches(&handle, ElectorState::Draining).await;
    world.take_away().await;
    stopping.await.unwrap();
    assert!((RENEW..=RENEW + TICK).contains(&world.now()), "{:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_not_given_back() {
    let world = World::new();
    let a = world.candidate("a");
    let released = releases(&a);
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    ears.elected().await;
    world.sleep(secs(12)).await;
    world.take_away().await;
    ears.elected().await;
    assert_eq!(released.load(std::sync::atomic::Ordering::Relaxed), 0);
}
