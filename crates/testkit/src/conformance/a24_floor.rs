//! A24: a granted token is above the bid's floor, also when the store has lost terms that the candidate has seen.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::FencingToken;
use tenure_core::store::TokenOrder;

use super::cx::{Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let first = cx.candidate("first").await;
    let election = cx.election("floor");
    let win_above = async |floor: FencingToken| {
        let mut bid = first.bid();
        bid.floor = floor;
        let lease = first.win_with(&election, &bid).await;
        assert!(lease.token > floor, "{:?} was granted above a floor of {floor:?}", lease.token);
        first.release(&lease).await;
        lease.token
    };

    let high = FencingToken(1_000_000);
    let mut last = win_above(high).await;
    for floor in [FencingToken::ZERO, last, FencingToken(last.0 + 1_000_000)] {
        let token = win_above(floor).await;
        assert!(token > last, "{token:?} follows {last:?} with a floor of {floor:?}");
        last = token;
    }

    match cx.fixture.by_hand() {
        None => cx.leave_out("an older copy restored: the fixture cannot write past the store"),
        Some(by_hand) => {
            let older = by_hand.copy(&election).await;
            win_above(last).await;
            last = win_above(FencingToken(last.0 + 1000)).await;
            by_hand.restore(&election, older).await;
            last = win_above(last).await;
            by_hand.restore(&election, None).await;
            last = win_above(last).await;
        }
    }
    match cx.fixture.wall_clock() {
        None => cx.leave_out("clock set back: the fixture cannot step the store's clock"),
        Some(clock) => {
            clock.set_back(Duration::from_secs(3600));
            let token = win_above(FencingToken::ZERO).await;
            assert!(token > last, "clock set back: {token:?} follows {last:?}");
            last = token;
        }
    }
    if first.store.guarantees().tokens == TokenOrder::None {
        cx.leave_out("restarted empty: the store promises no order of tokens");
        return Ok(());
    }
    match cx.fixture.restart() {
        Some(restart) if restart.losing_data().await => {
            // Somebody who has seen none of this gets a higher token all the same.
            let newcomer = cx.candidate("newcomer").await;
            let token = newcomer.win(&election).await.token;
            assert!(token > last, "restarted empty: {token:?} follows {last:?}");
        }
        _ => cx.leave_out("restarted empty: the fixture cannot restart the store"),
    }
    Ok(())
}
