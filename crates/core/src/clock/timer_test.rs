use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Wake;

use super::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

fn at(boot_ns: u64, raw_ns: u64) -> Moment {
    Moment::from_nanos(boot_ns, raw_ns)
}

/// Writes down who was woken, in order.
struct Witness {
    name: u64,
    woken: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Witness {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().push(self.name);
    }
}

fn witness(name: u64, woken: &Arc<Mutex<Vec<u64>>>) -> Waker {
    Arc::new(Witness { name, woken: Arc::clone(woken) }).into()
}

/// A timer of its own, so that a test sees nobody else's sleepers.
fn timer(open: fn() -> io::Result<Alarm>) -> &'static Timer {
    Box::leak(Box::new(Timer::new(start_thread, open)))
}

fn wait_until(fact: impl Fn() -> bool) {
    let began = kernel::now();
    while !fact() {
        assert!(kernel::now().time_since(began) < Duration::from_secs(30), "the fact never came");
        std::thread::yield_now();
    }
}

fn due(queue: &mut Queue, now: Moment, woken: &Arc<Mutex<Vec<u64>>>) -> Vec<u64> {
    let mut wakers = Vec::new();
    queue.take_due(now, &mut wakers);
    wakers.into_iter().for_each(Waker::wake);
    std::mem::take(&mut woken.lock().unwrap())
}

#[test]
fn sleepers_are_due_in_the_order_of_their_moments_then_of_their_coming() {
    let (mut queue, woken) = (Queue::new(), Arc::default());
    for (name, moment) in [(3, 30), (1, 10), (4, 40), (2, 20), (22, 20)] {
        queue.add(at(moment, moment), witness(name, &woken));
    }
    assert_eq!(due(&mut queue, at(9, 9), &woken), [0u64; 0]);
    assert_eq!(due(&mut queue, at(30, 0), &woken), [1, 2, 22, 3]);
    assert_eq!(due(&mut queue, at(30, 0), &woken), [0u64; 0], "nobody is woken twice");
    assert_eq!(due(&mut queue, at(40, 40), &woken), [4]);
    assert!(queue.by_boot.is_empty() && queue.by_raw.is_empty());
}

#[test]
fn either_clock_alone_makes_a_sleeper_due() {
    let (mut queue, woken) = (Queue::new(), Arc::default());
    queue.add(at(100, 900), witness(1, &woken));
    queue.add(at(900, 100), witness(2, &woken));
    queue.add(at(900, 900), witness(3, &woken));
    assert_eq!(due(&mut queue, at(0, 100), &woken), [2]);
    assert_eq!(due(&mut queue, at(100, 0), &woken), [1]);
    assert_eq!(queue.by_boot.len(), 1);
    assert_eq!(queue.by_raw.len(), 1);
}

#[test]
fn many_that_are_due_at_once_come_in_bounded_batches_and_none_is_missed() {
    let (mut queue, woken) = (Queue::new(), Arc::default());
    let many = 2 * BATCH as u64 + 7;
    for name in 0..many {
        queue.add(at(5, 5), witness(name, &woken));
    }
    let sizes: Vec<_> = (0..4).map(|_| due(&mut queue, at(5, 5), &woken).len()).collect();
    assert_eq!(sizes, [BATCH, BATCH, 7, 0]);
}

#[test]
fn a_removed_sleeper_leaves_nothing_and_disturbs_nobody() {
    let (mut queue, woken) = (Queue::new(), Arc::default());
    let first = queue.add(at(5, 5), witness(1, &woken));
    let second = queue.add(at(5, 5), witness(2, &woken));
    assert!(queue.remove(at(5, 5), first).is_some());
    assert!(queue.remove(at(5, 5), first).is_none());
    assert_eq!(due(&mut queue, at(5, 5), &woken), [2]);
    assert!(queue.remove(at(5, 5), second).is_none());
    assert!(queue.by_boot.is_empty() && queue.by_raw.is_empty());
}

/// Follows the looks for one sleeper while the boot clock runs at `per_cent` of the raw clock's rate; answers
/// how many looks there were and how late the last was by the raw clock.
fn looks_for(raw_left: u64, per_cent: u64) -> (u32, u64) {
    let (mut now, target) = (at(SECOND, SECOND), SECOND + raw_left);
    // The boot clock's own time is out of reach here, so that only the raw clock can end this.
    let mut looks = 0;
    while now.raw_ns() < target {
        let next = look_at(NEVER, target, now);
        // No thread wakes without delay: a microsecond is little.
        let slept = next - now.boot_ns() + 1_000;
        now = at(now.boot_ns() + slept, now.raw_ns() + slept * 100 / per_cent);
        looks += 1;
        assert!(looks < 1000, "the looks come no closer");
    }
    (looks, now.raw_ns() - target)
}

