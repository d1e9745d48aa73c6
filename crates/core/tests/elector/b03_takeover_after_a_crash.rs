//! B3: when the leader crashes, a follower leads at the lease's expiry, not before, and at most 100 ms and one round
//! trip after it.

use tenure_core::Settings;
use tenure_core::elector::ElectorState;
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{RENEW, TTL, World, ms, mute, secs};

/// From when the store frees the lease: the last renewal before `crash`, and a ttl. Renewals go out every 10 s.
fn expiry(crash: std::time::Duration) -> std::time::Duration {
    RENEW * u32::try_from(crash.as_millis() / RENEW.as_millis()).unwrap() + TTL
}

#[tokio::test(start_paused = true)]
async fn a_follower_leads_at_expiry_not_before_and_soon_after() {
    for crash in [ms(1), ms(9_900), ms(12_345), ms(25_000), ms(44_444), ms(119_000)] {
        let world = World::new();
        let a = world.candidate("a");
        let leader = a.elector("e").start().unwrap();
        world.leads(&leader).await;
        let b = world.candidate("b");
        b.faults.always(Verb::Acquire, Fault::Delay(ms(30)));
        let follower = b.elector("e").start().unwrap();
        let mut ears = world.ears(&follower);
        world.sleep_until(crash).await;
        a.crash();
        let elected = ears.elected().await;
        let at = world.time_of(elected.last().unwrap());
        // A renewal that is due exactly when its machine stops does not go out.
        let free = expiry(crash - ms(1));
        assert!(
            (free..=free + ms(100) + ms(30)).contains(&at),
            "crash at {crash:?}: free at {free:?}, led at {at:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn where_nobody_is_woken_the_opening_is_timed_all_the_same() {
    let world = World::new();
    let a = world.candidate_on(mute(world.store.clone()), "a", Settings::ttl(TTL));
    let leader = a.elector("e").start().unwrap();
    world.leads(&leader).await;
    let b = world.candidate_on(mute(world.store.clone()), "b", Settings::ttl(TTL).retry_interval(secs(29)));
    let follower = b.elector("e").start().unwrap();
    world.sleep(secs(12)).await;
    a.crash();
    world.leads(&follower).await;
    assert!((secs(40)..=ms(40_100)).contains(&world.now()), "{:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn a_missed_wake_up_costs_time_and_nothing_else() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    let b = world.candidate("b");
    b.faults.always(Verb::Watch, Fault::Hang);
    let follower = b.elector("e").start().unwrap();
    world.sleep(secs(12)).await;
    leader.stop().await;
    world.within(TTL, "led", world.leads(&follower)).await;
    assert!(b.faults.injected(Verb::Watch) > 0);
}

#[tokio::test(start_paused = true)]
async fn of_fifty_followers_exactly_one_leads() {
    let world = World::new();
    let a = world.candidate("a");
    let leader = a.elector("e").start().unwrap();
    world.leads(&leader).await;
    let crowd: Vec<_> = (0..50).map(|n| world.candidate(&format!("f{n}"))).collect();
    let handles: Vec<_> = crowd.iter().map(|f| f.elector("e").start().unwrap()).collect();
    world.sleep(secs(12)).await;
    a.crash();
    world.sleep_until(secs(45)).await;
    let leading = handles.iter().filter(|handle| handle.status().state == ElectorState::Leading).count();
    assert_eq!((leading, handles.iter().filter(|handle| handle.is_leader()).count()), (1, 1));
    assert_eq!(world.record().await.token.0, 2);
}
