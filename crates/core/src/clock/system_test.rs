use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::thread::Thread;

use super::*;
use crate::Random;
use crate::clock::ClockExt;

const HOUR: Duration = Duration::from_secs(3600);

/// Longer than any sleep here takes on the busiest machine.
const HANGS: Duration = Duration::from_secs(30);

/// The smallest executor there is: nothing of tokio is needed to sleep.
fn block_on(mut sleep: Sleep) {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    while sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        let began = kernel::now();
        std::thread::park_timeout(HANGS);
        assert!(kernel::now().time_since(began) < HANGS, "nobody woke the sleeper");
    }
}

fn poll(sleep: &mut Sleep) -> Poll<()> {
    sleep.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

impl SleepsBy for &'static Timer {
    fn timer(self) -> &'static Timer {
        self
    }
}

#[test]
fn a_sleep_never_completes_before_its_moment() {
    let clock = SystemClock;
    for micros in [0, 1, 50, 1_000, 9_999, 25_000] {
        let moment = clock.now().plus(Duration::from_micros(micros));
        block_on(clock.sleep_until(moment));
        assert!(moment.has_passed(clock.now()), "{micros} µs");
    }
}

#[test]
fn a_moment_of_one_clock_alone_is_enough() {
    let clock = SystemClock;
    let soon = Duration::from_millis(20);
    let (began, far) = (clock.now(), Duration::MAX);
    block_on(clock.sleep_until(Moment::new(began.boot() + soon, far)));
    assert!(clock.now().boot() >= began.boot() + soon);
    let began = clock.now();
    block_on(clock.sleep_until(Moment::new(far, began.raw() + soon)));
    assert!(clock.now().raw() >= began.raw() + soon);
    assert!(clock.now().time_since(began) < HOUR);
}

#[test]
fn a_moment_in_the_past_completes_at_the_first_poll_and_again() {
    let mut past = SystemClock.sleep_until(Moment::default());
    assert!(poll(&mut past).is_ready());
    assert!(poll(&mut past).is_ready(), "a sleep that is over stays over");
}

#[test]
fn a_moment_that_never_comes_is_waited_for() {
    let mut far = SystemClock.sleep_until(Moment::FAR);
    assert!(poll(&mut far).is_pending());
    block_on(SystemClock.sleep(Duration::from_millis(2)));
    assert!(poll(&mut far).is_pending());
}

#[test]
fn a_shorter_sleep_ends_while_a_longer_one_waits() {
    let mut long = SystemClock.sleep(HOUR);
    assert!(poll(&mut long).is_pending());
    let began = SystemClock.now();
    block_on(SystemClock.sleep(Duration::from_millis(5)));
    assert!(poll(&mut long).is_pending());
    assert!(SystemClock.now().time_since(began) < HOUR / 2);
}

#[test]
fn without_a_timer_thread_a_sleep_still_completes() {
    let timer = Timer::new_for_test(|_| Err(std::io::ErrorKind::WouldBlock.into()));
    let moment = kernel::now().plus(Duration::from_millis(10));
    block_on(Box::pin(SystemSleep::new(timer, moment)));
    assert!(moment.has_passed(kernel::now()));
    assert_eq!(timer.sleepers(), 0);
}

#[test]
fn a_dropped_sleep_leaves_the_timer() {
    let timer = Timer::new_for_test(timer::start_thread);
    let sleep = || -> Sleep { Box::pin(SystemSleep::new(timer, kernel::now().plus(HOUR))) };
    let mut sleeps: Vec<_> = (0..100).map(|_| sleep()).collect();
    assert_eq!(timer.sleepers(), 0, "nobody waits before the first poll");
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_pending()));
    assert_eq!(timer.sleepers(), 100);
    sleeps.truncate(40);
    assert_eq!(timer.sleepers(), 40);
    drop(sleeps);
    assert_eq!(timer.sleepers(), 0);
}

#[test]
fn a_sleep_dropped_by_the_drop_of_a_waker_does_not_deadlock() {
    /// A task that owns a sleep, and lives only in the waker that another sleep keeps.
    struct Task(std::sync::Mutex<Sleep>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let _ = poll(&mut self.0.lock().unwrap());
        }
    }
    let timer = Timer::new_for_test(timer::start_thread);
    let sleep = || -> Sleep { Box::pin(SystemSleep::new(timer, kernel::now().plus(HOUR))) };
    let mut inner = sleep();
    assert!(poll(&mut inner).is_pending());
    let waker: Waker = Arc::new(Task(std::sync::Mutex::new(inner))).into();
    let mut outer = sleep();
    assert!(outer.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(waker);
    assert!(poll(&mut outer).is_pending(), "the waker is replaced, and its task dropped with it");
    assert_eq!(timer.sleepers(), 1);
}

#[test]
fn ten_thousand_sleepers_of_several_threads_all_complete_and_none_too_early() {
    let timer = Timer::new_for_test(timer::start_thread);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    let (random, completed) = (Random::from_seed(11), Arc::new(AtomicUsize::new(0)));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10_000)
            .map(|_| {
                let moment = kernel::now().plus(random.up_to(Duration::from_millis(300)));
                let completed = Arc::clone(&completed);
                tokio::spawn(async move {
                    SystemSleep::new(timer, moment).await;
                    assert!(moment.has_passed(kernel::now()));
                    completed.fetch_add(1, Ordering::Relaxed);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(completed.load(Ordering::Relaxed), 10_000);
    assert_eq!(timer.sleepers(), 0);
}

#[test]
fn sleepers_given_up_for_earlier_ones_again_and_again_lose_nobody() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..200)
            .map(|i| {
                tokio::spawn(async move {
                    let clock = SystemClock;
                    for round in 0..20 {
                        // A leader's deadline is moved on at each renewal: begun, given up, begun again.
                        tokio::select! {
                            biased;
                            () = clock.sleep(HOUR) => panic!("an hour cannot have passed"),
                            () = clock.sleep(Duration::from_micros(100 + 37 * (i + round))) => {}
                        }
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

#[test]
fn the_wall_clock_is_the_one_of_people() {
    let year_2020 = SystemTime::UNIX_EPOCH + Duration::from_secs(1_577_836_800);
    assert!(SystemClock.wall() > year_2020);
}
