//! A13: the answer to an applied acquire, renew or release is lost; the retry finds out, without waiting a ttl and
//! without a second term.

use std::fmt::Debug;
use std::sync::Arc;

use tenure_core::store::StoreError;

use super::cx::{Checked, Cx};
use super::{Network, Trouble};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let network = cx.network().await;
    let election = cx.election("answers");
    let first = cx.candidate_over("first", network.handle());
    let second = cx.candidate("second").await;

    let mut bid = first.bid();
    lose(&network, first.store.acquire(&election, &bid)).await;
    let begun = cx.now();
    let applied = bid.attempt;
    bid.open.push(applied);
    bid.attempt = cx.attempt();
    let lease = first.win_with(&election, &bid).await;
    assert_eq!(lease.attempt, applied, "the retry was told of another attempt than the applied one");
    let record = second.record(&election).await;
    assert_eq!(record.token, lease.token, "the record shows another term");
    assert!(record.last_terms.is_empty(), "the retry opened a second term: {:?}", record.last_terms);

    let unanswered = first.renewal(&lease);
    lose(&network, first.try_renew(&unanswered)).await;
    let mut retry = first.renewal(&lease);
    retry.open.push(unanswered.attempt);
    let lease = first.renew_with(&retry).await;
    assert_eq!(lease.attempt, retry.attempt, "the retry itself was applied");
    assert_eq!(lease.token, record.token, "a renewal changed the token");

    // Given up on: the release has to know the renewal whose answer never came.
    let unanswered = first.renewal(&lease);
    lose(&network, first.try_renew(&unanswered)).await;
    let mut release = first.release_of(&lease);
    release.open.push(unanswered.attempt);
    lose(&network, first.store.release(&release)).await;
    first.release_with(&release).await;
    second.win(&election).await;

    let waited = cx.now().saturating_sub(begun);
    // Three more calls went unanswered on the way.
    let calls = network.call_limit() * 3;
    assert!(waited < calls + cx.ttl() / 2, "finding out took {waited:?}: a ttl was waited");
    assert!(network.troubled() >= 4, "no answer was lost");
    Ok(())
}

/// Makes a call whose answer is lost, and lets the way be clear again.
async fn lose<T: Debug>(network: &Arc<dyn Network>, call: impl Future<Output = Result<T, StoreError>>) {
    network.set(Trouble::AnswersLost).await;
    match call.await {
        Ok(answer) => panic!("the answer was to be lost, but is {answer:?}"),
        Err(error) => {
            assert!(error.is_retryable(), "after a lost answer nobody knows, but the store says: {error}");
        }
    }
    network.set(Trouble::None).await;
}
