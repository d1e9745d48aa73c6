//! A22: a write that was found out later names the attempt that was applied, and the lease counts from that one: the
//! holder's deadline is anchored at its send.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::Attempt;
use tenure_core::store::{ExpiryClock, LeaseRecord};

use super::Trouble;
use super::cx::{Candidate, Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let network = cx.network().await;
    if cx.candidate("reader").await.store.guarantees().clock == ExpiryClock::Observer {
        cx.leave_out("when the lease ends at the latest: observers count from their own first look");
    }
    let election = cx.election("anchored");
    let first = cx.candidate_over("first", network.handle());
    let reader = cx.candidate("reader").await;
    // Twice of what is forgiven below, so that a lease counted from another attempt shows; the lease outlasts it all.
    let apart = cx.slack() * 2;

    // A bid whose answer was lost, and its repetition a good while later.
    let mut bid = first.lasting_bid();
    let applied = bid.attempt;
    network.set(Trouble::AnswersLost).await;
    let sent = cx.now();
    drop(first.store.acquire(&election, &bid).await);
    network.set(Trouble::None).await;
    from(&cx, &reader, &reader.record(&election).await, applied, sent);
    cx.sleep(apart).await;
    bid.open.push(bid.attempt);
    bid.attempt = cx.attempt();
    let lease = first.win_with(&election, &bid).await;
    assert_eq!(lease.attempt, applied, "the bid's answer names another attempt");
    from(&cx, &reader, &reader.record(&election).await, applied, sent);

    // Of two unanswered renewals the second one was applied.
    let never_arrived = first.renewal(&lease);
    network.set(Trouble::RequestsLost).await;
    drop(first.try_renew(&never_arrived).await);
    cx.sleep(apart / 2).await;
    let mut unanswered = first.renewal(&lease);
    unanswered.open.push(never_arrived.attempt);
    network.set(Trouble::AnswersLost).await;
    let sent = cx.now();
    drop(first.try_renew(&unanswered).await);
    network.set(Trouble::None).await;
    cx.sleep(apart).await;
    let record = reader.record(&election).await;
    from(&cx, &reader, &record, unanswered.attempt, sent);
    let found = record.lease_of(bid.id).map(|lease| lease.attempt);
    assert_eq!(found, Some(unanswered.attempt), "the lease found by reading");

    // The next renewal knows of both and is the one that counts.
    let mut third = first.renewal(&lease);
    third.open = vec![never_arrived.attempt, unanswered.attempt];
    let sent = cx.now();
    let lease = first.renew_with(&third).await;
    assert_eq!(lease.attempt, third.attempt, "the renewal's answer names another attempt");
    from(&cx, &reader, &reader.record(&election).await, third.attempt, sent);
    assert!(network.troubled() >= 3, "nothing was lost");
    Ok(())
}

/// Checks that the record shows `attempt` and counts the ttl from when it was applied, soon after `sent`.
fn from(cx: &Cx, reader: &Candidate, record: &LeaseRecord, attempt: Attempt, sent: Duration) {
    let shown = record.leader().map(|holder| holder.attempt);
    assert_eq!(shown, Some(attempt), "the attempt in the record");
    let ends = record.time_left.map(|left| cx.now() + left);
    assert!(
        ends >= Some(sent + cx.lasting() - cx.lasting() / 50),
        "the lease ends before the applied attempt's send + ttl: {:?} left",
        record.time_left
    );
    let guarantees = reader.store.guarantees();
    if guarantees.clock == ExpiryClock::Observer {
        return;
    }
    let latest = sent + cx.lasting() + guarantees.ttl_grain + cx.slack();
    assert!(
        ends <= Some(latest),
        "the lease is not counted from the applied attempt: {:?} left",
        record.time_left
    );
}
