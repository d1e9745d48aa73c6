//! A25: of two processes that hold one bid (a snapshot restored twice) at most one goes on.

use std::sync::Arc;

use tenure_core::store::{Released, Renewal};

use super::cx::{Checked, Cx, assert_unchanged};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    // One after the other: whoever renews first goes on.
    let election = cx.election("cloned");
    let (original, clone) = (cx.candidate("cloned").await, cx.candidate("cloned").await);
    let lease = original.win(&election).await;
    let lease = original.renew(&lease).await;
    let gone_on = clone.renew(&lease).await;
    let before = clone.record(&election).await;
    original.lost(&original.renewal(&lease)).await;
    let released = original.try_release(&original.release_of(&lease)).await;
    assert_eq!(released, Released::NotHeld, "the clone that lost released the other's lease");
    let after = clone.record(&election).await;
    assert_unchanged(&cx, &before, &after, "the clone that lost");
    clone.renew(&gone_on).await;

    // At once: one of the two, or neither if they got in each other's way.
    let election = cx.election("raced");
    let lease = original.win(&election).await;
    let (mine, theirs) = (original.renewal(&lease), clone.renewal(&lease));
    let (mine, theirs) = tokio::join!(original.try_renew(&mine), clone.try_renew(&theirs));
    let renewed = |answer: &Result<Renewal, _>| matches!(answer, Ok(Renewal::Renewed(..)));
    assert!(!(renewed(&mine) && renewed(&theirs)), "both clones renewed: {mine:?} and {theirs:?}");
    Ok(())
}
