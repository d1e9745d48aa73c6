//! A6: tokens strictly rise, however one term follows another.

use std::sync::Arc;

use tenure_core::FencingToken;
use tenure_core::store::TokenOrder;

use super::cx::{Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let election = cx.election("terms");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    if first.store.guarantees().tokens == TokenOrder::None {
        return Err("the store promises no order of tokens");
    }
    let mut last = FencingToken::ZERO;
    let mut rises = |token: FencingToken, after: &str| {
        assert!(token > last, "after {after}: {token:?} follows {last:?}");
        last = token;
    };

    let lease = first.win(&election).await;
    rises(lease.token, "nothing");
    first.release(&lease).await;
    let lease = second.win(&election).await;
    rises(lease.token, "a release");
    second.release(&lease).await;
    let lease = second.win(&election).await;
    rises(lease.token, "the same candidate's own release");

    first.wait_until_over(&election).await;
    let lease = first.win(&election).await;
    rises(lease.token, "an expiry");
    first.wait_until_over(&election).await;
    let lease = first.win(&election).await;
    rises(lease.token, "the same candidate's own expiry");
    first.release(&lease).await;

    let reconnected = cx.candidate("first").await;
    let lease = reconnected.win(&election).await;
    rises(lease.token, "a reconnect");
    reconnected.release(&lease).await;

    match cx.fixture.restart() {
        Some(restart) if restart.keeping_data().await => {
            let lease = cx.candidate("third").await.win(&election).await;
            rises(lease.token, "a restart that kept the data");
        }
        _ if !reconnected.store.guarantees().survives_restart => {
            cx.leave_out("restart: the store does not promise to keep its data");
        }
        _ => cx.leave_out("restart: the fixture cannot restart the store"),
    }
    Ok(())
}