#[test]
fn a_boot_clock_slewed_by_a_tenth_makes_nobody_late_by_more_than_two_milliseconds() {
    for raw_left in [1, MS, 10 * MS, 11 * MS, SECOND, 30 * SECOND, 86_400 * SECOND] {
        for per_cent in [90, 95, 100, 105, 110] {
            let (looks, late) = looks_for(raw_left, per_cent);
            assert!(late <= ONE_GO_NS / 8, "{raw_left} ns at {per_cent} %: {late} ns late");
            // Each step leaves an eighth (a little more on a fast boot clock): logarithmic, not many.
            assert!(looks <= 20, "{raw_left} ns at {per_cent} %: {looks} looks");
        }
    }
}

#[test]
fn the_next_look_is_never_past_the_earliest_of_either_clock() {
    let (mut queue, woken) = (Queue::new(), Arc::default());
    let now = at(100 * SECOND, 50 * SECOND);
    assert_eq!(queue.next_look(now), NEVER);
    queue.add(Moment::FAR, witness(0, &woken));
    assert!(queue.next_look(now) > now.boot().as_secs() * SECOND * 1000);
    queue.add(at(100 * SECOND + 5 * MS, 60 * SECOND), witness(1, &woken));
    assert_eq!(queue.next_look(now), 100 * SECOND + 5 * MS);
    queue.add(at(200 * SECOND, 50 * SECOND + 3 * MS), witness(2, &woken));
    assert_eq!(queue.next_look(now), 100 * SECOND + 3 * MS);
    assert_eq!(queue.next_look(at(100 * SECOND, 90 * SECOND)), 100 * SECOND, "passed: look at once");
}

/// Enlists `names` in a mixed order, each 10 µs after the one before, and answers in which order they woke.
fn order_of_waking(timer: &'static Timer, names: u64) -> Vec<u64> {
    let mut ahead = Duration::from_millis(50);
    loop {
        let woken = Arc::default();
        let first = kernel::now().plus(ahead);
        let mut tickets: Vec<Option<Ticket>> = Vec::new();
        for i in 0..names {
            // 7919 is a prime that does not divide the number of names: each one once, in a mixed order.
            let name = (i * 7919) % names;
            let moment = first.plus(Duration::from_micros(10 * name));
            let mut ticket = None;
            timer.enlist(&mut ticket, moment, kernel::now(), &witness(name, &woken)).unwrap();
            tickets.push(ticket);
        }
        // On a busy machine the first may come due while the last are still enlisting: then the order says
        // nothing, and there must be more time.
        let in_time = !first.has_passed(kernel::now());
        wait_until(|| woken.lock().unwrap().len() as u64 == names);
        if in_time {
            return std::mem::take(&mut woken.lock().unwrap());
        }
        ahead *= 2;
    }
}

#[test]
fn a_thousand_sleepers_wake_in_the_order_of_their_moments() {
    let expected: Vec<u64> = (0..1000).collect();
    assert_eq!(order_of_waking(timer(Alarm::open), 1000), expected);
}

#[test]
fn without_an_alarm_the_thread_still_wakes_everybody_in_order() {
    let expected: Vec<u64> = (0..200).collect();
    let none = timer(|| Err(io::ErrorKind::OutOfMemory.into()));
    assert_eq!(order_of_waking(none, 200), expected);
    assert!(none.alarm.get().is_none());
    let broken = timer(Alarm::broken);
    assert_eq!(order_of_waking(broken, 200), expected);
    assert!(broken.queue().alarm_failed);
}

#[test]
fn an_alarm_that_could_not_be_opened_is_opened_later() {
    use std::sync::atomic::AtomicU32;
    static TRIES: AtomicU32 = AtomicU32::new(0);
    let timer = timer(|| match TRIES.fetch_add(1, Ordering::Relaxed) {
        0..3 => Err(io::ErrorKind::OutOfMemory.into()),
        _ => Alarm::open(),
    });
    assert_eq!(order_of_waking(timer, 10).len(), 10);
    wait_until(|| timer.alarm.get().is_some());
    assert_eq!(order_of_waking(timer, 10).len(), 10);
}

