//! Nodes that restart without their data.

use std::time::Duration;

use tenure_core::store::{Acquisition, Bid, RecordState, Renewal};
use tenure_core::{Clock, SystemClock};
use tenure_testkit::servers::redis::{Data, Options, Redis};

use crate::support::fixture::keys;
use crate::support::independent::open_nodes;
use crate::support::{Candidate, here, name, soon};
use crate::{KEPT, addresses};

const FORGETFUL: &str = "call_timeout=20s";

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_forgot_a_lease_vote_for_nobody_else_while_it_may_live() {
    let nodes = here(Redis::start_many(3, &Options::default()));
    let ttl = Duration::from_millis(2500);
    let first = Candidate::new(open_nodes(&addresses(&nodes), FORGETFUL), "first", ttl);
    let election = name("forgotten");
    // New nodes are young, too.
    let Acquisition::Refused(record) = first.acquire(&election).await else { panic!("they have just begun") };
    assert_eq!(record.state, RecordState::Recovering);
    assert!(record.opens_in.is_some_and(|opens_in| opens_in > Duration::ZERO), "{record:?}");

    let lease = first.campaign(&election).await;
    let renewed = SystemClock.now();
    let answer = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
    assert!(matches!(answer, Ok(Renewal::Renewed(..))), "{answer:?}");
    for node in &nodes[1..] {
        here(node.restart(Data::Lost));
    }
    let second = Candidate::new(open_nodes(&addresses(&nodes), FORGETFUL), "second", ttl);
    let next = second.campaign(&election).await;
    let waited = SystemClock.now().time_since(renewed);
    assert!(waited >= ttl, "elected {waited:?} after the last renewal of a lease of {ttl:?}");
    assert!(next.token > lease.token, "{:?} follows {:?}", next.token, lease.token);
    assert_eq!(next.previous, None, "the two may have forgotten a term of theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_began_lately_vote_for_nobody_new_beside_a_lease_that_they_still_have() {
    let nodes = here(Redis::start_many(3, &Options::default()));
    let ttl = Duration::from_secs(60);
    let first = Candidate::new(open_nodes(&addresses(&nodes), KEPT), "first", ttl);
    let election = name("superseded");
    let lease = first.win(&election).await;
    for node in &nodes {
        soon("all have voted", async || node.call(&["GET", &keys(&election).lease]).await.text().is_some())
            .await;
        here(node.restart(Data::Kept));
    }
    // They may have forgotten a later lease than this one. The bidder's own ttl is short: theirs counts.
    let again =
        Candidate::new(open_nodes(&addresses(&nodes), FORGETFUL), "first", Duration::from_millis(100));
    let bid = Bid { supersedes: Some(lease.bid), ..again.bid() };
    let Acquisition::Refused(record) = again.store.acquire(&election, &bid).await.unwrap() else {
        panic!("they have just begun")
    };
    assert_eq!((record.state, record.token), (RecordState::Held, lease.token));
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
    assert!(matches!(renewed, Ok(Renewal::Renewed(..))), "{renewed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_forgot_takes_the_live_holders_lease_back() {
    let nodes = here(Redis::start_many(3, &Options::default()));
    let ttl = Duration::from_secs(60);
    let first = Candidate::new(open_nodes(&addresses(&nodes), KEPT), "first", ttl);
    let election = name("taken-back");
    let mut lease = first.win(&election).await;
    here(nodes[1].restart(Data::Lost));
    // The node is young and gives no vote, but it has what the holder brings.
    let key = keys(&election);
    while nodes[1].call(&["GET", &key.lease]).await.text().is_none() {
        match first.store.renew(&[first.renewal(&lease)]).await.remove(0) {
            Ok(Renewal::Renewed(renewed, _)) => lease = renewed,
            other => panic!("{other:?}"),
        }
    }
    let token = nodes[1].call(&["HGET", &key.record, "token"]).await.text();
    assert_eq!(token, Some(lease.token.to_string()));
    here(nodes[0].kill());
    let second = Candidate::new(open_nodes(&addresses(&nodes), FORGETFUL), "second", ttl);
    soon("the two that are left show the leader", async || {
        let record = second.store.read(&election).await.unwrap().unwrap();
        record.lease_of(lease.bid).is_some_and(|shown| shown.token == lease.token)
    })
    .await;
    let Acquisition::Refused(record) = second.acquire(&election).await else { panic!("two leaders") };
    assert_eq!(record.state, RecordState::Held);
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
    assert!(matches!(renewed, Ok(Renewal::Renewed(..))), "{renewed:?}");
}
