//! B17: after a suspend of the machine cancellation fires at once.

use tenure_core::elector::ElectorState;
use tenure_testkit::fault::{Fault, Verb};

use crate::b15_work_cancelled::held_outside;
use crate::world::{TICK, TTL, World, in_short, ms, secs};

#[tokio::test(start_paused = true)]
async fn work_is_told_at_the_end_of_a_suspend_past_the_deadline() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    // Nothing reaches a machine that sleeps.
    a.faults.always(Verb::Watch, Fault::Hang);
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(3)).await;
    a.clock.suspend_for(secs(3600));
    world.leads(&b).await;
    assert!((TTL..=TTL + ms(100)).contains(&world.now()));
    assert!(!leadership.is_leader(), "also to who looks before the timer fires");
    leadership.cancelled().await;
    assert!((secs(3603)..=secs(3603) + TICK).contains(&world.now()), "{:?}", world.now());
    drop(leadership);
    let events = in_short(&ears.term_ended().await);
    assert_eq!(events.last().unwrap(), "term ended 1: deadline passed");
    world.sleep(secs(100)).await;
    assert!(b.is_leader() && b.status().terms == 1);
    assert_eq!(
        (handle.status().state, handle.status().leader),
        (ElectorState::Following, Some(world.id("b")))
    );
}

#[tokio::test(start_paused = true)]
async fn work_is_told_at_once_when_the_boot_clock_jumps_although_the_raw_clock_does_not() {
    let world = World::new();
    let a = world.candidate("a");
    let (_handle, leadership) = held_outside(&world, &a).await;
    world.sleep(secs(3)).await;
    a.clock.jump_boot(secs(20));
    assert!(!leadership.is_leader());
    leadership.cancelled().await;
    assert_eq!(world.now(), secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_suspend_that_ends_before_the_deadline_costs_nothing() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    world.sleep(ms(9_900)).await;
    a.clock.suspend_for(secs(11));
    world.sleep(secs(300)).await;
    assert!(leadership.is_leader() && handle.status().terms == 1);
}

#[tokio::test(start_paused = true)]
async fn clocks_that_run_wrong_by_a_tenth_let_nobody_lead_beside_the_leader() {
    for (boot, raw) in [(-99_000, 0), (-90_000, -90_000), (99_000, 99_000)] {
        let world = World::new();
        let a = world.candidate("a");
        a.clock.set_rates(boot, raw);
        let (_handle, leadership) = held_outside(&world, &a).await;
        let b = world.candidate("b").elector("e").start().unwrap();
        a.faults.always(Verb::Renew, Fault::Hang);
        while !b.is_leader() {
            assert!(world.now() < secs(60));
            world.sleep(TICK).await;
        }
        assert!(!leadership.is_leader());
        assert!(world.now() >= TTL);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_wall_clock_means_nothing() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    for step in [-86_400, 3_600, 86_400 * 365] {
        a.clock.step_wall(step);
        world.sleep(secs(60)).await;
        assert!(leadership.is_leader() && handle.status().terms == 1);
    }
}
