//! B1: elected within one round trip of a free election; starting twice is an error; stopping is idempotent.

use std::time::Duration;

use tenure_core::elector::{ElectorState, StartError};
use tenure_core::store::{LeaseStore, RecordState};
use tenure_core::{Clock, ClockExt, ElectionName};

use crate::World;

#[tokio::test(start_paused = true)]
async fn a_free_election_is_led_at_once_and_free_again_after_stop() {
    let world = World::new();
    let start = world.clock.now();
    let leadership = world.candidate("a").try_lead("e").await.unwrap().expect("free");
    assert!(leadership.is_leader());
    assert_eq!(world.clock.now().time_since(start), Duration::ZERO);
    drop(leadership);
    let follower = world.candidate("b").lead("e").await.unwrap();
    assert_eq!(follower.token().0, 2);
}

#[tokio::test(start_paused = true)]
async fn starting_twice_is_an_error_and_stopping_twice_is_not() {
    let world = World::new();
    let elections = world.candidate("a");
    let handle = elections.elector("e").start().unwrap();
    let again = elections.elector("e").start();
    assert!(matches!(again, Err(StartError::AlreadyStanding(name)) if name.as_str() == "e"));
    let mut statuses = handle.statuses();
    statuses.wait_for(|status| status.state == ElectorState::Leading).await.unwrap();
    assert!(handle.is_leader());
    handle.stop().await;
    handle.stop().await;
    assert!(!handle.is_leader());
    let record = world.store.read(&ElectionName::new("e").unwrap()).await.unwrap().unwrap();
    assert_eq!(record.state, RecordState::Free);
    elections.elector("e").start().expect("stop, then start").stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_for_hours_and_a_follower_waits() {
    let world = World::new();
    let leadership = world.candidate("a").lead("e").await.unwrap();
    let follower = world.candidate("b").elector("e").start().unwrap();
    world.clock.sleep(Duration::from_secs(3600)).await;
    assert!(leadership.is_leader());
    assert_eq!(follower.status().state, ElectorState::Following);
    let record = world.store.read(&ElectionName::new("e").unwrap()).await.unwrap().unwrap();
    assert_eq!(record.token.0, 1);
    assert!((358..=361).contains(&record.renew_total), "{}", record.renew_total);
    drop(leadership);
    follower.statuses().wait_for(|status| status.state == ElectorState::Leading).await.unwrap();
}
