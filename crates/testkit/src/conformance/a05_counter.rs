//! A5: a counter that is only touched under the lease, with the token checked where it is written, loses nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::FencingToken;
use tenure_core::store::Acquisition;

use super::cx::{Candidate, Checked, Cx, joined};

const CANDIDATES: usize = 8;
const TERMS: usize = 50;

/// What the leader writes to. It refuses a token below the highest that it has seen.
#[derive(Default)]
struct Counter {
    value: usize,
    highest: FencingToken,
    /// The tokens under which it was written, in order.
    written: Vec<FencingToken>,
}

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let counter = Arc::new(Mutex::new(Counter::default()));
    let mut tasks = Vec::new();
    for i in 0..CANDIDATES {
        let candidate = cx.candidate(&format!("candidate-{i}")).await;
        tasks.push(tokio::spawn(count(Arc::clone(&cx), candidate, Arc::clone(&counter))));
    }
    for task in tasks {
        joined(task).await;
    }
    let counter = counter.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(counter.value, CANDIDATES * TERMS, "increments were lost");
    assert!(
        counter.written.is_sorted_by(|a, b| a < b),
        "terms of one token, or out of order: {:?}",
        counter.written
    );
    Ok(())
}

async fn count(cx: Arc<Cx>, candidate: Candidate, counter: Arc<Mutex<Counter>>) {
    let election = cx.election("counter");
    // Short on a store with long leases, too: there are four hundred terms.
    let moment = (cx.ttl() / 2000).min(Duration::from_millis(5));
    for _ in 0..TERMS {
        let lease = loop {
            match candidate.acquire(&election).await {
                Acquisition::Acquired(lease) => break lease,
                Acquisition::Refused(_) => cx.sleep(moment + cx.random.up_to(moment)).await,
            }
        };
        let value = counter.lock().unwrap_or_else(PoisonError::into_inner).value;
        // Long enough that whoever else believes to lead reads the same value.
        cx.sleep(moment * 2).await;
        {
            let mut counter = counter.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(
                lease.token >= counter.highest,
                "{:?} was granted after {:?}",
                lease.token,
                counter.highest
            );
            counter.highest = lease.token;
            counter.value = value + 1;
            counter.written.push(lease.token);
        }
        candidate.release(&lease).await;
        cx.sleep(cx.random.up_to(moment)).await;
    }
}
