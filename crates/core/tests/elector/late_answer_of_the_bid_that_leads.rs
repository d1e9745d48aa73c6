//! An attempt that is answered after another one of the same bid was: its lease is led, and must not be given back.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::{LeaseStore, RecordState};
use tenure_core::{CandidateId, ClockExt, ElectionName, Elections, Settings};
use tenure_testkit::fault::{Fault, Faulty, Verb};

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn a_late_answer_to_the_bid_that_leads_gives_nothing_back() {
    let world = World::new();
    let store = Faulty::new(world.store.clone(), Arc::new(world.clock.clone()));
    let faults = store.faults();
    let elections = Elections::builder(store)
        .clock(Arc::new(world.clock.clone()))
        .candidate(CandidateId::new("a").unwrap())
        .settings(Settings::ttl(Duration::from_secs(30)))
        .build();
    // Past the call timeout of 5 s, before the first renewal: the second attempt wins, then the first arrives.
    faults.next(Verb::Acquire, Fault::Delay(Duration::from_secs(8)));
    let leadership = elections.lead("e").await.unwrap();
    assert_eq!(faults.injected(Verb::Acquire), 1);
    world.clock.sleep(Duration::from_secs(60)).await;
    assert!(leadership.is_leader());
    let record = world.store.read(&ElectionName::new("e").unwrap()).await.unwrap().unwrap();
    assert_eq!((record.state, record.token), (RecordState::Held, leadership.token()));
}
