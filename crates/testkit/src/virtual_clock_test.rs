use tenure_core::ClockExt;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The grain of tokio's timers: how much later than its moment a sleeper may wake.
const GRAIN: Duration = Duration::from_millis(1);

/// Sleeps until `moment` and checks that it was neither too early by its own clock nor late in true time.
async fn sleep_and_check(clock: &VirtualClock, moment: Moment, true_time: Duration) {
    clock.sleep_until(moment).await;
    assert!(moment.has_passed(clock.now()), "too early: {moment:?}, now {:?}", clock.now());
    let late = clock.true_now().checked_sub(true_time).expect("too early by true time");
    assert!(late <= GRAIN, "{late:?} late");
}

#[tokio::test(start_paused = true)]
async fn time_advances_by_itself_when_every_task_waits() {
    let clock = VirtualClock::new();
    let start = clock.now();
    clock.sleep(1000 * HOUR).await;
    assert_eq!(clock.true_now(), 1000 * HOUR);
    assert_eq!(clock.now(), start.plus(1000 * HOUR));
    assert_eq!(clock.clone().now(), clock.now(), "a clone is the same clock");
}

#[tokio::test(start_paused = true)]
async fn time_stands_still_while_anybody_works() {
    let clock = VirtualClock::new();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.true_now(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_moment_that_has_passed_needs_no_time() {
    let clock = VirtualClock::new();
    clock.sleep_until(clock.now()).await;
    clock.sleep_until(Moment::default()).await;
    assert_eq!(clock.true_now(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn no_sleeper_completes_before_its_moment_by_its_own_clock() {
    for (boot_ppm, raw_ppm) in
        [(0, 0), (100_000, 0), (-100_000, 0), (1, -1), (-83_333, 77), (123_457, -9_973)]
    {
        let clock = VirtualClock::new().with_rates(boot_ppm, raw_ppm);
        let faster = u64::try_from(MILLION + boot_ppm.max(raw_ppm)).unwrap();
        for wanted_ns in [1, 999, 999_999, 1_000_000, 1_000_001, 30_000_000_007, 86_400_000_000_001] {
            let (moment, began) = (clock.now().plus(Duration::from_nanos(wanted_ns)), clock.true_now());
            let shortest_ns = u128::from(wanted_ns) * 1_000_000 / u128::from(faster);
            // A change of rate in the middle of a tick loses less than a nanosecond.
            let true_time =
                began + Duration::from_nanos(u64::try_from(shortest_ns).unwrap().saturating_sub(1));
            clock.sleep_until(moment).await;
            assert!(moment.has_passed(clock.now()));
            let late = clock.true_now().checked_sub(true_time).expect("too early by true time");
            assert!(
                late <= GRAIN + Duration::from_nanos(3),
                "{wanted_ns} ns at {boot_ppm}, {raw_ppm}: {late:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_clocks_of_different_rates_disagree_as_told() {
    let truth = VirtualClock::new();
    let slow = truth.beside().with_rates(-100_000, 0);
    let fast = truth.beside().with_rates(50_000, 20).with_offset(HOUR);
    let (slow_start, fast_start) = (slow.now(), fast.now());
    truth.sleep(1000 * SECOND).await;
    assert_eq!(slow.now().boot() - slow_start.boot(), 900 * SECOND);
    assert_eq!(slow.now().raw() - slow_start.raw(), 1000 * SECOND);
    assert_eq!(fast.now().boot() - fast_start.boot(), 1050 * SECOND);
    assert_eq!(fast.now().raw() - fast_start.raw(), 1000 * SECOND + Duration::from_millis(20));
    assert_eq!(fast_start, slow_start.plus(HOUR));
    assert_eq!((slow.true_now(), fast.true_now()), (1000 * SECOND, 1000 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn each_sleeps_by_its_own_clock_and_by_the_faster_of_its_two() {
    let truth = VirtualClock::new();
    let slow = truth.beside().with_rates(-500_000, -500_000);
    sleep_and_check(&slow, slow.now().plus(10 * SECOND), 20 * SECOND).await;
    let fast = truth.beside().with_rates(1_000_000, 0);
    sleep_and_check(&fast, fast.now().plus(10 * SECOND), 25 * SECOND).await;
    let slewed = truth.beside().with_rates(-100_000, 0);
    sleep_and_check(&slewed, slewed.now().plus(10 * SECOND), 35 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_made_later_shows_what_one_made_at_the_start_does() {
    let first = VirtualClock::new();
    first.sleep(77 * SECOND).await;
    let second = first.beside();
    assert_eq!(second.now(), first.now());
    assert_eq!(second.true_now(), first.true_now());
    assert_eq!(second.wall(), first.wall());
}

#[tokio::test(start_paused = true)]
async fn a_change_of_rate_leaves_the_past_as_it_was_and_moves_who_sleeps() {
    let clock = VirtualClock::new();
    let start = clock.now();
    let nap = tokio::spawn({
        let clock = clock.clone();
        async move { sleep_and_check(&clock, start.plus(20 * SECOND), 15 * SECOND).await }
    });
    clock.sleep(10 * SECOND).await;
    clock.set_rates(1_000_000, 1_000_000);
    assert_eq!(clock.now(), start.plus(10 * SECOND));
    nap.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn clocks_that_stand_still_hold_everybody_until_they_go_on() {
    let clock = VirtualClock::new();
    let truth = clock.beside();
    let start = clock.now();
    clock.set_rates(-1_000_000, -2_000_000);
    let nap = tokio::spawn({
        let clock = clock.clone();
        async move { sleep_and_check(&clock, start.plus(SECOND), HOUR + SECOND).await }
    });
    truth.sleep(HOUR).await;
    assert_eq!(clock.now(), start);
    assert!(!nap.is_finished());
    clock.set_rates(0, 0);
    nap.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_jump_of_the_boot_clock_wakes_who_is_due_at_once_and_nobody_else() {
    let clock = VirtualClock::new();
    let start = clock.now();
    let spawn = |after| tokio::spawn(clock.sleep_until(start.plus(after)));
    let (due, later) = (spawn(HOUR), spawn(3 * HOUR));
    let elsewhere = tokio::spawn(clock.beside().sleep(HOUR));
    clock.sleep(SECOND).await;
    clock.jump_boot(HOUR);
    due.await.unwrap();
    assert_eq!(clock.true_now(), SECOND, "in no time");
    assert_eq!(clock.now(), Moment::new(start.boot() + HOUR + SECOND, start.raw() + SECOND));
    assert!(!later.is_finished());
    elsewhere.await.unwrap();
    assert_eq!(clock.true_now(), HOUR, "another machine's clock did not jump");
    later.await.unwrap();
    assert_eq!(clock.true_now(), 2 * HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_machine_wakes_nobody_until_it_resumes_and_then_all_who_are_due() {
    let clock = VirtualClock::new();
    let truth = clock.beside();
    let start = clock.now();
    let nap = |after| {
        let clock = clock.clone();
        tokio::spawn(async move {
            clock.sleep_until(start.plus(after)).await;
            clock.true_now()
        })
    };
    let (due, later) = (nap(10 * SECOND), nap(2 * HOUR));
    tokio::task::yield_now().await;
    clock.suspend_for(HOUR);
    truth.sleep(HOUR / 2).await;
    assert_eq!(clock.now(), Moment::new(start.boot() + HOUR / 2, start.raw()));
    assert!(!due.is_finished());
    assert_eq!(due.await.unwrap(), HOUR);
    assert_eq!(later.await.unwrap(), 2 * HOUR, "the boot clock counts the suspend");
    assert_eq!(clock.now(), Moment::new(start.boot() + 2 * HOUR, start.raw() + HOUR));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_rate_in_a_suspend_does_not_let_the_raw_clock_go_on() {
    let clock = VirtualClock::new();
    let truth = clock.beside();
    let start = clock.now();
    clock.suspend_for(HOUR);
    truth.sleep(HOUR / 2).await;
    clock.set_rates(0, 1_000_000);
    assert_eq!(clock.now().raw(), start.raw());
    truth.sleep(HOUR).await;
    assert_eq!(clock.now().raw(), start.raw() + HOUR, "half an hour awake at twice the rate");
}

#[tokio::test(start_paused = true)]
async fn a_step_of_the_wall_clock_changes_nothing_else() {
    let clock = VirtualClock::new();
    let (now, wall) = (clock.now(), clock.wall());
    clock.step_wall(3600);
    assert_eq!(clock.wall(), wall + HOUR);
    clock.step_wall(-7200);
    assert_eq!(clock.wall(), wall - HOUR);
    assert_eq!(clock.now(), now);
    clock.sleep(SECOND).await;
    assert_eq!(clock.wall(), wall - HOUR + SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_moment_that_never_comes_is_waited_for_and_holds_up_nobody() {
    let clock = VirtualClock::new();
    let far = tokio::spawn(clock.sleep_until(Moment::FAR));
    clock.sleep(HOUR).await;
    clock.jump_boot(HOUR);
    clock.sleep(HOUR).await;
    assert!(!far.is_finished());
    assert_eq!(clock.true_now(), 2 * HOUR);
}

#[tokio::test(start_paused = true)]
async fn many_machines_run_the_same_way_twice() {
    async fn wakes() -> Vec<(i64, Duration)> {
        let (truth, (tell, mut told)) = (VirtualClock::new(), tokio::sync::mpsc::unbounded_channel());
        for ppm in -50..50 {
            let (clock, tell) = (truth.beside().with_rates(ppm * 1000, ppm * 500), tell.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    clock.sleep(SECOND).await;
                    tell.send((ppm, clock.true_now())).unwrap();
                }
            });
        }
        drop(tell);
        let mut seen = Vec::new();
        while let Some(wake) = told.recv().await {
            seen.push(wake);
        }
        seen
    }
    let (first, second) = (wakes().await, wakes().await);
    assert_eq!(first.len(), 500);
    assert_eq!(first, second);
}
