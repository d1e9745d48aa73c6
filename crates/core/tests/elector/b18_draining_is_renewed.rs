//! B18: a draining lease is renewed, without permission, until the work has ended.

use tenure_core::elector::ElectorState;
use tenure_core::store::ErrorKind;
use tenure_testkit::fault::{Fault, Verb};

use crate::b15_work_cancelled::held_outside;
use crate::world::{RENEW, TRUST, World, ms, secs};

#[tokio::test(start_paused = true)]
async fn the_lease_is_kept_for_ten_minutes_under_work_that_takes_that_long_to_end() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(3)).await;
    let stopping = tokio::spawn(async move { handle.stop().await });
    leadership.cancelled().await;
    while world.now() < secs(603) {
        assert!(!leadership.is_leader());
        assert_eq!(world.record().await.leader().unwrap().candidate, world.id("a"));
        world.sleep(secs(1)).await;
    }
    assert!(world.record().await.renew_total >= 59);
    drop(leadership);
    stopping.await.unwrap();
    world.leads(&b).await;
    assert!(world.now() <= secs(603) + ms(2));
}

#[tokio::test(start_paused = true)]
async fn it_is_kept_after_a_deadline_too_once_the_store_answers_again_however_slowly() {
    for slow in [ms(1), ms(400), secs(3)] {
        let world = World::new();
        let a = world.candidate("a");
        let (handle, leadership) = held_outside(&world, &a).await;
        let b = world.candidate("b").elector("e").start().unwrap();
        a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
        leadership.cancelled().await;
        assert!(world.now() >= TRUST);
        a.faults.always(Verb::Renew, Fault::Delay(slow));
        world.sleep(secs(300)).await;
        assert_eq!(
            (handle.status().state, b.status().terms),
            (ElectorState::Draining, 0),
            "answers take {slow:?}"
        );
        assert!(!leadership.is_leader());
        drop(leadership);
        world.leads(&b).await;
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_of_a_draining_lease_keep_their_cadence() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let resigning = tokio::spawn(async move { handle.resign(None).await });
    leadership.cancelled().await;
    world.sleep(RENEW * 30).await;
    let renewals = world.record().await.renew_total;
    assert!((28..=31).contains(&renewals), "{renewals}");
    drop(leadership);
    resigning.await.unwrap().unwrap();
}
