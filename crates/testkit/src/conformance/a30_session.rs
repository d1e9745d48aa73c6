//! A30: a living session keeps no lease alive whose record is gone, and no record that nobody campaigns for.

use std::sync::Arc;

use super::cx::{Checked, Cx};
use super::stepwise::{Step, about_to, walk};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let Some(session) = cx.fixture.session() else {
        return Err("leases hang on no session");
    };
    let first = cx.candidate_over("first", session.handle());

    let removed = cx.election("removed");
    let lease = first.win(&removed).await;
    session.remove(&removed).await;
    first.lost(&first.renewal(&lease)).await;

    // A bid that was given up leaves nothing for ever, although another lease keeps the session alive.
    let abandoned = cx.election("abandoned");
    let (_, mut call) = about_to(Step::Acquire, &first, &abandoned).await;
    walk(&cx, &mut call, 1).await;
    drop(call);
    let kept = cx.election("kept");
    let mut lease = first.win(&kept).await;
    for _ in 0..8 {
        cx.sleep(cx.ttl() / 4).await;
        lease = first.renew(&lease).await;
    }
    assert_eq!(session.elections().await, [kept], "what stands in the store for this session after 2 ttl");
    Ok(())
}
