//! Calls that are polled a number of times and then left alone.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tenure_core::ElectionName;
use tenure_core::store::{Bid, Release, Renew};

use super::cx::{Candidate, Cx};

/// No call of a store takes more steps than this; one that does counts as covered up to here.
pub(super) const MOST_STEPS: usize = 64;

pub(super) type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls `call` at most `steps` times; tells whether it has ended.
pub(super) async fn walk(cx: &Cx, call: &mut Call, steps: usize) -> bool {
    for _ in 0..steps {
        let ended = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_ready())).await;
        if ended {
            return true;
        }
        // Whatever it waits for gets a chance to happen.
        cx.sleep((cx.ttl() / 1000).min(Duration::from_millis(10))).await;
    }
    false
}

/// A call that can be left in the middle.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Acquire,
    Renew,
    Release,
    Read,
}

impl Step {
    pub(super) const ALL: [Self; 4] = [Self::Acquire, Self::Renew, Self::Release, Self::Read];
}

/// What a candidate sends, or would send next.
pub(super) struct Sent {
    pub(super) bid: Bid,
    pub(super) renewal: Option<Renew>,
    pub(super) release: Option<Release>,
}

/// Brings `candidate` so far that it is about to make the call.
pub(super) async fn about_to(step: Step, candidate: &Candidate, election: &ElectionName) -> (Sent, Call) {
    let bid = candidate.bid();
    let lease = match step {
        Step::Acquire => None,
        Step::Renew | Step::Release | Step::Read => Some(candidate.win_with(election, &bid).await),
    };
    let renewal = lease.as_ref().map(|lease| candidate.renewal(lease));
    let release = lease.as_ref().map(|lease| candidate.release_of(lease));
    let (store, election) = (Arc::clone(&candidate.store), election.clone());
    let (sent_bid, sent_renewal, sent_release) = (bid.clone(), renewal.clone(), release.clone());
    let call: Call = Box::pin(async move {
        match (step, sent_renewal, sent_release) {
            (Step::Renew, Some(renewal), _) => drop(store.renew(&[renewal]).await),
            (Step::Release, _, Some(release)) => drop(store.release(&release).await),
            (Step::Read, ..) => drop(store.read(&election).await),
            _ => drop(store.acquire(&election, &sent_bid).await),
        }
    });
    let sent = Sent { bid, renewal, release };
    (sent, call)
}
