//! A9: whoever does not hold the lease (any more) renews nothing and hears `Lost`.

use std::sync::Arc;

use tenure_core::store::{ExpiryClock, RecordState};

use super::cx::{Checked, Cx, assert_unchanged};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    by_somebody_else(&cx).await;
    by_an_old_term(&cx).await;
    after_expiry(&cx).await;
    after_expiry_through_a_late_look(&cx).await;
    after_deletion(&cx).await;
    Ok(())
}

async fn by_somebody_else(cx: &Arc<Cx>) {
    let election = cx.election("foreign");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let lease = first.win(&election).await;
    let before = first.record(&election).await;

    // Knows everything but the bid.
    let mut forged = second.renewal(&lease);
    forged.lease.bid = second.bid().id;
    forged.lease.candidate = second.id.clone();
    let shown = second.lost(&forged).await;
    assert_eq!(
        shown.as_ref().and_then(|record| record.leader()).map(|h| &h.candidate),
        Some(&first.id),
        "who was found instead"
    );
    let mut wrong_token = second.renewal(&lease);
    wrong_token.lease.token.0 += 1;
    second.lost(&wrong_token).await;

    let mut unknown = second.renewal(&lease);
    unknown.lease.election = cx.election("unknown");
    let shown = second.lost(&unknown).await;
    assert_eq!(shown, None, "nobody ever wrote a record there");

    let after = first.record(&election).await;
    assert_unchanged(cx, &before, &after, "a renewal by somebody else");
    first.renew(&lease).await;
}

async fn by_an_old_term(cx: &Arc<Cx>) {
    let election = cx.election("old");
    let first = cx.candidate("first").await;
    let old = first.win(&election).await;
    first.release(&old).await;
    first.lost(&first.renewal(&old)).await;
    let new = first.win(&election).await;
    let before = first.record(&election).await;
    first.lost(&first.renewal(&old)).await;
    let after = first.record(&election).await;
    assert_unchanged(cx, &before, &after, "a renewal by an old term");
    first.renew(&new).await;
}

async fn after_expiry(cx: &Arc<Cx>) {
    let election = cx.election("expired");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let lease = first.win(&election).await;
    second.wait_until_over(&election).await;
    first.lost(&first.renewal(&lease)).await;
    let state = second.record(&election).await.state;
    assert_eq!(state, RecordState::Free, "a renewal after expiry brought the lease back");
    let taken = second.win(&election).await;
    first.lost(&first.renewal(&lease)).await;
    second.renew(&taken).await;
}

/// A handle that first saw the lease when it was old must not take it for a young one.
async fn after_expiry_through_a_late_look(cx: &Arc<Cx>) {
    let election = cx.election("late-look");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    if first.store.guarantees().clock == ExpiryClock::Observer {
        cx.leave_out("a late look at an old lease: observers count from their own first look");
        return;
    }
    let lease = first.win(&election).await;
    let reconnected = cx.candidate("first").await;
    cx.sleep(cx.ttl() / 2).await;
    reconnected.record(&election).await;
    second.wait_until_over(&election).await;
    reconnected.lost(&reconnected.renewal(&lease)).await;
    let state = second.record(&election).await.state;
    assert_eq!(state, RecordState::Free, "a renewal after expiry brought the lease back");
}

async fn after_deletion(cx: &Arc<Cx>) {
    let Some(by_hand) = cx.fixture.by_hand() else {
        cx.leave_out("deletion by hand: the fixture cannot write past the store");
        return;
    };
    let election = cx.election("deleted");
    let first = cx.candidate("first").await;
    let lease = first.win(&election).await;
    by_hand.put(&election, None).await;
    first.lost(&first.renewal(&lease)).await;
    assert_eq!(by_hand.get(&election).await, None, "a renewal brought back what was deleted");
    let record = first.read(&election).await;
    assert!(record.as_ref().is_none_or(|record| record.leader().is_none()), "somebody leads: {record:?}");
}
