//! A1: of 32 concurrent bids on a free election exactly one wins, and the others see that holder.

use std::sync::Arc;

use tenure_core::store::{Acquisition, RecordState};
use tokio::sync::Barrier;

use super::cx::{Checked, Cx, joined};

const BIDS: usize = 32;

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let election = cx.election("contested");
    let barrier = Arc::new(Barrier::new(BIDS));
    let mut bids = Vec::new();
    for i in 0..BIDS {
        let candidate = cx.candidate(&format!("candidate-{i}")).await;
        let (barrier, election) = (Arc::clone(&barrier), election.clone());
        bids.push(tokio::spawn(async move {
            let bid = candidate.bid();
            // Handles are open and everybody is ready: the bids meet.
            barrier.wait().await;
            let answer = candidate.answer_to(&election, &bid).await;
            // The candidate lives on: some stores free what it holds when it ends.
            (candidate, bid.id, answer)
        }));
    }
    let mut winners = Vec::new();
    let mut refusals = Vec::new();
    for bid in bids {
        match joined(bid).await {
            (candidate, id, Acquisition::Acquired(lease)) => winners.push((candidate, id, lease)),
            (candidate, _, Acquisition::Refused(record)) => refusals.push((candidate, record)),
        }
    }
    let tokens: Vec<_> = winners.iter().map(|(winner, _, lease)| (&winner.id, lease.token)).collect();
    assert_eq!(winners.len(), 1, "winners of one election: {tokens:?}");
    let (winner, id, lease) = &winners[0];
    assert_eq!(refusals.len(), BIDS - 1);
    for (candidate, record) in refusals {
        let holder = record.leader().map(|holder| (&holder.candidate, holder.bid));
        assert_eq!(
            (holder, &record.state, record.token),
            (Some((&winner.id, *id)), &RecordState::Held, lease.token),
            "{} was refused for another reason than {}",
            candidate.id,
            winner.id
        );
    }
    Ok(())
}