#[test]
fn an_earlier_sleeper_that_comes_while_the_thread_waits_is_woken_first() {
    let hour = Duration::from_secs(3600);
    for timer in [timer(Alarm::open), timer(|| Err(io::ErrorKind::OutOfMemory.into()))] {
        let woken = Arc::default();
        let (mut late, mut soon) = (None, None);
        let now = kernel::now();
        let far = now.plus(hour);
        timer.enlist(&mut late, far, now, &witness(1, &woken)).unwrap();
        wait_until(|| timer.queue().looks_at != LOOKING);
        let now = kernel::now();
        let moment = now.plus(Duration::from_millis(10));
        timer.enlist(&mut soon, moment, now, &witness(2, &woken)).unwrap();
        wait_until(|| !woken.lock().unwrap().is_empty());
        assert!(moment.has_passed(kernel::now()));
        assert_eq!(*woken.lock().unwrap(), [2]);
        assert!(timer.queue().waker_of(far, late.unwrap()).is_some());
    }
}

#[test]
fn a_later_sleeper_does_not_trouble_the_kernel() {
    let timer = timer(Alarm::open);
    let (now, mut first, mut second) = (kernel::now(), None, None);
    let minute = Duration::from_secs(60);
    timer.enlist(&mut first, now.plus(minute), now, Waker::noop()).unwrap();
    wait_until(|| timer.queue().looks_at != LOOKING);
    let looks_at = timer.queue().looks_at;
    timer.enlist(&mut second, now.plus(2 * minute), now, Waker::noop()).unwrap();
    assert_eq!(timer.queue().looks_at, looks_at);
    timer.forget(now.plus(2 * minute), second.unwrap());
    assert_eq!(timer.queue().looks_at, looks_at);
}

#[test]
fn a_sleeper_that_is_given_up_is_not_looked_for() {
    let timer = timer(Alarm::open);
    let (now, mut first, mut second) = (kernel::now(), None, None);
    let minute = Duration::from_secs(60);
    timer.enlist(&mut first, now.plus(minute).by_boot(), now, Waker::noop()).unwrap();
    timer.enlist(&mut second, now.plus(2 * minute).by_boot(), now, Waker::noop()).unwrap();
    wait_until(|| timer.queue().looks_at != LOOKING);
    assert_eq!(timer.queue().looks_at, now.plus(minute).boot_ns());
    timer.forget(now.plus(minute).by_boot(), first.unwrap());
    assert_eq!(timer.queue().looks_at, now.plus(2 * minute).boot_ns());
}

#[test]
fn a_wait_by_the_boot_clock_alone_is_looked_for_once() {
    let (mut queue, woken) = (Queue::new(), Arc::default());
    let now = at(100 * SECOND, 50 * SECOND);
    let deadline = now.plus(Duration::from_millis(21_900));
    queue.add(deadline, witness(1, &woken));
    let renewal = now.plus(Duration::from_secs(10)).by_boot();
    queue.add(renewal, witness(2, &woken));
    assert_eq!(queue.next_look(now), 110 * SECOND, "not earlier for the raw clock, nor for the deadline");
    assert_eq!(due(&mut queue, at(109 * SECOND, 70 * SECOND), &woken), [0u64; 0]);
    assert_eq!(due(&mut queue, at(110 * SECOND, 50 * SECOND), &woken), [2]);
}

#[test]
fn a_leader_that_renews_in_time_is_woken_for_its_renewals_and_nothing_else() {
    let (timer, woken) = (timer(Alarm::open), Arc::default());
    let rounds = 3;
    for round in 0..rounds {
        let now = kernel::now();
        let (mut call, mut renewal, mut deadline) = (None, None, None);
        let ms = Duration::from_millis;
        timer.enlist(&mut deadline, now.plus(ms(2_190)), now, &witness(99, &woken)).unwrap();
        timer.enlist(&mut call, now.plus(ms(100)).by_boot(), now, &witness(99, &woken)).unwrap();
        // Answered at once.
        timer.forget(now.plus(ms(100)).by_boot(), call.unwrap());
        timer.enlist(&mut renewal, now.plus(ms(200)).by_boot(), now, &witness(round, &woken)).unwrap();
        wait_until(|| woken.lock().unwrap().len() as u64 == round + 1);
        timer.forget(now.plus(ms(2_190)), deadline.unwrap());
    }
    assert_eq!(*woken.lock().unwrap(), [0, 1, 2]);
    // The first look, and for each renewal the one that finds it and the one that finds nothing more.
    let looks = timer.looks.load(Ordering::Relaxed);
    assert!(looks <= 1 + 2 * rounds, "{looks} looks");
}

