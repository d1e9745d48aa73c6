//! B13: followers and leaders are healthy; a stale loop, or a store unreachable for longer than a limit, is not.

use tenure_core::elector::ElectorState;
use tenure_core::store::ErrorKind;
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{World, ms, secs};

#[tokio::test(start_paused = true)]
async fn a_leader_and_a_follower_are_healthy_all_along() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    let follower = world.candidate("b").elector("e").start().unwrap();
    for _ in 0..3000 {
        world.sleep(ms(100)).await;
        for handle in [&leader, &follower] {
            let health = handle.health(secs(1));
            assert!(health.healthy && health.last_error.is_none(), "{health:?} at {:?}", world.now());
        }
    }
    assert!(leader.health(secs(1)).since_answer.unwrap() <= secs(10) + ms(1));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_silent_for_longer_than_the_limit_is_told_with_its_error_and_the_age() {
    let world = World::new();
    let a = world.candidate("a");
    let handle = a.elector("e").start().unwrap();
    world.sleep(ms(10_001)).await;
    for verb in Verb::ALL {
        a.faults.always(verb, Fault::Before(ErrorKind::Unavailable));
    }
    world.sleep(ms(10_500)).await;
    let health = handle.health(secs(15));
    assert!(health.healthy, "within the limit: {health:?}");
    assert!(health.last_error.unwrap().contains("unavailable"));
    world.sleep(secs(5)).await;
    let health = handle.health(secs(15));
    assert!(!health.healthy && health.problems[0].contains("has not answered"), "{health:?}");
    assert!(health.since_answer.unwrap() >= secs(15));
    world.sleep(secs(300)).await;
    assert!(!handle.health(secs(15)).healthy);
    a.faults.clear();
    world.leads(&handle).await;
    let health = handle.health(secs(15));
    assert!(health.healthy && health.last_error.is_none(), "{health:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answered_is_unhealthy_and_the_elector_keeps_trying() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(100)).await;
    let health = handle.health(secs(15));
    assert!(!health.healthy && health.since_answer.is_none(), "{health:?}");
    assert!(health.problems[0].contains("never answered"));
    a.faults.clear();
    world.leads(&handle).await;
    assert!(handle.health(secs(15)).healthy);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_does_not_turn_is_told() {
    let world = World::new();
    let a = world.candidate("a");
    let handle = a.elector("e").start().unwrap();
    world.leads(&handle).await;
    // Its sleepers do not wake, its clock goes on.
    a.clock.suspend_for(secs(60));
    world.sleep(secs(50)).await;
    let health = handle.health(secs(15));
    assert!(!health.healthy && health.problems[0].contains("late"), "{health:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_waits_for_its_work_to_end_is_healthy_until_the_work_overruns() {
    let world = World::new();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let b = world.candidate("b").elector("e").on_elected(move |leadership| {
        sender.send(leadership).unwrap();
        std::future::ready(Ok(()))
    });
    let b = b.start().unwrap();
    let leadership = receiver.recv().await.unwrap();
    world.sleep(secs(3)).await;
    let resigning = tokio::spawn({
        let b = b.clone();
        async move { b.resign(None).await }
    });
    for _ in 0..50 {
        world.sleep(ms(100)).await;
        assert_eq!(b.status().state, ElectorState::Draining);
        assert!(b.health(ms(100)).healthy, "{:?}", b.health(ms(100)));
    }
    world.sleep(secs(100)).await;
    let health = b.health(secs(1));
    assert_eq!(health.problems.len(), 1, "{health:?}");
    assert!(health.problems[0].contains("still runs"), "{health:?}");
    drop(leadership);
    resigning.await.unwrap().unwrap();
    assert!(b.health(secs(1)).healthy);
}

#[tokio::test(start_paused = true)]
async fn an_elector_that_has_stopped_says_so() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    handle.stop().await;
    assert!(handle.health(secs(1)).problems[0].contains("stopped"));
}
