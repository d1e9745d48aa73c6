//! B14: events come in order, each term exactly `Elected … TermEnded`; a listener that never reads delays nothing and
//! learns how many it missed.

use tenure_core::elector::{EventKind, Heard};
use tenure_core::store::{ErrorKind, Operator, Pause};
use tenure_core::{Attempt, Random};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{RETRY, World, count, election, in_short, ms, secs};

#[tokio::test(start_paused = true)]
async fn each_term_is_told_from_elected_to_its_end_and_nothing_follows_stopped() {
    let world = World::new();
    let a = world.candidate("a");
    let b = world.candidate("b").elector("e").start().unwrap();
    world.leads(&b).await;
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.sleep(secs(1)).await;
    b.stop().await;
    world.leads(&handle).await;
    world.sleep(secs(9)).await;
    a.faults.next(Verb::Renew, Fault::Before(ErrorKind::Timeout));
    world.sleep(secs(20)).await;
    world.take_away().await;
    world.sleep(secs(20)).await;
    handle.resign(None).await.unwrap();
    world.sleep(secs(20)).await;
    handle.stop().await;
    let events = ears.so_far();
    let wanted = [
        "leader b",
        "leader -",
        "elected 2",
        "renew failed 2 timeout",
        "leader -",
        "term ended 2: lost",
        "elected 3",
        "term ended 3: resigned",
        "elected 4",
        "term ended 4: stopped",
        "stopped",
    ];
    assert_eq!(in_short(&events), wanted);
    let first = events[0].sequence;
    assert!(events.iter().zip(first..).all(|(event, wanted)| event.sequence == wanted));
    assert!(events.is_sorted_by_key(|event| event.at));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_goes_on_failing_behind_a_stopped_elector_is_no_event_of_it() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Release, Fault::Before(ErrorKind::Unavailable));
    let handle = a.elector("e").start().unwrap();
    let mut events = handle.events();
    world.leads(&handle).await;
    handle.stop().await;
    let failed = a.faults.injected(Verb::Release);
    world.sleep(secs(60)).await;
    assert!(a.faults.injected(Verb::Release) > failed, "it goes on");
    let mut last = None;
    while let Some(heard) = events.next().await {
        last = Some(heard);
    }
    assert!(matches!(last, Some(Heard::Event(event)) if matches!(event.kind, EventKind::Stopped)));
    assert!(events.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn why_nobody_is_elected_is_told_once() {
    let world = World::new();
    let random = Random::from_seed(1);
    let pause = || Pause { by: "ops".into(), ends_in: secs(600) };
    world.store.pause(&election(), Attempt::new(&random), pause()).await.unwrap();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.sleep(secs(60)).await;
    world.store.pause(&election(), Attempt::new(&random), pause()).await.unwrap();
    world.sleep(secs(60)).await;
    world.store.resume(&election(), Attempt::new(&random)).await.unwrap();
    world.leads(&handle).await;
    assert_eq!(in_short(&ears.so_far()), ["waiting: Paused for 600s", "elected 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_never_reads_delays_nothing_and_learns_what_it_missed() {
    let world = World::new();
    let a = world.candidate("a");
    a.faults.always(Verb::Acquire, Fault::Before(ErrorKind::Unavailable));
    let handle = a.elector("e").start().unwrap();
    let mut deaf = handle.events();
    world.sleep(RETRY * 2 * 1200).await;
    let published = a.faults.injected(Verb::Acquire);
    assert!(published > 1100, "{published}");
    a.faults.clear();
    let before = world.now();
    world.leads(&handle).await;
    assert!(world.now() <= before + RETRY * 5 / 4 + ms(1));
    handle.stop().await;
    let Some(Heard::Missed(missed)) = deaf.next().await else { panic!("nothing was missed") };
    let mut heard = Vec::new();
    while let Some(Heard::Event(event)) = deaf.next().await {
        heard.push(event);
    }
    assert_eq!(missed + heard.len() as u64, published + 3, "bids failed, elected, ended, stopped");
    assert_eq!(count(&heard, "term ended 1: stopped"), 1);
    assert!(heard.iter().zip(missed..).all(|(event, wanted)| event.sequence == wanted));
}

#[tokio::test(start_paused = true)]
async fn a_slow_listener_of_statuses_delays_nothing() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let clock = world.clock.clone();
    handle.on_change(move |_| tenure_core::ClockExt::sleep(&clock, secs(1000)));
    world.sleep(secs(300)).await;
    assert!(handle.is_leader());
    handle.stop().await;
    assert_eq!(world.now(), secs(300));
}
