//! A21: exact duplicates of acquire, renew and release that arrive late grant, extend and free nothing.

use std::sync::Arc;

use tenure_core::ElectionName;
use tenure_core::store::{Bid, RecordState, Release, Renew, Renewal};

use super::cx::{Candidate, Checked, Cx, assert_unchanged};

/// Everything that a term sent, to be sent once more.
struct Sent {
    bid: Bid,
    renewals: [Renew; 2],
    release: Option<Release>,
}

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);

    let election = cx.election("living");
    let sent = term(&first, &election, false).await;
    // The last renewal is the one in the record; the first one was overtaken by it.
    duplicates(&cx, &first, &election, &sent, "the term that still lives").await;

    let election = cx.election("released");
    let sent = term(&first, &election, true).await;
    duplicates(&cx, &first, &election, &sent, "its release").await;
    let state = first.record(&election).await.state;
    assert_eq!(state, RecordState::Free, "duplicates took a released election");

    let lease = first.win(&election).await;
    let lease = first.renew(&lease).await;
    duplicates(&cx, &first, &election, &sent, "a newer term of the same candidate").await;
    first.release(&lease).await;

    let lease = second.win(&election).await;
    let lease = second.renew(&lease).await;
    duplicates(&cx, &second, &election, &sent, "a newer term of another candidate").await;
    second.renew(&lease).await;

    let election = cx.election("expired");
    let sent = term(&first, &election, false).await;
    first.wait_until_over(&election).await;
    duplicates(&cx, &first, &election, &sent, "its expiry").await;
    let state = first.record(&election).await.state;
    assert_eq!(state, RecordState::Free, "duplicates took an expired election");
    Ok(())
}

async fn term(candidate: &Candidate, election: &ElectionName, release: bool) -> Sent {
    let bid = candidate.bid();
    let lease = candidate.win_with(election, &bid).await;
    let renewal = candidate.renewal(&lease);
    let lease = candidate.renew_with(&renewal).await;
    let again = candidate.renewal(&lease);
    let lease = candidate.renew_with(&again).await;
    let mut sent = Sent { bid, renewals: [renewal, again], release: None };
    if release {
        let release = candidate.release_of(&lease);
        candidate.release_with(&release).await;
        sent.release = Some(release);
    }
    sent
}

/// Sends everything again, each after a moment, so that an extension would show.
async fn duplicates(cx: &Arc<Cx>, reader: &Candidate, election: &ElectionName, sent: &Sent, after: &str) {
    let sender = cx.candidate("first").await;
    let before = reader.record(election).await;
    let unchanged = async |what: &str| {
        let now = reader.record(election).await;
        assert_unchanged(cx, &before, &now, &format!("a duplicate of {what} after {after}"));
    };
    let moment = cx.ttl() / 20;

    cx.sleep(moment).await;
    drop(sender.store.acquire(election, &sent.bid).await);
    unchanged("acquire").await;
    for renewal in &sent.renewals {
        cx.sleep(moment).await;
        let answer = sender.try_renew(renewal).await;
        unchanged("renew").await;
        // Without it the holder could not tell being overtaken by its own later attempt from having lost.
        if let (Ok(Renewal::Lost(found)), Some(held)) = (answer, before.leader()) {
            let found = found.and_then(|record| record.leader().map(|holder| holder.bid));
            assert_eq!(found, Some(held.bid), "who is found instead by a duplicate after {after}");
        }
    }
    if let Some(release) = &sent.release {
        cx.sleep(moment).await;
        drop(sender.store.release(release).await);
        unchanged("release").await;
    }
}
