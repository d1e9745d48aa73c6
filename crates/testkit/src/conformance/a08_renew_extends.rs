//! A8: a renewal gives the lease its whole ttl again, counts, and never changes the token.

use std::sync::Arc;
use std::time::Duration;

use super::cx::{Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    extends_and_counts(&cx).await;
    below_a_second(&cx).await;
    Ok(())
}

async fn extends_and_counts(cx: &Arc<Cx>) {
    let election = cx.election("renewed");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let mut lease = first.win(&election).await;
    let token = lease.token;
    assert!(lease.ttl >= cx.ttl(), "granted {:?}", lease.ttl);
    assert_eq!((lease.renew_count, lease.renew_total), (0, 0));

    // Twice the ttl in all: without renewals it would be long over.
    for count in 1..=4 {
        cx.sleep(cx.ttl() / 2).await;
        let before = first.record(&election).await.time_left;
        lease = first.renew(&lease).await;
        let after = first.record(&election).await.time_left;
        assert!(
            after > before.map(|left| left + cx.ttl() / 10),
            "renewal {count} did not raise the time left: {before:?}, then {after:?}"
        );
        assert_eq!(
            (lease.renew_count, lease.renew_total, lease.token),
            (count, count, token),
            "what renewal {count} answered"
        );
        second.refused(&election).await;
    }
    let record = second.record(&election).await;
    let shown = record.leader().map(|holder| holder.renew_count);
    assert_eq!((shown, record.renew_total), (Some(4), 4), "counts in the record");

    first.release(&lease).await;
    let lease = second.win(&election).await;
    assert_eq!(
        (lease.renew_count, lease.renew_total),
        (0, 4),
        "counts of a new term: its own, and over the record's life"
    );
}

async fn below_a_second(cx: &Arc<Cx>) {
    let election = cx.election("short");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let guarantees = first.store.guarantees();
    // A quarter of a second can be told from a whole one on a busy machine.
    let short = guarantees.min_ttl.max(guarantees.ttl_grain).max(Duration::from_millis(250));
    if short >= Duration::from_secs(1) {
        cx.leave_out("ttl below a second: the store does not promise it");
        return;
    }
    let mut bid = first.bid();
    bid.ttl = short;
    let sent = cx.now();
    let lease = first.win_with(&election, &bid).await;
    let rounded = short + guarantees.ttl_grain;
    assert!(lease.ttl >= short && lease.ttl <= rounded, "asked for {short:?}, granted {:?}", lease.ttl);
    let limit = rounded + rounded / 10 + Duration::from_millis(500);
    let begun = cx.now();
    while second.record(&election).await.leader().is_some() {
        let waited = cx.now().saturating_sub(begun);
        assert!(waited < limit, "a lease of {short:?} lives for {waited:?}");
        cx.sleep(short / 10).await;
    }
    let lasted = cx.now().saturating_sub(sent);
    assert!(lasted >= short - short / 50, "a lease of {short:?} was over after {lasted:?}");
}
