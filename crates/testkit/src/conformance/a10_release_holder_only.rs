//! A10: whoever does not hold the lease (any more) releases nothing; the same release may be repeated.

use std::sync::Arc;

use tenure_core::store::Released;

use super::cx::{Checked, Cx, assert_unchanged};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let election = cx.election("held");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let old = first.win(&election).await;
    first.release(&old).await;
    let lease = first.win(&election).await;
    let before = first.record(&election).await;

    let mut forged = second.release_of(&lease);
    forged.lease.bid = second.bid().id;
    forged.lease.candidate = second.id.clone();
    assert_eq!(second.try_release(&forged).await, Released::NotHeld, "by somebody else");
    let mut wrong_token = second.release_of(&lease);
    wrong_token.lease.token.0 += 1;
    assert_eq!(second.try_release(&wrong_token).await, Released::NotHeld, "with another term's token");
    let of_old = first.release_of(&old);
    assert_eq!(first.try_release(&of_old).await, Released::NotHeld, "of an old term");
    let mut unknown = first.release_of(&lease);
    unknown.lease.election = cx.election("unknown");
    assert_eq!(first.try_release(&unknown).await, Released::NotHeld, "of an election that nobody ever held");
    let after = first.record(&election).await;
    assert_unchanged(&cx, &before, &after, "a release by somebody who does not hold it");

    let release = first.release_of(&lease);
    first.release_with(&release).await;
    assert_eq!(first.try_release(&release).await, Released::Released, "the same release repeated");
    let second_release = first.release_of(&lease);
    assert_eq!(first.try_release(&second_release).await, Released::NotHeld, "a second release");

    let lease = first.win(&election).await;
    second.wait_until_over(&election).await;
    let too_late = first.release_of(&lease);
    assert_eq!(first.try_release(&too_late).await, Released::NotHeld, "after expiry");
    Ok(())
}
