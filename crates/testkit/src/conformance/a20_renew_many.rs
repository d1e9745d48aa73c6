//! A20: a thousand leases are renewed in one call; each answer stands in its place, and a bad lease costs no other.

use std::sync::Arc;

use futures_util::{StreamExt, stream};
use tenure_core::store::{Bid, Lease, Renewal};

use super::Stall;
use super::cx::{Candidate, Checked, Cx};

const LEASES: usize = 1000;
/// Every tenth lease is given back before the renewal.
const LOST: usize = 10;
/// Nobody holds such a lease: it names a bid and a term that never were.
const MALFORMED: usize = 555;

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let first = cx.candidate("first").await;
    let leases: Vec<Lease> = stream::iter(0..LEASES)
        .map(|i| {
            let (first, election) = (first.clone(), cx.election(&format!("many-{i:04}")));
            async move { first.win_lasting(&election).await }
        })
        .buffered(32)
        .collect()
        .await;
    stream::iter(leases.iter().step_by(LOST).cloned().collect::<Vec<_>>())
        .map(|lease| {
            let first = first.clone();
            async move { first.release(&lease).await }
        })
        .buffer_unordered(32)
        .for_each(|()| std::future::ready(()))
        .await;

    let mut renewals: Vec<_> = leases.iter().map(|lease| first.renewal(lease)).collect();
    renewals[MALFORMED].lease.bid = first.bid().id;
    renewals[MALFORMED].lease.token.0 += 1_000_000;
    renewals[MALFORMED].lease.attempt = cx.attempt();
    let answers = first.store.renew(&renewals).await;
    assert_eq!(answers.len(), LEASES, "as many answers as renewals");
    for (i, answer) in answers.iter().enumerate() {
        let expected = &leases[i];
        match answer {
            Ok(Renewal::Lost(_)) if i % LOST == 0 || i == MALFORMED => {}
            Err(error) if i == MALFORMED && error.kind().is_definite() => {}
            Ok(Renewal::Renewed(lease, _)) if i % LOST != 0 && i != MALFORMED => {
                assert_eq!(
                    (&lease.election, lease.bid, lease.token, lease.renew_count),
                    (&expected.election, expected.bid, expected.token, 1),
                    "the answer at place {i} is of another lease"
                );
            }
            other => panic!("place {i}, {:?}: {other:?}", expected.election),
        }
    }
    let shown = first.record(&leases[MALFORMED].election).await;
    assert_eq!(
        shown.leader().map(|holder| holder.renew_count),
        Some(0),
        "the malformed renewal changed the lease in its place"
    );
    assert!(first.store.renew(&[]).await.is_empty(), "no renewals, no answers");
    match cx.fixture.stall() {
        None => cx.leave_out("a hung part of the call: the fixture cannot hang one lease alone"),
        Some(stall) => one_hangs(&cx, &first, stall).await,
    }
    Ok(())
}

async fn one_hangs(cx: &Arc<Cx>, first: &Candidate, stall: &dyn Stall) {
    let mut leases = Vec::new();
    for i in 0..LEASES / 10 {
        // Not as long as the others: the store may let the whole call wait for a part of it.
        let bid = Bid { ttl: cx.lasting() / 4, ..first.bid() };
        leases.push(first.win_with(&cx.election(&format!("hung-{i:04}")), &bid).await);
    }
    let hung = leases.len() / 2;
    stall.stall(&leases[hung].election).await;
    let renewals: Vec<_> = leases.iter().map(|lease| first.renewal(lease)).collect();
    // A renew interval: whoever hears later than that has lost a try.
    let answers =
        cx.within(cx.lasting() / 12, "renewals beside one that hangs", first.store.renew(&renewals)).await;
    for (i, answer) in answers.iter().enumerate() {
        match answer {
            Ok(Renewal::Renewed(..)) if i != hung => {}
            Err(error) if i == hung && error.is_retryable() => {}
            other => panic!("place {i}, where {hung} hangs: {other:?}"),
        }
    }
    assert_eq!(answers.len(), leases.len(), "as many answers as renewals");
}
