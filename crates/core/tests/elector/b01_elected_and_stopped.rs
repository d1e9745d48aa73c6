//! B1: elected within one round trip of a free election; starting twice is an error; stopping is idempotent, interrupts
//! waiting, and gives back what was won in flight; stop, then start works.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_core::elector::{ElectorState, StartError};
use tenure_core::embedded::MemoryStore;
use tenure_core::store::{ErrorKind, LeaseStore, RecordState};
use tenure_core::{CandidateId, Elections, Elector, ElectorHandle};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{CALL, TICK, World, election, ms, secs};

#[tokio::test(start_paused = true)]
async fn a_free_election_is_led_after_one_round_trip_with_one_bid() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::Delay(ms(30)));
    let leadership = a.try_lead("e").await.unwrap().expect("free");
    assert!(leadership.is_leader() && leadership.check().is_ok());
    assert_eq!(world.now(), ms(30));
    assert_eq!((leadership.attempts(), leadership.token().0), (1, 1));
    drop(leadership);
    let next = world.candidate("b").lead("e").await.unwrap();
    assert_eq!(next.token().0, 2);
    assert_eq!(world.now(), ms(30));
}

#[tokio::test(start_paused = true)]
async fn starting_twice_is_an_error_and_stopping_twice_is_not() {
    let world = World::new();
    let a = world.candidate("a");
    let handle = a.elector("e").start().unwrap();
    let again = a.elector("e").start();
    assert!(matches!(again, Err(StartError::AlreadyStanding(name)) if name.as_str() == "e"));
    world.leads(&handle).await;
    assert!(handle.is_leader());
    handle.stop().await;
    handle.stop().await;
    assert!(!handle.is_leader());
    assert_eq!(world.record().await.state, RecordState::Free);
    let handle = a.elector("e").start().expect("stop, then start");
    world.leads(&handle).await;
    assert_eq!(handle.status().token.0, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_is_free_as_soon_as_stop_has_returned() {
    let elections =
        Elections::builder(MemoryStore::new()).candidate(CandidateId::new("b01 threads").unwrap()).build();
    for round in 0..2000 {
        let handle = elections.elector("e").start().unwrap_or_else(|error| panic!("round {round}: {error}"));
        handle.stop().await;
    }
}

#[test]
fn what_cannot_start_says_why() {
    let outside = Elector::new(MemoryStore::new(), "b01 outside").start();
    assert_eq!(outside.unwrap_err(), StartError::NoRuntime);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    let blank = Elector::new(MemoryStore::new(), " ").start();
    assert!(matches!(blank, Err(StartError::Name(_))), "{blank:?}");
}

#[test]
fn stop_returns_and_events_end_although_the_runtime_of_the_elector_is_gone() {
    let runtime = || tokio::runtime::Builder::new_current_thread().build().unwrap();
    let first = runtime();
    let start = || Elector::new(MemoryStore::new(), "b01 gone").start();
    let (handle, mut events) = first.block_on(async {
        let handle = start().unwrap();
        let mut statuses = handle.statuses();
        drop(statuses.wait_for(|status| status.state == ElectorState::Leading).await.unwrap());
        let events = handle.events();
        (handle, events)
    });
    drop(first);
    assert!(!handle.is_leader());
    runtime().block_on(async {
        handle.stop().await;
        while events.next().await.is_some() {}
        start().expect("the place is free").stop().await;
    });
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_for_hours_and_a_follower_waits() {
    let world = World::new();
    let leadership = world.candidate("a").lead("e").await.unwrap();
    let follower = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(3600)).await;
    assert!(leadership.is_leader());
    assert_eq!(follower.status().state, ElectorState::Following);
    let record = world.record().await;
    assert_eq!(record.token.0, 1);
    assert!((358..=361).contains(&record.renew_total), "{}", record.renew_total);
    drop(leadership);
    world.leads(&follower).await;
}

#[tokio::test(start_paused = true)]
async fn stop_interrupts_a_follower_that_waits() {
    let world = World::new();
    let _leadership = world.candidate("a").lead("e").await.unwrap();
    let follower = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(3)).await;
    assert_eq!(follower.status().leader, Some(world.id("a")));
    let before = world.now();
    follower.stop().await;
    assert_eq!(world.now(), before);
    assert_eq!(world.record().await.leader().unwrap().candidate, world.id("a"));
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_stops_the_elector_and_frees_the_election() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    world.leads(&handle).await;
    let mut statuses = handle.statuses();
    let clone = handle.clone();
    drop(handle);
    world.sleep(secs(60)).await;
    assert!(clone.is_leader(), "a clone keeps it running");
    drop(clone);
    let stopped = statuses.wait_for(|status| status.state == ElectorState::Stopped);
    drop(world.within(secs(1), "stopped", stopped).await.unwrap());
    assert_eq!(world.record().await.state, RecordState::Free);
}

fn counting(world: &World, elected: &Arc<AtomicUsize>) -> (crate::world::Candidate, ElectorHandle) {
    let a = world.candidate("a");
    let elected = Arc::clone(elected);
    let elector = a.elector("e").on_elected(move |_| {
        elected.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(()))
    });
    a.faults.next(Verb::Acquire, Fault::Hang);
    let handle = elector.start().unwrap();
    (a, handle)
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_a_bid_in_flight_and_gives_back_what_it_wins() {
    let world = World::new();
    let elected = Arc::new(AtomicUsize::new(0));
    let (a, handle) = counting(&world, &elected);
    world.sleep(secs(1)).await;
    a.faults.next(Verb::Release, Fault::Delay(ms(50)));
    let stopping = tokio::spawn(async move { handle.stop().await });
    world.sleep(secs(1)).await;
    assert!(!stopping.is_finished());
    a.faults.let_go();
    world.within(ms(52), "stopped", stopping).await.unwrap();
    let record = world.record().await;
    assert_eq!((record.state, record.last_terms.len()), (RecordState::Free, 1));
    assert_eq!(elected.load(Ordering::Relaxed), 0, "never led");
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_a_hung_bid_one_calls_time_and_what_it_wins_later_is_given_back() {
    let world = World::new();
    let elected = Arc::new(AtomicUsize::new(0));
    let (a, handle) = counting(&world, &elected);
    world.sleep(secs(1)).await;
    world.within(CALL + TICK, "stopped", handle.stop()).await;
    assert!(world.now() >= secs(1) + CALL);
    a.faults.let_go();
    let b = world.candidate("b");
    let leadership = world.within(ms(100), "b leads", b.lead("e")).await.unwrap();
    assert_eq!(leadership.token().0, 2, "the late bid had won");
    world.sleep(secs(100)).await;
    assert!(leadership.is_leader());
    assert_eq!(elected.load(Ordering::Relaxed), 0, "never led");
}

#[tokio::test(start_paused = true)]
async fn stop_finds_out_what_became_of_a_bid_whose_answer_was_lost_and_gives_it_back() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::After(ErrorKind::Unavailable));
    a.faults.next(Verb::Release, Fault::Delay(ms(50)));
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    ears.until("the answer is lost", |_| true).await;
    assert_eq!(world.record().await.state, RecordState::Held);
    handle.stop().await;
    assert_eq!(world.record().await.state, RecordState::Free);
    assert_eq!(world.now(), ms(50));
}

