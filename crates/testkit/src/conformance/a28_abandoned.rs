//! A28: a call that is dropped at any await leaves no lease that its caller cannot give back or that outlives its ttl.

use std::sync::Arc;

use tenure_core::ElectionName;

use super::cx::{Candidate, Checked, Cx};
use super::stepwise::{MOST_STEPS, Sent, Step, about_to, walk};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    for step in Step::ALL {
        for polls in 0..MOST_STEPS {
            let election = cx.election(&format!("{step:?}-{polls}"));
            let (first, other) = (cx.candidate("first").await, cx.candidate("other").await);
            let (sent, mut call) = about_to(step, &first, &election).await;
            let ended = walk(&cx, &mut call, polls).await;
            drop(call);
            clean_up(&first, &election, step, &sent).await;

            // Mostly at once; a write that went on by itself after the drop may cost one ttl.
            let (lease, _) = other.campaign(&election, other.longest()).await;
            let lease = other.renew(&lease).await;
            other.release(&lease).await;
            if ended {
                break;
            }
        }
    }
    Ok(())
}

/// Does what an elector does with a call whose end it did not see, and gives back what is its own.
async fn clean_up(first: &Candidate, election: &ElectionName, step: Step, sent: &Sent) {
    match (step, &sent.renewal, &sent.release) {
        (Step::Acquire, ..) => {
            let record = first.read(election).await;
            if let Some(lease) = record.and_then(|record| record.lease_of(sent.bid.id)) {
                first.release(&lease).await;
            }
        }
        (Step::Renew, Some(unanswered), _) => {
            let mut retry = first.renewal(&unanswered.lease);
            retry.open.push(unanswered.attempt);
            let lease = first.renew_with(&retry).await;
            first.release(&lease).await;
        }
        // The same release again, or the first one of a holder that only wanted to look.
        (_, _, Some(release)) => first.release_with(release).await,
        (_, _, None) => {}
    }
}
