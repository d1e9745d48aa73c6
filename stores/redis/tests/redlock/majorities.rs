//! Terms of different majorities, which share one node only.

use std::time::Duration;

use tenure_core::store::{Acquisition, Bid, Lease, RecordState, Renewal};
use tenure_core::{FencingToken, Random};
use tenure_testkit::servers::redis::Options;
use tenure_testkit::servers::redis::Redis;

use crate::support::fixture::keys;
use crate::support::independent::open_nodes;
use crate::support::{Candidate, here, name, soon};
use crate::{KEPT, addresses, behind_proxies};

const TTL: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_across_any_two_majorities() {
    let (_nodes, proxies) = behind_proxies(5);
    let candidate = Candidate::new(open_nodes(&proxies.addresses(), KEPT), "candidate", TTL);
    let election = name("majorities");
    // Far above every clock: only nodes that know it can pass it on.
    let mut last = FencingToken(1 << 52);
    let random = Random::from_seed(5);
    let mut away = [3, 4];
    for term in 0..20 {
        for number in away {
            proxies.all()[number].turn_away().await;
        }
        let floor = if term == 0 { last } else { FencingToken::ZERO };
        let bid = Bid { floor, ..candidate.bid() };
        let lease = match candidate.store.acquire(&election, &bid).await.unwrap() {
            Acquisition::Acquired(lease) => lease,
            Acquisition::Refused(record) => panic!("term {term} without {away:?}: {record:?}"),
        };
        assert!(lease.token > last, "term {term}: {:?} follows {last:?}", lease.token);
        assert!(term == 0 || lease.previous.as_ref().is_some_and(|before| before.token == last));
        last = lease.token;
        candidate.store.release(&candidate.release_of(&lease)).await.unwrap();
        proxies.clear().await;
        // At first the other two that were there: the next majority shares one node with this one.
        away = if term == 0 {
            [0, 1]
        } else {
            let (first, step) = (random.below(5), 1 + random.below(4));
            [first, (first + step) % 5].map(|number| usize::try_from(number).unwrap())
        };
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_two_nodes_missed_is_brought_to_them_and_outlives_the_others() {
    let (nodes, proxies) = behind_proxies(5);
    let candidate = Candidate::new(open_nodes(&proxies.addresses(), KEPT), "candidate", TTL);
    let election = name("missed");
    for proxy in &proxies.all()[3..] {
        proxy.turn_away().await;
    }
    let mut lease = candidate.win(&election).await;
    proxies.clear().await;
    let renew =
        async |lease: &Lease| candidate.store.renew(&[candidate.renewal(lease)]).await.remove(0).unwrap();
    let key = keys(&election).lease;
    while !has(&nodes[3], &key).await || !has(&nodes[4], &key).await {
        let Renewal::Renewed(renewed, _) = renew(&lease).await else { panic!("lost with a majority") };
        lease = renewed;
    }
    for node in &nodes[..2] {
        here(node.kill());
    }
    let Renewal::Renewed(renewed, _) = renew(&lease).await else { panic!("three nodes have the lease") };
    assert_eq!((renewed.token, renewed.renew_count), (lease.token, lease.renew_count + 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minority_can_go_and_with_the_majority_everything_waits() {
    let nodes = here(Redis::start_many(3, &Options::default()));
    let options = "survives_restart=true&call_timeout=2s";
    let first = Candidate::new(open_nodes(&addresses(&nodes), options), "first", TTL);
    let second = Candidate::new(open_nodes(&addresses(&nodes), options), "second", TTL);
    let election = name("goes");
    let lease = first.win(&election).await;
    for node in &nodes {
        soon("all have voted", async || has(node, &keys(&election).lease).await).await;
    }
    here(nodes[0].kill());
    let Acquisition::Refused(record) = second.acquire(&election).await else { panic!("two leaders") };
    assert_eq!((record.state, record.token), (RecordState::Held, lease.token));
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
    assert!(matches!(renewed, Ok(Renewal::Renewed(..))), "{renewed:?}");
    here(nodes[1].kill());
    let error = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap_err();
    assert!(error.is_retryable() && error.to_string().contains("1 of 3 nodes"), "{error}");
    assert!(second.store.read(&election).await.is_err());
    here(nodes[1].start_again());
    soon("two of three again", async || second.store.read(&election).await.is_ok()).await;
}

async fn has(node: &Redis, key: &str) -> bool {
    node.call(&["GET", key]).await.text().is_some()
}
