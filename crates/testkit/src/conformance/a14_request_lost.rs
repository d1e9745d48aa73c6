//! A14: a request that did not reach the store changed nothing, and its repetition succeeds.

use std::fmt::Debug;
use std::sync::Arc;

use tenure_core::store::StoreError;

use super::cx::{Checked, Cx, assert_unchanged};
use super::{Network, Trouble};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let network = cx.network().await;
    let election = cx.election("requests");
    let first = cx.candidate_over("first", network.handle());
    let second = cx.candidate("second").await;

    let mut bid = first.bid();
    lose(&network, first.store.acquire(&election, &bid)).await;
    assert_eq!(second.read(&election).await, None, "a lost bid left something");
    bid.open.push(bid.attempt);
    bid.attempt = cx.attempt();
    let lease = first.win_with(&election, &bid).await;
    assert_eq!(lease.attempt, bid.attempt, "which attempt was applied");

    let before = second.record(&election).await;
    let unanswered = first.renewal(&lease);
    lose(&network, first.try_renew(&unanswered)).await;
    let after = second.record(&election).await;
    assert_unchanged(&cx, &before, &after, "a lost renewal");
    let mut retry = first.renewal(&lease);
    retry.open.push(unanswered.attempt);
    let lease = first.renew_with(&retry).await;
    assert_eq!(lease.renew_count, 1, "a lost renewal counts for nothing");

    let before = second.record(&election).await;
    let release = first.release_of(&lease);
    lose(&network, first.store.release(&release)).await;
    let after = second.record(&election).await;
    assert_unchanged(&cx, &before, &after, "a lost release");
    first.release_with(&release).await;
    second.win(&election).await;
    assert!(network.troubled() >= 3, "no request was lost");
    Ok(())
}

/// Makes a call that does not reach the store, and lets the way be clear again.
async fn lose<T: Debug>(network: &Arc<dyn Network>, call: impl Future<Output = Result<T, StoreError>>) {
    network.set(Trouble::RequestsLost).await;
    match call.await {
        Ok(answer) => panic!("the request was to be lost, but the answer is {answer:?}"),
        Err(error) => {
            assert!(error.is_retryable(), "after a lost request nobody knows, but the store says: {error}");
        }
    }
    network.set(Trouble::None).await;
}
