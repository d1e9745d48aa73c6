//! B9: many elections in one process: one candidate, independent terms; closing refuses new ones, ends all terms,
//! releases all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_core::elector::{ElectorState, StartError};
use tenure_core::embedded::MemoryStore;
use tenure_core::store::{LeaseStore, Operator, RecordState};
use tenure_core::{CandidateId, ElectionName, Elections, ElectorHandle, ManualClock, Settings};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{Candidate, RENEW, TTL, World, count, secs};

const MANY: usize = 1000;

async fn lead_all(world: &World, a: &Candidate, many: usize) -> Vec<ElectorHandle> {
    let handles: Vec<_> = (0..many).map(|n| a.elector(format!("e{n}")).start().unwrap()).collect();
    for handle in &handles {
        world.leads(handle).await;
    }
    handles
}

/// Counts renew calls.
fn counter(a: &Candidate) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    a.faults.choose(move |verb, _| {
        counted.fetch_add(usize::from(verb == Verb::Renew), Ordering::Relaxed);
        None
    });
    calls
}

#[tokio::test(start_paused = true)]
async fn a_thousand_terms_are_kept_with_a_few_calls_each_renew_interval() {
    let world = World::new();
    let a = world.candidate("a");
    let handles = lead_all(&world, &a, MANY).await;
    let calls = counter(&a);
    world.sleep(RENEW * 30).await;
    assert!(handles.iter().all(|handle| handle.is_leader() && handle.status().terms == 1));
    assert!(handles.iter().all(|handle| (28..=30).contains(&handle.status().renewals)));
    let calls = calls.load(Ordering::Relaxed);
    assert!((28..=60).contains(&calls), "{calls} calls for 30 rounds");
    assert!(handles.iter().all(|handle| handle.status().candidate == world.id("a")));
}

#[tokio::test]
async fn a_full_call_of_renewals_does_not_wait_for_more() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    let settings = Settings::ttl(TTL).renew_interval(RENEW);
    let elections = Elections::builder(store).clock(Arc::new(clock.clone())).settings(settings).build();
    let handles: Vec<_> = (0..MANY).map(|n| elections.elector(format!("e{n}")).start().unwrap()).collect();
    for handle in &handles {
        handle.statuses().wait_for(|status| status.state == ElectorState::Leading).await.unwrap();
    }
    clock.wait_for_sleepers(MANY).await;
    // From here on the clock stands still: whoever waited for it would wait for ever.
    clock.advance(RENEW);
    for handle in &handles {
        handle.statuses().wait_for(|status| status.renewals == 1).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn one_term_that_is_lost_leaves_the_others_alone() {
    let world = World::new();
    let a = world.candidate("a");
    let others = lead_all(&world, &a, 20).await;
    let one = a.elector("e").start().unwrap();
    let mut ears = world.ears(&one);
    ears.elected().await;
    world.sleep(secs(11)).await;
    world.take_away().await;
    ears.elected().await;
    assert_eq!(one.status().terms, 2);
    one.stop().await;
    world.sleep(secs(100)).await;
    assert!(others.iter().all(|handle| handle.is_leader() && handle.status().terms == 1));
}

#[tokio::test(start_paused = true)]
async fn one_hung_call_costs_those_in_it_no_term_and_the_others_nothing() {
    let world = World::new();
    let a = world.candidate("a");
    let handles = lead_all(&world, &a, MANY + MANY / 2).await;
    let mut ears: Vec<_> = handles.iter().map(|handle| world.ears(handle)).collect();
    a.faults.next(Verb::Renew, Fault::Hang);
    world.sleep(RENEW * 5).await;
    assert_eq!(a.faults.hung(), 1);
    assert!(handles.iter().all(|handle| handle.is_leader() && handle.status().terms == 1));
    let failed = ears.iter_mut().map(|ears| count(&ears.so_far(), "renew failed")).collect::<Vec<_>>();
    assert!(failed.iter().all(|count| *count <= 1));
    assert_eq!(
        failed.iter().sum::<usize>(),
        MANY,
        "the calls are bounded, and only those in the hung one noticed"
    );
    a.faults.let_go();
    world.sleep(RENEW * 5).await;
    assert!(handles.iter().all(|handle| handle.is_leader() && handle.status().terms == 1));
}

#[tokio::test(start_paused = true)]
async fn closing_refuses_new_ones_ends_all_terms_and_releases_all() {
    let world = World::new();
    let a = world.candidate("a");
    let handles = lead_all(&world, &a, MANY).await;
    let clock = world.clock.clone();
    let slow = a.elector("slow").on_term_end(move |_| {
        let sleep = tenure_core::ClockExt::sleep(&clock, secs(3));
        async move {
            sleep.await;
            Ok(())
        }
    });
    let slow = slow.start().unwrap();
    world.leads(&slow).await;
    let closing = tokio::spawn({
        let elections = (*a).clone();
        async move { elections.close().await }
    });
    world.sleep(secs(1)).await;
    assert!(matches!(a.elector("new").start(), Err(StartError::Closing)));
    assert!(a.try_lead("new").await.is_err());
    assert!(!closing.is_finished(), "work is waited for");
    closing.await.unwrap();
    assert_eq!(world.now(), secs(3));
    assert!(handles.iter().all(|handle| handle.status().state == ElectorState::Stopped));
    let names = world.store.list("").await.unwrap();
    assert_eq!(names.len(), MANY + 1);
    for name in names {
        assert_eq!(world.store.read(&name).await.unwrap().unwrap().state, RecordState::Free);
    }
    a.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_starts_while_it_closes_is_refused_or_stopped() {
    for round in 0..500 {
        let id = CandidateId::new(format!("b09 closing {round}")).unwrap();
        let elections = Elections::builder(MemoryStore::new()).candidate(id).build();
        let other = elections.clone();
        let starting = tokio::spawn(async move { other.elector("e").start() });
        elections.close().await;
        if let Ok(handle) = starting.await.unwrap() {
            // It came first, so that closing waited for its end.
            assert_eq!(handle.status().state, ElectorState::Stopped, "round {round}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn releasing_by_name_ends_that_term_in_order_and_no_other() {
    let world = World::new();
    let a = world.candidate("a");
    let handles = lead_all(&world, &a, 2).await;
    assert!(a.release("e0").await);
    assert!(!a.release("e0").await && !a.release("unknown").await);
    let name = ElectionName::new("e0").unwrap();
    assert_eq!(world.store.read(&name).await.unwrap().unwrap().state, RecordState::Free);
    assert!(!handles[0].is_leader() && handles[1].is_leader());
}
