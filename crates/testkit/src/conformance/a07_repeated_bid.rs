//! A7: a repeated bid answers its term while that lives and extends nothing; afterwards it is refused.

use std::sync::Arc;

use tenure_core::store::Bid;

use super::cx::{Checked, Cx, assert_unchanged};

/// The same wish, asked for once more because the answer did not come.
fn again(cx: &Cx, bid: &Bid) -> Bid {
    let mut open = bid.open.clone();
    open.push(bid.attempt);
    Bid { attempt: cx.attempt(), open, ..bid.clone() }
}

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    while_it_lives(&cx).await;
    after_its_end(&cx).await;
    new_bid_of_the_same_candidate(&cx).await;
    Ok(())
}

async fn while_it_lives(cx: &Arc<Cx>) {
    let election = cx.election("lives");
    let first = cx.candidate("first").await;
    let bid = first.bid();
    let lease = first.win_with(&election, &bid).await;
    assert_eq!(lease.attempt, bid.attempt, "which attempt was applied");

    let before = first.record(&election).await;
    cx.sleep(cx.ttl() / 4).await;
    let repeated = first.win_with(&election, &again(cx, &bid)).await;
    assert_eq!(repeated, lease, "a repeated bid answers the same lease");
    let exactly = first.win_with(&election, &bid).await;
    assert_eq!(exactly, lease, "an attempt that arrives twice answers the same lease");
    let after = first.record(&election).await;
    assert_unchanged(cx, &before, &after, "a repeated bid");
    let passed = cx.ttl() / 4 - cx.ttl() / 50;
    assert!(
        after.time_left <= before.time_left.map(|left| left.saturating_sub(passed)),
        "a repeated bid extended the lease: {:?}, then {:?}",
        before.time_left,
        after.time_left
    );

    let renewed = first.renew(&lease).await;
    let repeated = first.win_with(&election, &again(cx, &bid)).await;
    assert_eq!(repeated, renewed, "a repeated bid shows the renewal that was applied last");
}

async fn after_its_end(cx: &Arc<Cx>) {
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);

    let released = cx.election("released");
    let bid = first.bid();
    let lease = first.win_with(&released, &bid).await;
    first.release(&lease).await;
    first.refused_with(&released, &again(cx, &bid)).await;
    let lease = second.win(&released).await;
    first.refused_with(&released, &again(cx, &bid)).await;
    second.release(&lease).await;
    first.refused_with(&released, &again(cx, &bid)).await;

    let expired = cx.election("expired");
    let bid = first.bid();
    first.win_with(&expired, &bid).await;
    first.wait_until_over(&expired).await;
    first.refused_with(&expired, &again(cx, &bid)).await;
    second.wait_until_over(&expired).await;
    second.win(&expired).await;
    first.refused_with(&expired, &again(cx, &bid)).await;
}

async fn new_bid_of_the_same_candidate(cx: &Arc<Cx>) {
    let election = cx.election("superseded");
    let first = cx.candidate("first").await;
    let lease = first.win(&election).await;
    first.refused(&election).await;

    let mut wrong = first.bid();
    wrong.supersedes = Some(first.bid().id);
    first.refused_with(&election, &wrong).await;

    let mut right = first.bid();
    right.supersedes = Some(lease.bid);
    let next = first.win_with(&election, &right).await;
    assert!(
        next.token > lease.token,
        "the superseding term has {:?}, the superseded one had {:?}",
        next.token,
        lease.token
    );
    first.lost(&first.renewal(&lease)).await;
    first.renew(&next).await;
}
