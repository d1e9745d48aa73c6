//! Followers hear of what a majority has, once, and ask for nothing meanwhile.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::store::{Change, LeaseStore, RecordState, Renewal};
use tenure_core::{CandidateId, Elections, Settings};
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::independent::open_nodes;
use crate::support::{Candidate, here, name, soon};
use crate::{KEPT, addresses};

const TTL: Duration = Duration::from_secs(60);

/// How often scripts were called so far, on all nodes.
async fn calls(nodes: &[Redis]) -> u64 {
    let mut calls = 0;
    for node in nodes {
        let stats = node.call(&["INFO", "commandstats"]).await;
        let line = stats.line("cmdstat_evalsha").unwrap_or_default();
        calls +=
            line.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0);
    }
    calls
}

#[tokio::test(flavor = "multi_thread")]
async fn each_renewal_and_each_term_is_told_once() {
    let nodes = here(Redis::start_many(3, &Options::default()));
    let leader = Candidate::new(open_nodes(&addresses(&nodes), KEPT), "leader", TTL);
    let store = open_nodes(&addresses(&nodes), KEPT);
    let follower = Candidate::new(store.clone(), "follower", TTL);
    let election = name("told");
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    for node in &nodes {
        soon("a channel", async || node.call(&["PUBSUB", "CHANNELS"]).await.list().len() == 1).await;
    }
    // What a majority shows after the first terms is known without a look.
    let mut lease = leader.win(&election).await;
    loop {
        follower.acquire(&election).await;
        if let Change::Record(record) = changes.next().await.unwrap()
            && record.lease_of(lease.bid).is_some()
        {
            break;
        }
    }
    for _ in 0..5 {
        let renewed = leader.store.renew(&[leader.renewal(&lease)]).await.remove(0).unwrap();
        let Renewal::Renewed(next, _) = renewed else { panic!("{renewed:?}") };
        lease = next;
        let before = calls(&nodes).await;
        let Change::Record(record) = changes.next().await.unwrap() else { panic!("nothing was missed") };
        assert_eq!(record.lease_of(lease.bid).map(|lease| lease.attempt), Some(lease.attempt));
        assert!(record.opens_in.unwrap() > TTL - Duration::from_secs(5), "{record:?}");
        let asked = calls(&nodes).await - before;
        assert!(asked <= 1, "the follower asked: {asked} calls");
    }
    leader.store.release(&leader.release_of(&lease)).await.unwrap();
    let Change::Record(record) = changes.next().await.unwrap() else { panic!("nothing was missed") };
    assert_eq!((record.state, record.token), (RecordState::Free, lease.token));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bid_costs_each_node_two_calls_and_all_else_one() {
    let nodes = here(Redis::start_many(3, &Options::default()));
    let leader = Candidate::new(open_nodes(&addresses(&nodes), KEPT), "leader", TTL);
    let election = name("cost");
    let mut expected = 0;
    let cost = async |expected: u64| {
        // The slowest node's call is not waited for.
        soon("all calls have arrived", async || calls(&nodes).await >= expected).await;
        assert_eq!(calls(&nodes).await, expected);
    };
    for _ in 0..3 {
        let lease = leader.win(&election).await;
        expected += 2 * 3;
        cost(expected).await;
        leader.acquire(&election).await;
        expected += 3;
        cost(expected).await;
        let renewed = leader.store.renew(&[leader.renewal(&lease)]).await.remove(0).unwrap();
        let Renewal::Renewed(lease, _) = renewed else { panic!("{renewed:?}") };
        expected += 3;
        cost(expected).await;
        leader.store.release(&leader.release_of(&lease)).await.unwrap();
        expected += 3;
        cost(expected).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn electors_hand_over_and_lead_on_without_a_minority() {
    let nodes = here(Redis::start_many(5, &Options::default()));
    let elections = |candidate: &str| {
        Elections::builder(open_nodes(&addresses(&nodes), KEPT))
            .candidate(CandidateId::new(candidate).unwrap())
            .settings(Settings::ttl(Duration::from_secs(30)))
            .build()
    };
    let (first, second) = (elections("first"), elections("second"));
    let leads = first.elector("shared").start().unwrap();
    soon("the first leads", async || leads.is_leader()).await;
    let follows = second.elector("shared").start().unwrap();
    for node in &nodes[..2] {
        here(node.kill());
    }
    leads.stop().await;
    soon("the second leads on three of five", async || follows.is_leader()).await;
    follows.stop().await;
}
