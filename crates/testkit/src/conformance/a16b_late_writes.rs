//! A16b: writes that arrive when a later term rules change nothing of it; a late bid that wins is found and released.

use std::fmt::Debug;
use std::sync::Arc;

use tenure_core::store::StoreError;

use super::cx::{Checked, Cx, assert_unchanged};
use super::{Network, Trouble};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let network = cx.network().await;
    renew_and_release(&cx, &network).await;
    acquire_in_a_later_term(&cx, &network).await;
    acquire_that_wins(&cx, &network).await;
    assert!(network.troubled() >= 4, "nothing was held back");
    Ok(())
}

async fn renew_and_release(cx: &Arc<Cx>, network: &Arc<dyn Network>) {
    let election = cx.election("late");
    let first = cx.candidate_over("first", network.handle());
    let second = cx.candidate("second").await;

    let lease = first.win(&election).await;
    let renewal = first.renewal(&lease);
    hold_back(network, first.try_renew(&renewal)).await;
    let mut release = first.release_of(&lease);
    release.open.push(renewal.attempt);
    hold_back(network, first.store.release(&release)).await;
    // The repetition overtakes the first one.
    first.release_with(&release).await;

    let later = second.win(&election).await;
    let before = second.record(&election).await;
    network.deliver().await;
    let after = second.record(&election).await;
    assert_unchanged(cx, &before, &after, "a late renewal and release");
    second.renew(&later).await;
}

async fn acquire_in_a_later_term(cx: &Arc<Cx>, network: &Arc<dyn Network>) {
    let election = cx.election("taken");
    let first = cx.candidate_over("first", network.handle());
    let second = cx.candidate("second").await;

    let bid = first.bid();
    hold_back(network, first.store.acquire(&election, &bid)).await;
    let later = second.win(&election).await;
    let before = second.record(&election).await;
    network.deliver().await;
    let after = second.record(&election).await;
    assert_unchanged(cx, &before, &after, "a late bid");
    second.renew(&later).await;
}

async fn acquire_that_wins(cx: &Arc<Cx>, network: &Arc<dyn Network>) {
    let election = cx.election("won");
    let first = cx.candidate_over("first", network.handle());
    let second = cx.candidate("second").await;

    let bid = first.bid();
    hold_back(network, first.store.acquire(&election, &bid)).await;
    let lease = second.win(&election).await;
    second.release(&lease).await;
    network.deliver().await;

    // Its sender looks, finds a lease that it does not want any more, and gives it back.
    let record = first.record(&election).await;
    let Some(late) = record.lease_of(bid.id) else {
        // Where bidders choose tokens, a late one is below the last term's. Then it must be gone without a trace.
        cx.leave_out("a late bid that wins: it wins nothing here");
        second.win(&election).await;
        return;
    };
    assert!(late.token > lease.token, "{:?} follows {:?}", late.token, lease.token);
    first.release(&late).await;
    second.win(&election).await;
}

/// Makes a call that is held back while its caller gives up, and lets the way be clear again.
async fn hold_back<T: Debug>(network: &Arc<dyn Network>, call: impl Future<Output = Result<T, StoreError>>) {
    network.set(Trouble::RequestsHeld).await;
    match call.await {
        Ok(answer) => panic!("the request was to be held back, but the answer is {answer:?}"),
        Err(error) => {
            assert!(error.is_retryable(), "after giving up nobody knows, but the store says: {error}");
        }
    }
    network.set(Trouble::None).await;
}
