//! A23: after a release whose answer never came, the same candidate's next term has a new bid and a higher token, and
//! the old release does nothing to it.

use std::sync::Arc;

use super::Trouble;
use super::cx::{Checked, Cx, assert_unchanged};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let network = cx.network().await;
    let first = cx.candidate_over("first", network.handle());

    // It was applied, but the answer was lost; it arrives once more.
    let election = cx.election("applied");
    let old = first.win(&election).await;
    let release = first.release_of(&old);
    network.set(Trouble::AnswersLost).await;
    drop(first.store.release(&release).await);
    network.set(Trouble::None).await;
    let new = first.win(&election).await;
    assert!(new.token > old.token, "{:?} follows {:?}", new.token, old.token);
    let before = first.record(&election).await;
    drop(first.store.release(&release).await);
    let after = first.record(&election).await;
    assert_unchanged(&cx, &before, &after, "a late release");
    first.renew(&new).await;

    // It is still under way while its repetition was applied.
    let election = cx.election("under-way");
    let old = first.win(&election).await;
    let release = first.release_of(&old);
    network.set(Trouble::RequestsHeld).await;
    drop(first.store.release(&release).await);
    network.set(Trouble::None).await;
    first.release_with(&release).await;
    let new = first.win(&election).await;
    assert!(new.token > old.token, "{:?} follows {:?}", new.token, old.token);
    let before = first.record(&election).await;
    network.deliver().await;
    let after = first.record(&election).await;
    assert_unchanged(&cx, &before, &after, "a late release");
    first.renew(&new).await;
    assert!(network.troubled() >= 2, "no release was lost");
    Ok(())
}
