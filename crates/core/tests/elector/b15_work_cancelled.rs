//! B15: work is told at the deadline, at most `latency` late; work that ignores it is reported, and the lease is never
//! released under it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_core::elector::{ElectorState, OnOverrun};
use tenure_core::store::{ErrorKind, RecordState};
use tenure_core::{ClockExt, ElectorHandle, Leadership, Settings};
use tenure_testkit::fault::{Fault, Verb};

use crate::world::{
    Candidate, DRAIN, LATENCY, MUST_STOP, TICK, TRUST, TTL, World, count, in_short, ms, secs,
};

/// Starts an elector whose leadership is held outside of its reach.
pub(crate) async fn held_outside(world: &World, a: &Candidate) -> (ElectorHandle, Leadership) {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let elector = a.elector("e").on_elected(move |leadership| {
        drop(sender.send(leadership));
        std::future::ready(Ok(()))
    });
    let handle = elector.start().unwrap();
    let leadership = world.within(secs(60), "elected", receiver.recv()).await.unwrap();
    (handle, leadership)
}

/// Counts releases that were sent.
pub(crate) fn releases(a: &Candidate) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    a.faults.choose(move |verb, _| {
        counted.fetch_add(usize::from(verb == Verb::Release), Ordering::Relaxed);
        None
    });
    calls
}

fn silence(a: &Candidate) {
    for verb in [Verb::Acquire, Verb::Renew, Verb::Release, Verb::Read] {
        a.faults.always(verb, Fault::Hang);
    }
}

#[tokio::test(start_paused = true)]
async fn work_is_told_at_the_deadline_when_the_store_is_silent() {
    let world = World::new();
    let a = world.candidate("a");
    let (_handle, leadership) = held_outside(&world, &a).await;
    silence(&a);
    leadership.cancelled().await;
    assert!((TRUST..=TRUST + LATENCY).contains(&world.now()), "{:?}", world.now());
    assert!(world.now() <= TRUST + TICK);
}

#[tokio::test(start_paused = true)]
async fn work_that_stops_when_told_is_not_killed() {
    let world = World::new();
    let clock = world.clock.clone();
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let elector = world.candidate("a").elector("e").on_elected(move |leadership| {
        let (clock, sender) = (clock.clone(), sender.clone());
        async move {
            leadership.cancelled().await;
            clock.sleep(DRAIN - ms(10)).await;
            sender.send("ended by itself").unwrap();
            Ok(())
        }
    });
    let handle = elector.start().unwrap();
    world.leads(&handle).await;
    handle.stop().await;
    assert_eq!(ended.try_recv(), Ok("ended by itself"));
    assert!((DRAIN - ms(10)..DRAIN).contains(&world.now()));
}

/// Tells when it is dropped.
struct Dropped(tokio::sync::mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_stop_when_told_is_dropped_after_the_drain_timeout_and_then_it_is_released() {
    let world = World::new();
    let a = world.candidate("a");
    let (sender, mut dropped) = tokio::sync::mpsc::unbounded_channel();
    let elector = a.elector("e").on_elected(move |leadership| {
        let dropped = Dropped(sender.clone());
        async move {
            std::future::pending::<()>().await;
            drop((leadership, dropped));
            Ok(())
        }
    });
    let handle = elector.start().unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    handle.stop().await;
    assert_eq!(dropped.try_recv(), Ok(()));
    assert!((DRAIN..=DRAIN + TICK).contains(&world.now()), "{:?}", world.now());
    assert_eq!(in_short(&ears.so_far()), ["elected 1", "term ended 1: stopped", "stopped"]);
    assert_eq!(world.record().await.state, RecordState::Free);
}

#[tokio::test(start_paused = true)]
async fn work_that_does_not_stop_at_the_deadline_is_dropped_before_another_can_lead() {
    let world = World::new();
    let a = world.candidate("a");
    let (sender, mut dropped) = tokio::sync::mpsc::unbounded_channel();
    let elector = a.elector("e").on_elected(move |leadership| {
        let dropped = Dropped(sender.clone());
        async move {
            std::future::pending::<()>().await;
            drop((leadership, dropped));
            Ok(())
        }
    });
    let handle = elector.start().unwrap();
    world.leads(&handle).await;
    let b = world.candidate("b").elector("e").start().unwrap();
    silence(&a);
    world.within(secs(60), "dropped", dropped.recv()).await;
    assert!((MUST_STOP..=MUST_STOP + TICK).contains(&world.now()), "{:?}", world.now());
    world.leads(&b).await;
    assert!(world.now() >= TTL);
}

#[tokio::test(start_paused = true)]
async fn work_that_cannot_be_dropped_is_reported_and_the_lease_is_not_released_under_it() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    let released = releases(&a);
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    let stopping = tokio::spawn({
        let handle = handle.clone();
        async move { handle.stop().await }
    });
    let events =
        ears.until("overrun", |kind| matches!(kind, tenure_core::elector::EventKind::Overrun { .. })).await;
    let at = world.time_of(events.last().unwrap());
    assert!((secs(1) + DRAIN..=secs(1) + DRAIN + LATENCY + TICK).contains(&at), "{at:?}");
    world.sleep(secs(600)).await;
    assert_eq!((released.load(Ordering::Relaxed), b.status().terms), (0, 0));
    assert_eq!(world.record().await.leader().unwrap().candidate, world.id("a"));
    assert!(handle.status().overrun && !handle.is_leader() && !leadership.is_leader());
    assert_eq!(handle.status().state, ElectorState::Draining);
    drop(leadership);
    stopping.await.unwrap();
    world.leads(&b).await;
    let events = ears.so_far();
    assert_eq!((count(&events, "overrun"), count(&events, "term ended 1: stopped")), (0, 1), "told once");
}

