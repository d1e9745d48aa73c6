//! B6: callbacks that fail or panic are reported; those of two terms never overlap; `on_term_end` is always called and
//! awaited before the release; `on_lost` is for losses only.

use std::sync::{Arc, Mutex};

use tenure_core::elector::{CallbackError, EndReason, OnElectedFailure, RunError};
use tenure_core::store::{ErrorKind, RecordState};
use tenure_core::{ClockExt, Elector, Settings};
use tenure_testkit::VirtualClock;
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{RETRY, TTL, World, count, in_short, ms, secs};

/// How a callback goes wrong.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Fails,
    Panics,
    PanicsBeforeItsFuture,
}

const ALL_WRONG: [Wrong; 3] = [Wrong::Fails, Wrong::Panics, Wrong::PanicsBeforeItsFuture];

fn go_wrong(wrong: Wrong) -> impl Future<Output = Result<(), CallbackError>> + Send {
    assert!(!matches!(wrong, Wrong::PanicsBeforeItsFuture), "boom");
    async move {
        assert!(!matches!(wrong, Wrong::Panics), "boom");
        Err::<(), CallbackError>("boom".into())
    }
}

#[tokio::test(start_paused = true)]
async fn on_elected_that_goes_wrong_is_reported_and_the_term_is_kept() {
    for wrong in ALL_WRONG {
        let world = World::new();
        let handle = world.candidate("a").elector("e").on_elected(move |_| go_wrong(wrong)).start().unwrap();
        let mut ears = world.ears(&handle);
        world.sleep(secs(60)).await;
        assert!(handle.is_leader());
        let events = ears.so_far();
        assert_eq!(events.len(), 2, "{:?}", in_short(&events));
        let told = &in_short(&events)[1];
        assert!(told.starts_with("on_elected failed 1: ") && told.ends_with("boom"), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn on_elected_that_goes_wrong_gives_the_term_to_another_if_asked_to() {
    for wrong in ALL_WRONG {
        let world = World::new();
        let settings = Settings::ttl(TTL).on_elected_failure(OnElectedFailure::Resign);
        let a = world.candidate_with("a", settings).elector("e").on_elected(move |_| go_wrong(wrong));
        let a = a.start().unwrap();
        let mut ears = world.ears(&a);
        let b = world.candidate("b").elector("e").start().unwrap();
        world.leads(&b).await;
        assert_eq!(world.now(), secs(0), "at once");
        let events = in_short(&ears.until("ended", |_| true).await);
        assert_eq!(events, ["elected 1"]);
        let events = in_short(&ears.term_ended().await);
        assert_eq!(events.last().unwrap(), "term ended 1: on_elected failed");
        world.sleep(secs(20)).await;
        b.stop().await;
        let events = ears.elected().await;
        assert_eq!(in_short(&events).last().unwrap(), "elected 3", "it stands again");
    }
}

#[tokio::test(start_paused = true)]
async fn alone_it_stands_again_after_a_retry_interval_when_on_elected_went_wrong() {
    let world = World::new();
    let settings = Settings::ttl(TTL).on_elected_failure(OnElectedFailure::Resign);
    let a = world.candidate_with("a", settings).elector("e").on_elected(|_| go_wrong(Wrong::Fails));
    let a = a.start().unwrap();
    let mut ears = world.ears(&a);
    ears.elected().await;
    let again = ears.elected().await;
    assert!(world.time_of(again.last().unwrap()) >= RETRY);
}

#[tokio::test(start_paused = true)]
async fn the_other_callbacks_that_go_wrong_are_reported_and_the_campaign_goes_on() {
    for wrong in ALL_WRONG {
        let world = World::new();
        let elector = world.candidate("a").elector("e");
        let elector = elector.on_lost(move |_| go_wrong(wrong)).on_term_end(move |_| go_wrong(wrong));
        let handle = elector.start().unwrap();
        let mut ears = world.ears(&handle);
        ears.elected().await;
        world.take_away().await;
        let events = ears.term_ended().await;
        assert_eq!((count(&events, "on_lost failed 1"), count(&events, "on_term_end failed 1")), (1, 1));
        ears.elected().await;
        handle.stop().await;
        assert_eq!(count(&ears.so_far(), "on_term_end failed 2"), 1);
        assert_eq!(world.record().await.state, RecordState::Free);
    }
}

/// Writes down when each callback begins and ends, and takes its time.
fn slow(elector: Elector, log: &Arc<Mutex<Vec<String>>>, clock: &VirtualClock) -> Elector {
    let note = |what: &'static str, takes: u64| {
        let (log, clock) = (Arc::clone(log), clock.clone());
        move || {
            let (log, clock) = (Arc::clone(&log), clock.clone());
            async move {
                log.lock().unwrap().push(format!("{what} begins"));
                clock.sleep(secs(takes)).await;
                log.lock().unwrap().push(format!("{what} ends"));
                Ok::<(), CallbackError>(())
            }
        }
    };
    let (elected, lost, ended) = (note("elected", 1), note("lost", 2), note("term_end", 3));
    elector.on_elected(move |_| elected()).on_lost(move |_| lost()).on_term_end(move |_| ended())
}

#[tokio::test(start_paused = true)]
async fn callbacks_of_two_terms_never_overlap() {
    let world = World::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let elector = slow(world.candidate("a").elector("e"), &log, &world.clock);
    let handle = elector.start().unwrap();
    let mut ears = world.ears(&handle);
    for _ in 0..2 {
        ears.elected().await;
        world.sleep(secs(12)).await;
        world.take_away().await;
    }
    ears.elected().await;
    handle.stop().await;
    let term =
        ["elected begins", "elected ends", "lost begins", "term_end begins", "lost ends", "term_end ends"];
    let stopped = ["elected begins", "term_end begins", "elected ends", "term_end ends"];
    let wanted: Vec<_> = term.iter().chain(&term).chain(&stopped).map(ToString::to_string).collect();
    assert_eq!(*log.lock().unwrap(), wanted);
}

#[tokio::test(start_paused = true)]
async fn work_of_a_term_is_over_before_on_elected_of_the_next_is_called() {
    let world = World::new();
    let running = Arc::new(Mutex::new(0));
    let most = Arc::new(Mutex::new(0));
    let (clock, present, highest) = (world.clock.clone(), Arc::clone(&running), Arc::clone(&most));
    let handle = world
        .candidate("a")
        .elector("e")
        .on_elected(move |leadership| {
            let (clock, present, highest) = (clock.clone(), Arc::clone(&present), Arc::clone(&highest));
            *present.lock().unwrap() += 1;
            let now = *present.lock().unwrap();
            let before = *highest.lock().unwrap();
            *highest.lock().unwrap() = before.max(now);
            // Out of the elector's reach: it can only be waited for.
            tokio::spawn(async move {
                leadership.cancelled().await;
                clock.sleep(secs(20)).await;
                *present.lock().unwrap() -= 1;
                drop(leadership);
            });
            std::future::ready(Ok(()))
        })
        .start()
        .unwrap();
    let mut ears = world.ears(&handle);
    for _ in 0..3 {
        ears.elected().await;
        world.sleep(secs(11)).await;
        world.take_away().await;
        ears.term_ended().await;
    }
    assert_eq!(*most.lock().unwrap(), 1);
}

/// What the callbacks were told, in one term that `end` ends.
async fn told(
    end: impl AsyncFnOnce(&World, &tenure_core::ElectorHandle, &crate::world::Candidate),
) -> Vec<String> {
    let world = World::new();
    let a = world.candidate("a");
    let log = Arc::new(Mutex::new(Vec::new()));
    let (lost, ended) = (Arc::clone(&log), Arc::clone(&log));
    let handle = a
        .elector("e")
        .on_lost(move |reason| {
            lost.lock().unwrap().push(format!("lost: {reason}"));
            std::future::ready(Ok(()))
        })
        .on_term_end(move |reason| {
            ended.lock().unwrap().push(format!("ended: {reason}"));
            std::future::ready(Ok(()))
        })
        .start()
        .unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    world.sleep(secs(11)).await;
    end(&world, &handle, &a).await;
    ears.term_ended().await;
    log.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn on_term_end_hears_of_every_end_and_on_lost_of_losses_only() {
    assert_eq!(told(async |_, handle, _| handle.stop().await).await, ["ended: stopped"]);
    assert_eq!(told(async |_, handle, _| handle.resign(None).await.unwrap()).await, ["ended: resigned"]);
    let handed = told(async |world, handle, _| handle.handoff(world.id("b")).await.unwrap()).await;
    assert!(handed.len() == 1 && handed[0].starts_with("ended: handed off to b"), "{handed:?}");
    let lost = told(async |world, _, _| world.take_away().await).await;
    assert_eq!(lost, ["lost: lost", "ended: lost"]);
    let silent =
        told(async |_, _, a| a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable))).await;
    assert_eq!(silent, ["lost: deadline passed", "ended: deadline passed"]);
}

#[tokio::test(start_paused = true)]
async fn on_term_end_hears_that_the_work_of_run_ended_and_run_returns_what_it_made() {
    let world = World::new();
    let log = Arc::new(Mutex::new(Vec::new()));
    let ended = Arc::clone(&log);
    let elector = world.candidate("a").elector("e").on_term_end(move |reason: EndReason| {
        ended.lock().unwrap().push(reason);
        std::future::ready(Ok(()))
    });
    let clock = world.clock.clone();
    let made = elector.run(move |leadership| {
        let clock = clock.clone();
        async move {
            clock.sleep(secs(100)).await;
            leadership.token().0
        }
    });
    assert_eq!(made.await.unwrap(), 1);
    assert_eq!(*log.lock().unwrap(), [EndReason::WorkEnded]);
    assert_eq!(world.record().await.state, RecordState::Free);
}

#[tokio::test(start_paused = true)]
async fn run_reports_a_panic_and_gives_the_lease_back() {
    let world = World::new();
    let early = world.candidate("a").elector("e").run(|_| -> std::future::Ready<()> { panic!("boom") });
    let late = world.candidate("b").elector("e").run(|_| async { panic!("boom") });
    assert_eq!(early.await, Err(RunError::Panicked("panicked: boom".into())));
    let never: Result<(), _> = late.await;
    assert_eq!(never, Err(RunError::Panicked("panicked: boom".into())));
    assert_eq!(world.record().await.state, RecordState::Free);
}

#[tokio::test(start_paused = true)]
async fn run_calls_the_work_anew_in_the_next_term_after_a_loss() {
    let world = World::new();
    let mut terms = 0;
    let (sender, mut began) = tokio::sync::mpsc::unbounded_channel();
    let running = tokio::spawn(world.candidate("a").elector("e").run(move |leadership| {
        terms += 1;
        sender.send(terms).unwrap();
        let term = terms;
        async move {
            if term == 1 {
                leadership.cancelled().await;
            }
            (term, leadership.token().0)
        }
    }));
    assert_eq!(world.within(secs(60), "called", began.recv()).await, Some(1));
    world.sleep(ms(11_000)).await;
    world.take_away().await;
    assert_eq!(world.within(secs(60), "run", running).await.unwrap().unwrap(), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn what_run_makes_when_its_term_has_ended_is_no_result() {
    let world = World::new();
    let a = world.candidate("a");
    let (sender, mut began) = tokio::sync::mpsc::unbounded_channel();
    let running = tokio::spawn(a.elector("e").run(move |leadership| {
        sender.send(()).unwrap();
        async move {
            if leadership.token().0 == 1 {
                leadership.cancelled().await;
            }
            leadership.token().0
        }
    }));
    began.recv().await.unwrap();
    a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    let made = world.within(secs(60), "the next term", running).await.unwrap().unwrap();
    assert_eq!(made, 2);
}
