//! B8: one-shot leadership: try once, wait with a deadline, wait with cancellation; it renews itself, and dropping it
//! ends the term without blocking.

use tenure_core::LeadError;
use tenure_core::elector::StartError;
use tenure_core::store::{ErrorKind, RecordState};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{CALL, TICK, World, ms, secs};

#[tokio::test(start_paused = true)]
async fn trying_leads_a_free_election_and_answers_none_for_a_led_one_at_once() {
    let world = World::new();
    let leadership = world.candidate("a").try_lead("e").await.unwrap().expect("free");
    let b = world.candidate("b");
    assert!(b.try_lead("e").await.unwrap().is_none());
    assert!(b.try_lead("e").await.unwrap().is_none(), "the place is free again");
    assert_eq!(world.now(), secs(0));
    assert!(leadership.is_leader());
}

#[tokio::test(start_paused = true)]
async fn trying_on_a_store_that_gives_no_answer_is_an_error_after_two_calls_time() {
    for fault in [Fault::Before(ErrorKind::Unavailable), Fault::Hang, Fault::Before(ErrorKind::Denied)] {
        let world = World::new();
        let a = world.candidate("a");
        a.faults.always(Verb::Acquire, fault.clone());
        a.faults.always(Verb::Read, fault);
        let tried = world.within(CALL * 3 + TICK * 2, "an answer", a.try_lead("e")).await;
        assert!(matches!(tried, Err(LeadError::Store(_))), "{tried:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn trying_survives_one_lost_answer() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.next(Verb::Acquire, Fault::After(ErrorKind::Timeout));
    let leadership = a.try_lead("e").await.unwrap().expect("free");
    assert_eq!(leadership.token().0, 1);
}

#[tokio::test(start_paused = true)]
async fn waiting_with_a_deadline_ends_there() {
    let world = World::new();
    let _leadership = world.candidate("a").lead("e").await.unwrap();
    assert!(world.candidate("b").lead_within("e", secs(10)).await.unwrap().is_none());
    assert!((secs(10)..=secs(10) + TICK).contains(&world.now()), "{:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn waiting_with_a_deadline_leads_if_it_is_freed_before() {
    let world = World::new();
    let leadership = world.candidate("a").lead("e").await.unwrap();
    let b = world.candidate("b");
    let waiting = tokio::spawn(async move { b.lead_within("e", secs(10)).await });
    world.sleep(secs(9)).await;
    drop(leadership);
    let leadership = waiting.await.unwrap().unwrap().expect("freed in time");
    assert_eq!((world.now(), leadership.token().0), (secs(9), 2));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_store_that_gives_no_answer_is_an_error_at_the_deadline() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    a.faults.always(Verb::Read, Fault::Before(ErrorKind::Unavailable));
    let waited = a.lead_within("e", secs(60)).await;
    let Err(LeadError::Store(error)) = waited else { panic!("{waited:?}") };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("request was lost"), "{error}");
    assert!((secs(60)..=secs(60) + CALL + TICK).contains(&world.now()), "{:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_withdraws_the_bid_and_frees_the_place() {
    let world = World::new();
    let leadership = world.candidate("a").lead("e").await.unwrap();
    let b = world.candidate("b");
    tokio::select! {
        biased;
        _ = b.lead("e") => panic!("a leads"),
        () = world.sleep(secs(3)) => {}
    }
    drop(leadership);
    world.sleep(secs(1)).await;
    assert_eq!(world.record().await.state, RecordState::Free, "nobody waits any more");
    assert!(b.try_lead("e").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_with_a_bid_in_flight_gives_back_what_it_wins() {
    let world = World::new();
    let b = world.candidate("b");
    b.faults.next(Verb::Acquire, Fault::Delay(secs(1)));
    tokio::select! {
        biased;
        _ = b.lead("e") => panic!("not answered yet"),
        () = world.sleep(ms(500)) => {}
    }
    world.sleep(secs(1)).await;
    let record = world.record().await;
    assert_eq!((record.state, record.last_terms.len()), (RecordState::Free, 1));
}

#[tokio::test(start_paused = true)]
async fn it_renews_itself_and_dropping_the_last_clone_ends_the_term_without_blocking() {
    let world = World::new();
    let a = world.candidate("a");
    let leadership = a.lead("e").await.unwrap();
    let clone = leadership.clone();
    drop(leadership);
    world.sleep(secs(600)).await;
    assert!(clone.is_leader());
    let permit = clone.permit();
    a.faults.always(Verb::Release, Fault::Delay(secs(1)));
    // On a thread without any runtime: nothing is done there but a message.
    std::thread::spawn(move || drop(clone)).join().unwrap();
    permit.cancelled().await;
    assert!(!permit.is_leader());
    assert!(world.now() <= secs(600) + TICK, "no time has passed");
    world.is_free().await;
    assert!((secs(601)..=secs(601) + TICK * 3).contains(&world.now()));
}

#[tokio::test(start_paused = true)]
async fn a_term_that_was_lost_tells_its_holder_and_is_over_when_it_lets_go() {
    let world = World::new();
    let a = world.candidate("a");
    let leadership = a.lead("e").await.unwrap();
    world.sleep(secs(3)).await;
    world.take_away().await;
    world.within(ms(200), "cancelled", leadership.cancelled()).await;
    assert!(leadership.check().is_err());
    assert!(a.lead("e").await.is_err(), "not beside work that has not ended");
    drop(leadership);
    let again = world.within(secs(1), "again", async {
        loop {
            match a.lead("e").await {
                Ok(leadership) => return leadership,
                Err(_) => world.sleep(TICK).await,
            }
        }
    });
    assert_eq!(again.await.token().0, 2);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_an_error_when_the_elections_close() {
    let world = World::new();
    let _leadership = world.candidate("a").lead("e").await.unwrap();
    let b = world.candidate("b");
    let elections = (*b).clone();
    let waiting = tokio::spawn(async move { b.lead("e").await });
    world.sleep(secs(1)).await;
    elections.close().await;
    assert!(matches!(waiting.await.unwrap(), Err(LeadError::Stopped)));
    assert_eq!(world.now(), secs(1));
}

#[tokio::test(start_paused = true)]
async fn whoever_lets_go_and_leads_again_gets_the_next_term() {
    let world = World::new();
    let a = world.candidate("a");
    for term in 1..=5 {
        let leadership = a.lead("e").await.unwrap();
        assert_eq!(leadership.token().0, term);
        assert!(leadership.is_leader());
        drop(leadership);
    }
    let held = a.try_lead("e").await.unwrap().expect("free");
    // One that is held is not waited for.
    assert!(matches!(a.try_lead("e").await, Err(LeadError::Start(StartError::AlreadyStanding(_)))));
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_definite_error_is_the_answer_of_a_try_at_once() {
    let world = World::new();
    let a = world.candidate("a");
    for kind in [ErrorKind::Denied, ErrorKind::Invalid, ErrorKind::Corrupt] {
        a.faults.next(Verb::Acquire, Fault::Before(kind));
        let Err(LeadError::Store(error)) = a.try_lead("e").await else { panic!("{kind} is an answer") };
        assert_eq!(error.kind(), kind);
    }
    assert_eq!(world.now(), secs(0));
}