#[tokio::test(start_paused = true)]
async fn work_that_overruns_while_the_store_is_silent_is_reported_too() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    silence(&a);
    let events =
        ears.until("overrun", |kind| matches!(kind, tenure_core::elector::EventKind::Overrun { .. })).await;
    let at = world.time_of(events.last().unwrap());
    assert!((MUST_STOP..=MUST_STOP + LATENCY + TICK).contains(&at), "{at:?}");
    drop(leadership);
    let events = ears.term_ended().await;
    assert_eq!(in_short(&events).last().unwrap(), "term ended 1: deadline passed");
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_left_to_expire_under_work_that_overruns_if_that_was_asked_for() {
    let world = World::new();
    let a = world.candidate_with("a", Settings::ttl(TTL).on_overrun(OnOverrun::Expire));
    let (handle, leadership) = held_outside(&world, &a).await;
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    handle.resign(None).now_or_pending();
    world.leads(&b).await;
    assert!((TTL..=TTL + secs(11)).contains(&world.now()), "{:?}", world.now());
    assert!(!leadership.is_leader() && handle.status().overrun);
    world.sleep(secs(100)).await;
    assert_eq!(handle.status().terms, 1, "it does not stand beside its own work");
}

/// Sends a command without waiting for its end.
trait Send1 {
    fn now_or_pending(self);
}

impl<F: Future<Output = Result<(), tenure_core::elector::CommandError>>> Send1 for F {
    fn now_or_pending(self) {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(std::pin::pin!(self).poll(&mut context).is_pending());
    }
}

#[tokio::test(start_paused = true)]
async fn every_runs_at_once_then_each_period_and_ends_with_the_term() {
    let world = World::new();
    let leadership = world.candidate("a").lead("e").await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let clock = world.clock.clone();
    let ticking = tokio::spawn(async move {
        let task = || {
            counted.fetch_add(1, Ordering::Relaxed);
            clock.sleep(ms(300))
        };
        leadership.every(secs(1), task).await;
    });
    world.sleep(ms(10_500)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 11, "at 0, 1, … 10 s");
    world.take_away().await;
    world.within(ms(200), "over", ticking).await.unwrap();
    let so_far = runs.load(Ordering::Relaxed);
    world.sleep(secs(10)).await;
    assert_eq!(runs.load(Ordering::Relaxed), so_far);
}

#[tokio::test(start_paused = true)]
async fn every_with_no_period_leaves_the_others_a_turn() {
    let world = World::new();
    let leadership = world.candidate("a").lead("e").await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let ticking = tokio::spawn(async move {
        let task = || {
            counted.fetch_add(1, Ordering::Relaxed);
            std::future::ready(())
        };
        leadership.every(Duration::ZERO, task).await;
    });
    world.sleep(ms(100)).await;
    let so_far = runs.load(Ordering::Relaxed);
    assert!((2..=101).contains(&so_far), "{so_far} runs in 100 ms: at most one in a millisecond");
    world.take_away().await;
    world.within(ms(200), "over", ticking).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_does_not_make_up_for_runs_that_took_too_long_and_drops_one_that_outlasts_the_term() {
    let world = World::new();
    let leadership = world.candidate("a").lead("e").await.unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let (counted, clock) = (Arc::clone(&runs), world.clock.clone());
    let ticking = tokio::spawn(async move {
        let task = || {
            counted.fetch_add(1, Ordering::Relaxed);
            clock.sleep(ms(2_500))
        };
        leadership.every(secs(1), task).await;
    });
    world.sleep(ms(7_100)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 3, "at 0, 3.5 and 7 s");
    world.take_away().await;
    world.within(ms(200), "over", ticking).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_denied_renewal_keeps_permission_to_the_deadline_and_not_longer() {
    let world = World::new();
    let a = world.candidate("a");
    let (_handle, leadership) = held_outside(&world, &a).await;
    a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Denied));
    leadership.cancelled().await;
    assert!((TRUST..=TRUST + TICK).contains(&world.now()));
}
