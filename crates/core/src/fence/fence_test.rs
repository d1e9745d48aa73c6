use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::mpsc;
use std::task::Poll;

use tempfile::TempDir;

use super::*;

const OLD: FencingToken = FencingToken(6);
const NEW: FencingToken = FencingToken(7);

/// One fence of each kind; what holds for one must hold for the other.
fn kinds() -> (TempDir, [Fence; 2]) {
    let dir = tempfile::tempdir().unwrap();
    let file = Fence::open(dir.path().join("mark")).unwrap();
    (dir, [Fence::new(), file])
}

/// Waits for a fact; the limit only catches hangs.
#[allow(clippy::disallowed_methods)] // In real time: other threads are waited for.
fn until(mut fact: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !fact() {
        assert!(begun.elapsed().as_secs() < 60, "the fact did not come true");
        thread::yield_now();
    }
}

#[test]
fn a_lower_token_is_refused_and_its_write_does_not_run() {
    let (_dir, fences) = kinds();
    for fence in fences {
        assert_eq!(fence.guard(NEW, || 1).unwrap(), 1);
        let refused = fence.guard(OLD, || panic!("the write of an older term ran")).unwrap_err();
        assert!(matches!(refused, FenceError::Refused { token: OLD, highest: NEW }), "{refused:?}");
        let said = refused.to_string();
        assert!(said.contains('6') && said.contains('7') && said.contains("newer leader"), "{said}");
        assert_eq!(fence.highest().unwrap(), NEW);
    }
}

#[test]
fn an_equal_token_and_a_higher_one_are_accepted() {
    let (_dir, fences) = kinds();
    for fence in fences {
        for token in [0, 0, 3, 3, 4, 1 << 40, u64::MAX, u64::MAX] {
            fence.guard(FencingToken(token), || ()).unwrap();
            assert_eq!(fence.highest().unwrap(), FencingToken(token));
        }
        assert!(fence.guard(FencingToken(u64::MAX - 1), || ()).is_err());
    }
}

#[test]
fn a_check_compares_and_raises_nothing() {
    let (_dir, fences) = kinds();
    for fence in fences {
        fence.guard(OLD, || ()).unwrap();
        fence.check(OLD).unwrap();
        fence.check(NEW).unwrap();
        assert_eq!(fence.highest().unwrap(), OLD);
        fence.guard(NEW, || ()).unwrap();
        assert!(matches!(fence.check(OLD), Err(FenceError::Refused { token: OLD, highest: NEW })));
    }
}

#[test]
fn clones_share_the_mark() {
    let fence = Fence::new();
    fence.clone().guard(NEW, || ()).unwrap();
    assert!(fence.guard(OLD, || ()).is_err());
}

