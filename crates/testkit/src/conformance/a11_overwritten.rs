//! A11: a holder whose record was overwritten by hand has lost, and what stands there is kept.

use std::sync::Arc;

use tenure_core::store::Released;

use super::cx::{Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let Some(by_hand) = cx.fixture.by_hand() else {
        return Err("nobody can write into the place of a record");
    };
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);

    // Readable: somebody else's record, put back by hand.
    let election = cx.election("overwritten");
    let other = second.win(&election).await;
    let Some(foreign) = by_hand.get(&election).await else {
        panic!("there is nothing in the place of a held record");
    };
    second.release(&other).await;

    for (what, value) in [
        ("a record of another term", foreign),
        ("what no store of ours wrote", b"taken by hand, ask Kim".to_vec()),
        ("nothing at all", Vec::new()),
    ] {
        by_hand.put(&election, None).await;
        let lease = first.win(&election).await;
        by_hand.put(&election, Some(value.clone())).await;
        first.lost(&first.renewal(&lease)).await;
        let released = first.try_release(&first.release_of(&lease)).await;
        assert_eq!(released, Released::NotHeld, "a release over {what}");
        assert_eq!(by_hand.get(&election).await, Some(value), "{what} was not kept");
    }
    Ok(())
}
