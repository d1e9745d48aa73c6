//! A29: a lease names the term before it, over 100 random terms; after a loss of data it names none.

use std::sync::Arc;

use tenure_core::store::{Bid, Lease, TermEnd};
use tenure_core::{ElectionName, FencingToken};

use super::cx::{Candidate, Checked, Cx};

const TERMS: u64 = 100;
/// An expiry costs a whole ttl, so that only every so many terms end with one.
const EXPIRIES_APART: u64 = 25;

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let election = cx.election("random");
    let mut candidates = Vec::new();
    for i in 0..4 {
        candidates.push(cx.candidate(&format!("candidate-{i}")).await);
    }
    let mut who = 0;
    let mut supersedes = None;
    let mut last: Option<(Lease, TermEnd)> = None;
    for term in 1..=TERMS {
        if supersedes.is_none() {
            who = usize::try_from(cx.random.below(4)).unwrap_or(0);
        }
        let candidate = &candidates[who];
        let bid = Bid { supersedes: supersedes.take(), ..candidate.bid() };
        let lease = candidate.win_with(&election, &bid).await;
        named(&lease, last.as_ref(), term);
        let end = end_of(&cx, term);
        match end {
            TermEnd::Released => candidate.release(&lease).await,
            TermEnd::Succeeded => {
                let mut release = candidate.release_of(&lease);
                release.succeeded = true;
                candidate.release_with(&release).await;
            }
            TermEnd::Expired => {
                // Whoever bids next may be one who times leases himself: all begin to look now.
                for candidate in &candidates {
                    candidate.record(&election).await;
                }
                for candidate in &candidates {
                    candidate.wait_until_over(&election).await;
                }
            }
            TermEnd::Superseded => supersedes = Some(lease.bid),
        }
        last = Some((lease, end));
    }
    unknown(&cx, &candidates[0]).await;
    Ok(())
}

fn end_of(cx: &Cx, term: u64) -> TermEnd {
    if term.is_multiple_of(EXPIRIES_APART) {
        return TermEnd::Expired;
    }
    match cx.random.below(4) {
        0 => TermEnd::Succeeded,
        1 => TermEnd::Superseded,
        _ => TermEnd::Released,
    }
}

fn named(lease: &Lease, last: Option<&(Lease, TermEnd)>, term: u64) {
    let previous = lease.previous.as_ref().map(|term| (term.token, term.bid, &term.candidate, term.end));
    let expected = last.map(|(lease, end)| (lease.token, lease.bid, &lease.candidate, Some(*end)));
    assert_eq!(previous, expected, "what term {term} says about the one before");
}

async fn unknown(cx: &Arc<Cx>, candidate: &Candidate) {
    let Some(by_hand) = cx.fixture.by_hand() else {
        cx.leave_out("loss of data: the fixture cannot write past the store");
        return;
    };
    let election = cx.election("lost");
    let lease = candidate.win(&election).await;
    candidate.release(&lease).await;
    let older = by_hand.copy(&election).await;
    let lease = candidate.win(&election).await;
    candidate.release(&lease).await;

    for (what, value) in [("an older copy was restored", older), ("everything was lost", None)] {
        by_hand.restore(&election, value).await;
        let lease = win_above(candidate, &election, lease.token).await;
        assert_eq!(lease.previous, None, "{what}: somebody may have led");
        candidate.release(&lease).await;
    }
}

async fn win_above(candidate: &Candidate, election: &ElectionName, floor: FencingToken) -> Lease {
    let bid = Bid { floor, ..candidate.bid() };
    candidate.win_with(election, &bid).await
}