#[test]
fn a_panic_in_a_write_leaves_the_mark_raised_and_the_fence_usable() {
    let (_dir, fences) = kinds();
    for fence in fences {
        let panicked = catch_unwind(AssertUnwindSafe(|| fence.guard(NEW, || panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(fence.highest().unwrap(), NEW);
        assert!(fence.guard(OLD, || ()).is_err());
        fence.guard(NEW, || ()).unwrap();
    }
}

#[test]
fn a_newer_write_waits_for_the_older_one_that_is_running_and_then_shuts_it_out() {
    let (dir, [memory, file]) = kinds();
    let other_process = Fence::open(dir.path().join("mark")).unwrap();
    for (a, b) in [(memory.clone(), memory), (file.clone(), file.clone()), (file, other_process)] {
        let landed = Mutex::new(Vec::new());
        let (a_is_in, wait_until_a_is_in) = mpsc::channel();
        let (let_a_finish, a_may_finish) = mpsc::channel::<()>();
        let (base, (a, b, landed)) = (a.highest().unwrap().0, (&a, &b, &landed));
        let (old, new) = (FencingToken(base + 1), FencingToken(base + 2));
        thread::scope(|scope| {
            scope.spawn(move || {
                let write = || {
                    a_is_in.send(()).unwrap();
                    a_may_finish.recv().unwrap();
                    landed.lock().unwrap().push(old);
                };
                a.guard(old, write).unwrap();
                assert!(matches!(a.guard(old, || ()), Err(FenceError::Refused { .. })));
            });
            wait_until_a_is_in.recv().unwrap();
            scope.spawn(move || b.guard(new, || landed.lock().unwrap().push(new)).unwrap());
            // The newer one has come; from now on older ones are refused although it has not written yet.
            until(|| a.highest().unwrap() == new);
            assert!(landed.lock().unwrap().is_empty());
            let_a_finish.send(()).unwrap();
        });
        assert_eq!(*landed.lock().unwrap(), [old, new]);
    }
}

#[test]
fn no_write_of_an_older_term_lands_after_the_first_one_of_a_newer_term() {
    let (dir, [memory, file]) = kinds();
    let opened = || Fence::open(dir.path().join("mark")).unwrap();
    let shared = [memory.clone(), memory.clone(), memory.clone(), memory];
    let processes = [file.clone(), file, opened(), opened()];
    for fences in [shared, processes] {
        let landed = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for (i, fence) in (0u64..).zip(&fences) {
                let landed = &landed;
                scope.spawn(move || {
                    for round in 1..=25 {
                        let token = FencingToken(round * 4 + i);
                        for _ in 0..3 {
                            let write = || {
                                let seen = landed.lock().unwrap().len();
                                thread::yield_now();
                                let mut landed = landed.lock().unwrap();
                                assert_eq!(landed.len(), seen, "two writes ran at once");
                                landed.push(token);
                            };
                            match fence.guard(token, write) {
                                Ok(()) | Err(FenceError::Refused { .. }) => {}
                                Err(e) => panic!("{e}"),
                            }
                        }
                    }
                });
            }
        });
        let landed = landed.into_inner().unwrap();
        assert!(landed.is_sorted(), "{landed:?}");
        assert_eq!(landed.last(), Some(&FencingToken(103)));
    }
}

#[test]
fn an_older_leader_that_writes_without_a_pause_does_not_keep_a_newer_one_out() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = [(); 2].map(|()| Fence::open(dir.path().join("mark")).unwrap());
    let (begun, has_begun) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut writes = 0u64;
            while a.guard(OLD, || writes += 1).is_ok() {
                let _ = begun.send(());
            }
            assert!(writes > 0);
        });
        has_begun.recv().unwrap();
        b.guard(NEW, || ()).unwrap();
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_async_write_is_held_over_its_awaits() {
    let (_dir, fences) = kinds();
    for fence in fences {
        let landed = Arc::new(Mutex::new(Vec::new()));
        let (a_is_in, wait_until_a_is_in) = oneshot::channel();
        let (let_a_finish, a_may_finish) = oneshot::channel::<()>();
        let a = tokio::spawn({
            let (fence, landed) = (fence.clone(), Arc::clone(&landed));
            async move {
                let write = async {
                    a_is_in.send(()).unwrap();
                    a_may_finish.await.unwrap();
                    landed.lock().unwrap().push(OLD);
                };
                fence.guard_async(OLD, write).await.unwrap();
                fence.guard_async(OLD, async {}).await.unwrap_err()
            }
        });
        wait_until_a_is_in.await.unwrap();
        let b = tokio::spawn({
            let (fence, landed) = (fence.clone(), Arc::clone(&landed));
            async move { fence.guard_async(NEW, async { landed.lock().unwrap().push(NEW) }).await }
        });
        until(|| fence.highest().unwrap() == NEW);
        assert!(landed.lock().unwrap().is_empty());
        let_a_finish.send(()).unwrap();
        b.await.unwrap().unwrap();
        assert!(matches!(a.await.unwrap(), FenceError::Refused { token: OLD, highest: NEW }));
        assert_eq!(*landed.lock().unwrap(), [OLD, NEW]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_an_async_write_or_its_wait_opens_the_fence_again() {
    let (_dir, fences) = kinds();
    for fence in fences {
        {
            let (is_in, mut wait_until_in) = oneshot::channel();
            let write = async {
                is_in.send(()).unwrap();
                std::future::pending::<()>().await;
            };
            let mut running = pin!(fence.guard_async(OLD, write));
            until_polled(async || {
                assert!(poll_once(running.as_mut()).await.is_pending());
                wait_until_in.try_recv().is_ok()
            })
            .await;
            let mut waiting = pin!(fence.guard_async(NEW, async {}));
            until_polled(async || {
                assert!(poll_once(waiting.as_mut()).await.is_pending());
                fence.highest().unwrap() == NEW
            })
            .await;
        }
        fence.guard_async(NEW, async {}).await.unwrap();
        assert!(fence.guard_async(OLD, async {}).await.is_err());
    }
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

async fn until_polled(mut fact: impl AsyncFnMut() -> bool) {
    while !fact().await {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_blocking_guard_inside_a_task_waits_and_does_not_panic() {
    let fence = Fence::new();
    let (is_in, wait_until_in) = mpsc::channel();
    let (finish, may_finish) = mpsc::channel::<()>();
    let elsewhere = thread::spawn({
        let fence = fence.clone();
        move || fence.guard(OLD, || (is_in.send(()).unwrap(), may_finish.recv().unwrap())).map(drop)
    });
    wait_until_in.recv().unwrap();
    let finisher = thread::spawn({
        let fence = fence.clone();
        move || {
            until(|| fence.highest().unwrap() == NEW);
            finish.send(()).unwrap();
        }
    });
    // More turns than a task's budget has, so that a lock that counts them would have said "not yet" by now.
    for _ in 0..1000 {
        fence.guard(NEW, || ()).unwrap();
    }
    elsewhere.join().unwrap().unwrap();
    finisher.join().unwrap();
}

#[test]
fn an_async_guard_needs_no_runtime_and_can_move_between_threads() {
    fn assert_send<T: Send>(value: T) -> T {
        value
    }
    let (_dir, fences) = kinds();
    for fence in fences {
        let waiting = assert_send(fence.guard_async(NEW, async { 5 }));
        assert_eq!(block_on(waiting).unwrap(), 5);
    }
}

#[test]
fn those_who_wait_get_their_turn_in_order_of_arrival() {
    let fence = Fence::new();
    let landed = Mutex::new(Vec::new());
    let mut context = Context::from_waker(Waker::noop());
    let held = block_on(Arc::clone(&fence.turn).lock_owned());
    let mut waiting: Vec<_> = (0..5)
        .map(|i| {
            Box::pin(fence.guard_async(NEW, {
                let landed = &landed;
                async move { landed.lock().unwrap().push(i) }
            }))
        })
        .collect();
    for write in &mut waiting {
        assert!(write.as_mut().poll(&mut context).is_pending());
    }
    drop(held);
    // Asked in the wrong order: only the first to arrive may go.
    while !waiting.is_empty() {
        waiting.retain_mut(|write| !matches!(write.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
        waiting.reverse();
    }
    assert_eq!(*landed.lock().unwrap(), [0, 1, 2, 3, 4]);
}
