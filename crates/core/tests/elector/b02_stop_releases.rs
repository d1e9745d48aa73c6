//! B2: `stop()` runs the end-of-term order and releases; the next candidate leads at once, or within a retry interval.

use std::sync::{Arc, Mutex};

use tenure_core::Settings;
use tenure_core::elector::{ElectorState, EndReason};
use tenure_core::store::{ErrorKind, LeaseStore, RecordState};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{CALL, RETRY, TICK, TTL, World, election, in_short, ms, mute, secs};

#[tokio::test(start_paused = true)]
async fn permission_ends_first_then_the_work_then_it_is_told_then_the_lease_is_free() {
    let world = World::new();
    let a = world.candidate("a");
    let log = Arc::new(Mutex::new(Vec::new()));
    let (at_end, store, clock) = (Arc::clone(&log), world.store.clone(), world.clock.clone());
    let permit = Arc::new(Mutex::new(None));
    let (given, asked) = (Arc::clone(&permit), Arc::clone(&permit));
    let handle = a
        .elector("e")
        .on_elected(move |leadership| {
            *given.lock().unwrap() = Some(leadership.permit());
            std::future::ready(Ok(()))
        })
        .on_term_end(move |reason| {
            let leads = asked.lock().unwrap().as_ref().unwrap().is_leader();
            let (log, store, clock) = (Arc::clone(&at_end), store.clone(), clock.clone());
            async move {
                log.lock().unwrap().push(format!("ending: {reason}, leads {leads}"));
                tenure_core::ClockExt::sleep(&clock, secs(2)).await;
                let state = store.read(&election()).await.unwrap().unwrap().state;
                log.lock().unwrap().push(format!("ended, {state:?}"));
                Ok(())
            }
        })
        .start()
        .unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    handle.stop().await;
    assert_eq!(world.now(), secs(2));
    assert_eq!(*log.lock().unwrap(), ["ending: stopped, leads false", "ended, Held"]);
    assert_eq!(world.record().await.state, RecordState::Free);
    assert_eq!(in_short(&ears.so_far()), ["elected 1", "term ended 1: stopped", "stopped"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_term_is_told_before_the_lease_is_given_back() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Release, Fault::Hang);
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    let stopping = tokio::spawn({
        let handle = handle.clone();
        async move { handle.stop().await }
    });
    ears.term_ended().await;
    assert_eq!(world.record().await.state, RecordState::Held);
    assert!(!handle.is_leader());
    a.faults.let_go();
    stopping.await.unwrap();
    assert_eq!(world.record().await.state, RecordState::Free);
}

#[tokio::test(start_paused = true)]
async fn the_next_candidate_is_woken_and_leads_at_once() {
    let world = World::new();
    let first = world.candidate("a").elector("e").start().unwrap();
    world.leads(&first).await;
    let next = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(7)).await;
    first.stop().await;
    world.leads(&next).await;
    assert_eq!(world.now(), secs(7));
    assert_eq!(next.status().token.0, 2);
}

#[tokio::test(start_paused = true)]
async fn where_nobody_wakes_the_next_candidate_it_leads_within_a_retry_interval() {
    for stop_at in [ms(100), ms(3_333), secs(7), ms(14_999), secs(61)] {
        let world = World::new();
        let muted = || mute(world.store.clone());
        let first = world.candidate_on(muted(), "a", Settings::ttl(TTL)).elector("e").start().unwrap();
        world.leads(&first).await;
        let next = world.candidate_on(muted(), "b", Settings::ttl(TTL)).elector("e").start().unwrap();
        world.sleep(stop_at).await;
        first.stop().await;
        world.within(RETRY + TICK, "led", world.leads(&next)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_never_arrived_is_sent_again_before_stop_returns() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Release, Fault::Before(ErrorKind::Unavailable));
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    handle.stop().await;
    assert_eq!(world.record().await.state, RecordState::Free);
    assert!(world.now() < ms(100), "{:?}", world.now());
    assert!(in_short(&ears.so_far()).contains(&"release failed 1 unavailable".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_was_lost_is_repeated_and_harms_nobody() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Release, Fault::After(ErrorKind::Timeout));
    let handle = a.elector("e").start().unwrap();
    world.leads(&handle).await;
    let next = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    handle.stop().await;
    world.leads(&next).await;
    world.sleep(secs(200)).await;
    assert_eq!((next.status().terms, next.status().state), (1, ElectorState::Leading));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_hangs_holds_stop_up_for_one_calls_time_and_goes_on_behind_it() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Release, Fault::Before(ErrorKind::Unavailable));
    a.faults.next(Verb::Release, Fault::Hang);
    let handle = a.elector("e").start().unwrap();
    world.leads(&handle).await;
    handle.stop().await;
    assert!((CALL..=CALL + TICK).contains(&world.now()), "{:?}", world.now());
    assert_eq!(world.record().await.state, RecordState::Held);
    a.faults.clear();
    world.within(RETRY * 2, "released behind", world.is_free()).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_of_run_ends_the_term_in_order() {
    let world = World::new();
    let a = world.candidate("a");
    let (told, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let elector = a.elector("e").on_term_end(move |reason| {
        told.send(reason).unwrap();
        std::future::ready(Ok(()))
    });
    let (started, starting) = tokio::sync::oneshot::channel();
    let mut started = Some(started);
    let running = tokio::spawn(elector.run(move |leadership| {
        started.take().unwrap().send(()).unwrap();
        async move { leadership.cancelled().await }
    }));
    starting.await.unwrap();
    running.abort();
    assert_eq!(world.within(secs(1), "ended", ended.recv()).await, Some(EndReason::Stopped));
    world.is_free().await;
    assert_eq!(world.now(), secs(0));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_arrives_in_a_later_term_frees_nothing() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Release, Fault::Late { give_up: None });
    let handle = a.elector("e").start().unwrap();
    world.leads(&handle).await;
    let next = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    handle.stop().await;
    world.leads(&next).await;
    assert!(world.now() >= TTL, "at the expiry");
    assert!(a.faults.deliver().await > 0);
    world.sleep(secs(100)).await;
    assert!(next.is_leader() && next.status().terms == 1);
}
