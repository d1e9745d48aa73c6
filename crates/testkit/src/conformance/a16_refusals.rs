//! A16: a store that must refuse to serve says so with the right kind of error and what to do.

use std::sync::Arc;

use super::cx::{Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let refusals = cx.fixture.refusals().await;
    if refusals.is_empty() {
        return Err("there is no way to open the store in which it must refuse to serve");
    }
    for refusal in refusals {
        let election = cx.election("refused");
        let candidate = cx.candidate_over("first", refusal.handle);
        match candidate.store.acquire(&election, &candidate.bid()).await {
            Ok(answer) => panic!("{}: the bid was answered with {answer:?}", refusal.what),
            Err(error) => {
                assert_eq!(error.kind(), refusal.kind, "{}: {error}", refusal.what);
                assert!(
                    error.to_string().contains(refusal.hint),
                    "{}: the message does not say {:?}: {error}",
                    refusal.what,
                    refusal.hint
                );
            }
        }
    }
    Ok(())
}
