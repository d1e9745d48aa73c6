//! B25: a second Elector for the same election in one process is an error.

use tenure_core::elector::{RunError, StartError};
use tenure_core::embedded::MemoryStore;
use tenure_core::{Elections, Elector, LeadError};

use crate::world::{World, secs};

#[tokio::test(start_paused = true)]
async fn a_second_elector_is_refused_by_any_door_and_harms_the_first_in_no_way() {
    let world = World::new();
    let a = world.candidate("a");
    let first = a.elector("e").start().unwrap();
    world.leads(&first).await;
    assert!(matches!(a.elector("e").start(), Err(StartError::AlreadyStanding(_))));
    for refused in [a.lead("e").await.map(Some), a.try_lead("e").await, a.lead_within("e", secs(10)).await] {
        assert!(matches!(refused, Err(LeadError::Start(StartError::AlreadyStanding(_)))), "{refused:?}");
    }
    let refused = a.elector("e").run(|_| async {}).await;
    assert!(matches!(refused, Err(RunError::Start(StartError::AlreadyStanding(_)))));
    assert_eq!(world.now(), secs(0));
    world.sleep(secs(100)).await;
    assert!(first.is_leader() && first.status().terms == 1);
    first.stop().await;
    a.elector("e").start().unwrap().stop().await;
}

#[tokio::test(start_paused = true)]
async fn other_elections_and_other_candidates_have_their_own_places() {
    let world = World::new();
    let (a, b) = (world.candidate("a"), world.candidate("b"));
    let handles = [a.elector("e").start(), a.elector("f").start(), b.elector("e").start()];
    assert!(handles.iter().all(Result::is_ok));
}

#[tokio::test]
async fn one_process_is_one_candidate_whatever_it_is_made_from() {
    let store = MemoryStore::new();
    let first = Elector::new(store.clone(), "b25 process").start().unwrap();
    let second = Elections::new(store.clone());
    assert!(matches!(second.elector("b25 process").start(), Err(StartError::AlreadyStanding(_))));
    assert!(matches!(Elector::new(store, "b25 process").start(), Err(StartError::AlreadyStanding(_))));
    first.stop().await;
    second.elector("b25 process").start().unwrap().stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_closes_or_releases_ends_only_what_it_started() {
    let store = MemoryStore::new();
    let (mine, others) = (Elections::new(store.clone()), Elections::new(store));
    let (own, foreign) = (mine.lead("b25 own").await.unwrap(), others.lead("b25 foreign").await.unwrap());
    assert!(!mine.release("b25 foreign").await && !others.release("b25 own").await);
    drop(own);
    mine.close().await;
    assert!(foreign.is_leader());
    drop(foreign);
    others.close().await;
}

#[tokio::test(start_paused = true)]
async fn the_same_name_on_another_store_is_another_election() {
    let (first, second) = (MemoryStore::new(), MemoryStore::new());
    let one = Elections::new(first.clone()).lead("shared name").await.unwrap();
    let two = Elections::new(second).lead("shared name").await.unwrap();
    assert!(one.is_leader() && two.is_leader());
    let again = Elections::new(first).try_lead("shared name").await;
    assert!(matches!(again, Err(LeadError::Start(StartError::AlreadyStanding(_)))));
}

#[tokio::test(start_paused = true)]
async fn whoever_gave_up_waiting_may_lead_again_at_once() {
    let world = World::new();
    let held = world.candidate("a").lead("e").await.unwrap();
    let b = world.candidate("b");
    for _ in 0..5 {
        assert!(futures_util::FutureExt::now_or_never(b.lead("e")).is_none());
        assert!(b.try_lead("e").await.unwrap().is_none());
    }
    drop(held);
    b.lead("e").await.unwrap();
}
