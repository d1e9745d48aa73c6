//! B20: no new term beside overrun work.

use tenure_core::elector::ElectorState;

use crate::b15_work_cancelled::held_outside;
use crate::world::{World, ms, secs};

#[tokio::test(start_paused = true)]
async fn nobody_stands_again_beside_work_that_overran_even_if_the_election_is_free() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    world.sleep(secs(3)).await;
    world.take_away().await;
    leadership.cancelled().await;
    world.sleep(secs(3600)).await;
    let record = world.record().await;
    assert_eq!((record.token.0, record.time_left), (1, None), "free for an hour");
    assert_eq!((handle.status().terms, handle.status().state), (1, ElectorState::Draining));
    assert!(handle.status().overrun);
    drop(leadership);
    world.within(ms(1), "stands again", world.leads(&handle)).await;
    assert_eq!((handle.status().terms, handle.status().overrun), (2, false));
}
