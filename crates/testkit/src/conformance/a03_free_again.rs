//! A3: an election is free at once after a release, and after its lease ran out, not before.

use std::sync::Arc;

use super::cx::{Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);

    let released = cx.election("released");
    let lease = first.win(&released).await;
    second.refused(&released).await;
    first.release(&lease).await;
    second.win(&released).await;

    let expired = cx.election("expired");
    // From the send on: the store cannot have granted it earlier, so that it must last at least from here.
    let sent = cx.now();
    first.win(&expired).await;
    let (_, taken) = second.campaign(&expired, second.longest()).await;
    let lasted = taken.saturating_sub(sent);
    // The store's clock may run a little faster than the one that this is measured with.
    assert!(lasted >= cx.ttl() - cx.ttl() / 50, "a lease of {:?} was taken after {lasted:?}", cx.ttl());
    Ok(())
}
