use std::task::Wake;

use super::*;
use crate::clock::ClockExt;

const SECOND: Duration = Duration::from_secs(1);

fn poll(sleep: &mut Sleep) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_clock_stands_still_until_it_is_moved_and_its_clones_move_with_it() {
    let clock = ManualClock::new();
    let clone = clock.clone();
    let (now, wall) = (clock.now(), clock.wall());
    assert_eq!((clone.now(), clone.wall()), (now, wall));
    clock.advance(5 * SECOND);
    assert_eq!(clone.now(), now.plus(5 * SECOND));
    assert_eq!(clone.wall(), wall + 5 * SECOND);
    assert_eq!(ManualClock::default().now(), now, "another clock starts at the same time, on its own");
}

#[test]
fn a_sleeper_completes_when_its_moment_is_reached_and_not_before() {
    let clock = ManualClock::new();
    let mut sleep = clock.sleep(10 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.advance(10 * SECOND - Duration::from_nanos(1));
    assert!(poll(&mut sleep).is_pending());
    clock.advance(Duration::from_nanos(1));
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_suspend_moves_the_boot_clock_alone_and_completes_who_is_due() {
    let clock = ManualClock::new();
    let (now, wall) = (clock.now(), clock.wall());
    let mut sleep = clock.sleep(10 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.suspend(3600 * SECOND);
    assert!(poll(&mut sleep).is_ready());
    assert_eq!(clock.now(), Moment::new(now.boot() + 3600 * SECOND, now.raw()));
    assert_eq!(clock.wall(), wall + 3600 * SECOND);
}

#[test]
fn a_slewed_boot_clock_holds_nobody_longer_than_the_raw_clock() {
    let clock = ManualClock::new();
    let mut sleep = clock.sleep(10 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    clock.advance_each(9 * SECOND, 10 * SECOND);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn the_wall_clock_steps_alone() {
    let clock = ManualClock::new();
    let now = clock.now();
    let mut sleep = clock.sleep(10 * SECOND);
    assert!(poll(&mut sleep).is_pending());
    let wall = SystemTime::UNIX_EPOCH + 86_400 * SECOND;
    clock.set_wall(wall);
    assert_eq!(clock.wall(), wall);
    assert_eq!(clock.now(), now);
    assert!(poll(&mut sleep).is_pending());
}

#[test]
fn sleepers_are_woken_in_the_order_of_their_moments() {
    struct Witness(u64, Arc<Mutex<Vec<u64>>>);
    impl Wake for Witness {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    let (clock, woken) = (ManualClock::new(), Arc::<Mutex<Vec<u64>>>::default());
    let _sleeps: Vec<_> = [3, 1, 9, 2]
        .into_iter()
        .map(|after| {
            let mut sleep = clock.sleep(SECOND * u32::try_from(after).unwrap());
            let waker = Arc::new(Witness(after, Arc::clone(&woken))).into();
            assert!(sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            sleep
        })
        .collect();
    clock.advance(5 * SECOND);
    assert_eq!(*woken.lock().unwrap(), [1, 2, 3]);
    clock.advance(5 * SECOND);
    assert_eq!(*woken.lock().unwrap(), [1, 2, 3, 9]);
}

#[test]
fn only_who_waits_is_counted() {
    let clock = ManualClock::new();
    let (mut first, mut second) = (clock.sleep(SECOND), clock.sleep(2 * SECOND));
    assert_eq!(clock.sleepers(), 0, "not polled");
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    assert!(poll(&mut first).is_pending(), "polled twice, counted once");
    assert_eq!(clock.sleepers(), 2);
    clock.advance(SECOND);
    assert_eq!(clock.sleepers(), 1, "the first is due");
    drop(second);
    assert_eq!(clock.sleepers(), 0, "the second was given up");
    assert!(poll(&mut first).is_ready());
}

#[test]
fn a_moment_that_never_comes_is_waited_for() {
    let clock = ManualClock::new();
    let mut far = clock.sleep_until(Moment::FAR);
    clock.advance(Duration::from_secs(500 * 365 * 24 * 3600));
    assert!(poll(&mut far).is_pending());
}

#[tokio::test]
async fn a_test_can_wait_for_the_fact_that_others_sleep() {
    let clock = ManualClock::new();
    clock.wait_for_sleepers(0).await;
    let tasks: Vec<_> = (1..=3)
        .map(|n| {
            let clock = clock.clone();
            tokio::spawn(async move {
                for _ in 0..n {
                    tokio::task::yield_now().await;
                }
                clock.sleep(n * SECOND).await;
                clock.now()
            })
        })
        .collect();
    let start = clock.now();
    clock.wait_for_sleepers(3).await;
    assert_eq!(clock.sleepers(), 3);
    clock.advance(3 * SECOND);
    for task in tasks {
        assert_eq!(task.await.unwrap(), start.plus(3 * SECOND));
    }
}

#[tokio::test]
async fn several_may_wait_for_sleepers_at_once() {
    let clock = ManualClock::new();
    let watchers: Vec<_> = (1..=2)
        .map(|n| {
            let clock = clock.clone();
            tokio::spawn(async move { clock.wait_for_sleepers(n).await })
        })
        .collect();
    tokio::task::yield_now().await;
    let (mut first, mut second) = (clock.sleep(SECOND), clock.sleep(SECOND));
    assert!(poll(&mut first).is_pending());
    tokio::task::yield_now().await;
    assert!(watchers[0].is_finished() && !watchers[1].is_finished());
    assert!(poll(&mut second).is_pending());
    for watcher in watchers {
        watcher.await.unwrap();
    }
}