#[tokio::test(start_paused = true)]
async fn stop_gives_back_a_lost_bid_even_if_another_attempt_of_it_hangs_for_ever() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::After(ErrorKind::Unavailable));
    a.faults.next(Verb::Acquire, Fault::Hang);
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    assert_eq!((a.faults.hung(), world.record().await.state), (1, RecordState::Held));
    handle.stop().await;
    assert!(world.now() <= secs(1) + CALL + TICK);
    assert_eq!(world.record().await.state, RecordState::Free);
    a.faults.let_go();
    world.sleep(secs(1)).await;
    assert_eq!(
        world.record().await.state,
        RecordState::Free,
        "the late attempt is refused: its term has ended"
    );
}

#[tokio::test(start_paused = true)]
async fn stop_while_a_lease_that_was_won_too_late_is_renewed_gives_it_back_before_it_returns() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::Hang);
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    a.faults.always(Verb::Renew, Fault::Delay(secs(1)));
    a.faults.always(Verb::Release, Fault::Delay(ms(50)));
    let handle = a.elector("e").start().unwrap();
    world.sleep(secs(40)).await;
    a.faults.let_go();
    world.sleep(ms(10)).await;
    assert_eq!(world.record().await.state, RecordState::Held, "won, too late to be led");
    assert_eq!(handle.status().terms, 0);
    handle.stop().await;
    assert_eq!(world.record().await.state, RecordState::Free);
    assert!(world.store.read(&election()).await.unwrap().unwrap().renew_total <= 1);
}
