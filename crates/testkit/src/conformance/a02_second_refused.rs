//! A2: while a lease lives a second candidate is refused, whatever it tells about itself, and changes nothing.

use std::sync::Arc;

use tenure_core::store::Metadata;

use super::cx::{Checked, Cx, assert_unchanged};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let election = cx.election("held");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let metadata = |address: &str| Metadata::from([("address".to_owned(), address.to_owned())]);

    let mut bid = first.bid();
    bid.metadata = metadata("here");
    let lease = first.win_with(&election, &bid).await;
    let before = second.record(&election).await;
    let told = before.leader().map(|holder| holder.metadata.clone());
    assert_eq!(told, Some(metadata("here")), "the record tells what the holder told");

    for metadata in [metadata("here"), metadata("elsewhere"), Metadata::new()] {
        let mut bid = second.bid();
        bid.ttl = cx.ttl() * 2;
        bid.metadata = metadata;
        let shown = second.refused_with(&election, &bid).await;
        assert_eq!(
            shown.leader().map(|holder| &holder.candidate),
            Some(&first.id),
            "the refusal names somebody else than the holder"
        );
        let after = second.record(&election).await;
        assert_unchanged(&cx, &before, &after, "a refused bid");
    }
    first.renew(&lease).await;
    Ok(())
}