#[test]
fn a_waker_that_panics_takes_nobody_along() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose, by a test");
        }
    }
    let (timer, woken) = (timer(Alarm::open), Arc::default());
    let (now, mut first, mut second) = (kernel::now(), None, None);
    timer.enlist(&mut first, now.plus(Duration::from_millis(5)), now, &Arc::new(Panics).into()).unwrap();
    timer.enlist(&mut second, now.plus(Duration::from_millis(10)), now, &witness(2, &woken)).unwrap();
    wait_until(|| *woken.lock().unwrap() == [2]);
}

#[test]
fn a_poisoned_lock_stops_nobody() {
    let (timer, woken) = (timer(Alarm::open), Arc::default());
    let poison = std::thread::spawn(|| {
        let _queue = timer.queue();
        panic!("on purpose, by a test");
    });
    assert!(poison.join().is_err());
    assert!(timer.queue.is_poisoned());
    let (now, mut ticket) = (kernel::now(), None);
    timer.enlist(&mut ticket, now.plus(Duration::from_millis(5)), now, &witness(1, &woken)).unwrap();
    wait_until(|| *woken.lock().unwrap() == [1]);
}

#[test]
fn a_sleeper_polled_with_another_waker_wakes_only_the_last_one() {
    let (timer, woken) = (timer(Alarm::open), Arc::default());
    let now = kernel::now();
    let moment = now.plus(Duration::from_secs(3600));
    let mut ticket = None;
    timer.enlist(&mut ticket, moment, now, &witness(1, &woken)).unwrap();
    timer.enlist(&mut ticket, moment, now, &witness(2, &woken)).unwrap();
    assert_eq!(timer.queue().by_boot.len(), 1, "one sleeper has one place");
    assert_eq!(due(&mut timer.queue(), moment, &woken), [2]);
}

#[test]
fn a_sleeper_whose_place_is_gone_gets_a_new_one() {
    let (timer, woken) = (timer(Alarm::open), Arc::default());
    let now = kernel::now();
    let moment = now.plus(Duration::from_secs(3600));
    let mut ticket = None;
    timer.enlist(&mut ticket, moment, now, &witness(1, &woken)).unwrap();
    timer.forget(moment, ticket.unwrap());
    timer.enlist(&mut ticket, moment, now, &witness(1, &woken)).unwrap();
    assert_eq!(timer.queue().by_boot.len(), 1);
    timer.forget(moment, ticket.unwrap());
    assert!(timer.queue().by_raw.is_empty());
}

#[test]
fn two_hundred_thousand_sleepers_come_and_go_and_leave_nothing() {
    let timer = timer(Alarm::open);
    let began = kernel::now();
    let tickets: Vec<_> = (0..200_000u64)
        .map(|i| {
            let mut ticket = None;
            let moment = began.plus(Duration::from_secs(3600) + Duration::from_micros((i * 7919) % 200_000));
            timer.enlist(&mut ticket, moment, began, Waker::noop()).unwrap();
            (moment, ticket.unwrap())
        })
        .collect();
    assert_eq!(timer.queue().by_boot.len(), 200_000);
    assert_eq!(timer.queue().by_raw.len(), 200_000);
    tickets.into_iter().for_each(|(moment, ticket)| timer.forget(moment, ticket));
    assert!(timer.queue().by_boot.is_empty() && timer.queue().by_raw.is_empty());
    // 20,000 comings and goings a second are wanted: ten seconds for ten times as many, in a debug build.
    let took = kernel::now().time_since(began);
    println!("200,000 sleepers came and went in {took:?}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_moment_that_never_comes_is_within_the_reach_of_the_alarm() {
    let (timer, woken) = (timer(Alarm::open), Arc::default());
    let (now, mut far, mut soon) = (kernel::now(), None, None);
    timer.enlist(&mut far, Moment::FAR, now, &witness(1, &woken)).unwrap();
    wait_until(|| timer.queue().looks_at != LOOKING);
    assert!(!timer.queue().alarm_failed);
    timer.enlist(&mut soon, now.plus(Duration::from_millis(5)), now, &witness(2, &woken)).unwrap();
    wait_until(|| *woken.lock().unwrap() == [2]);
}
