//! Several attempts of one bid: what one has won, no other takes away; and what none has won is given back.

use std::time::Duration;

use tenure_core::store::{
    Acquisition, Bid, ErrorKind, LeaseStore, Operator, Pause, RecordState, Released, Renewal,
};
use tenure_core::{ElectionName, FencingToken};
use tenure_redis::RedlockStore;
use tenure_testkit::proxy::{Fault, Proxies, Proxy, Requests, Resp, Then};
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::fixture::keys;
use crate::support::independent::{open_nodes, url, writes};
use crate::support::{Candidate, here, name, open, soon};
use crate::{KEPT, addresses, behind_proxies};

const TTL: Duration = Duration::from_secs(60);

/// Whoever waits for a silent node gives up soon.
const SHORT: &str = "survives_restart=true&call_timeout=1s";

fn votes() -> Requests {
    Requests::containing("$4\r\nvote\r\n")
}

/// The same bid once more.
fn again(candidate: &Candidate, bid: &Bid) -> Bid {
    let open = bid.open.iter().copied().chain([bid.attempt]).collect();
    Bid { attempt: candidate.attempt(), open, ..bid.clone() }
}

async fn token_at(node: &Redis, election: &ElectionName) -> Option<String> {
    let keys = keys(election);
    node.call(&["GET", &keys.lease]).await.text()?;
    node.call(&["HGET", &keys.record, "token"]).await.text()
}

async fn pause_at(node: &Redis, election: &ElectionName, candidate: &Candidate) {
    let store = open(&node.url(), "survives_restart=true");
    let pause = Pause { by: "kim".into(), ends_in: TTL };
    store.pause(election, candidate.attempt(), pause).await.unwrap();
}

async fn lose(proxies: &[Proxy], fault: &Fault) {
    for proxy in proxies {
        proxy.inject(fault.clone());
    }
}

/// Waits until all nodes answer the candidate.
async fn hears_all(candidate: &Candidate, proxies: &[Proxy]) {
    let before: Vec<_> = proxies.iter().map(|proxy| proxy.counts().replies).collect();
    soon("all nodes answer", async || {
        let _ = candidate.store.read(&name("anything")).await;
        proxies.iter().zip(&before).all(|(proxy, before)| proxy.counts().replies > before + 3)
    })
    .await;
}

/// The first three nodes elect somebody. Then another attempt of the same bid, which was on its way, sees only one of them
/// beside the other two: it must not make a second term of it, nor take back what is not its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_attempt_takes_nothing_from_the_one_that_has_won() {
    for others_are_closed in [false, true] {
        let (nodes, proxies) = behind_proxies(5);
        let candidate = Candidate::new(open_nodes(&proxies.addresses(), SHORT), "candidate", TTL);
        let election = name("won");
        hears_all(&candidate, proxies.all()).await;
        lose(&proxies.all()[3..], &Fault::LoseRequests(votes(), Then::Cut)).await;
        let bid = candidate.bid();
        let Acquisition::Acquired(lease) = candidate.store.acquire(&election, &bid).await.unwrap() else {
            panic!("three of five are a majority")
        };
        for proxy in &proxies.all()[3..] {
            proxy.wait_for("a vote that is lost", |counts| counts.requests_lost > 0).await;
            proxy.clear().await;
        }
        hears_all(&candidate, proxies.all()).await;
        if others_are_closed {
            for node in &nodes[3..] {
                pause_at(node, &election, &candidate).await;
            }
        }
        lose(&proxies.all()[1..3], &Fault::BlackHole).await;
        match candidate.store.acquire(&election, &again(&candidate, &bid)).await {
            Ok(Acquisition::Acquired(other)) => assert_eq!(other.token, lease.token, "a second term"),
            Ok(Acquisition::Refused(record)) => panic!("it leads: {record:?}"),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        proxies.clear().await;
        hears_all(&candidate, proxies.all()).await;
        let renewed = candidate.store.renew(&[candidate.renewal(&lease)]).await.remove(0);
        assert!(matches!(renewed, Ok(Renewal::Renewed(..))), "{renewed:?}");
        for node in &nodes[..3] {
            assert_eq!(token_at(node, &election).await, Some(lease.token.to_string()));
        }
    }
}

/// Two attempts give up, each with some votes given and some on their way. What the third one wins with, no late vote of the
/// others may take away.
#[tokio::test(flavor = "multi_thread")]
async fn a_bid_never_wins_with_a_lower_token_than_it_has_proposed() {
    let (_nodes, proxies) = behind_proxies(5);
    let candidate = Candidate::new(open_nodes(&proxies.addresses(), SHORT), "candidate", TTL);
    let election = name("lower");
    let all = proxies.all();
    hears_all(&candidate, all).await;
    // The first token: two votes given without an answer, one on its way.
    let bid = candidate.bid();
    lose(&all[1..3], &Fault::LoseAnswers(votes(), Then::Silence)).await;
    lose(&all[3..4], &Fault::HoldBack(votes())).await;
    for proxy in [&all[0], &all[4]] {
        proxy.inject(Fault::LoseRequests(votes(), Then::Silence));
    }
    assert!(candidate.store.acquire(&election, &bid).await.unwrap_err().is_retryable());
    proxies.clear().await;
    // The second one: the other two have it, and one of those before is about to.
    let bid = again(&candidate, &bid);
    lose(&all[1..2], &Fault::HoldBack(votes())).await;
    lose(&all[2..4], &Fault::LoseRequests(votes(), Then::Silence)).await;
    for proxy in [&all[0], &all[4]] {
        proxy.inject(Fault::LoseAnswers(votes(), Then::Silence));
    }
    assert!(candidate.store.acquire(&election, &bid).await.unwrap_err().is_retryable());
    proxies.clear().await;
    // Three nodes have the first token now.
    assert!(all[3].deliver_late().await > 0, "no vote came late");
    let bid = again(&candidate, &bid);
    let Acquisition::Acquired(lease) = candidate.store.acquire(&election, &bid).await.unwrap() else {
        panic!("nobody else bids")
    };
    assert!(all[1].deliver_late().await > 0, "no vote came late");
    let renewed = candidate.store.renew(&[candidate.renewal(&lease)]).await.remove(0).unwrap();
    let Renewal::Renewed(lease, _) = renewed else { panic!("{renewed:?}") };
    let released = candidate.store.release(&candidate.release_of(&lease)).await.unwrap();
    assert_eq!(released, Released::Released);
    soon("nothing is left of it", async || {
        candidate.store.read(&election).await.unwrap().is_some_and(|record| record.state == RecordState::Free)
    })
    .await;
}

/// A refusal is definite: votes of an attempt that gave up must not stand for a ttl.
#[tokio::test(flavor = "multi_thread")]
async fn a_bid_that_is_refused_leaves_no_votes_behind() {
    let (nodes, proxies) = behind_proxies(5);
    let other = Candidate::new(open_nodes(&addresses(&nodes), KEPT), "other", TTL);
    let candidate = Candidate::new(open_nodes(&proxies.addresses(), SHORT), "candidate", TTL);
    let election = name("refused");
    lose(&proxies.all()[..2], &Fault::LoseAnswers(writes(), Then::Silence)).await;
    lose(&proxies.all()[2..], &Fault::LoseRequests(writes(), Then::Silence)).await;
    let bid = candidate.bid();
    assert!(candidate.store.acquire(&election, &bid).await.unwrap_err().is_retryable());
    proxies.clear().await;
    other.win(&election).await;
    let answer = candidate.store.acquire(&election, &again(&candidate, &bid)).await.unwrap();
    assert!(matches!(answer, Acquisition::Refused(_)), "{answer:?}");
    let held = keys(&election).lease;
    for node in &nodes[..2] {
        soon("no vote is left", async || node.call(&["GET", &held]).await.text().is_none()).await;
    }
}

/// An error that is definite, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_bid_that_is_denied_leaves_no_votes_behind() {
    let user = |rights: &str| Options::default().user("app", "pw", rights);
    let mut nodes = here(Redis::start_many(1, &user("~* &* +@all")));
    nodes.extend(here(Redis::start_many(2, &user("~* &* +@all -set"))));
    let url = url(&addresses(&nodes), KEPT).replace("://", "://app:pw@");
    let candidate = Candidate::new(RedlockStore::from_url(&url).unwrap(), "candidate", TTL);
    let election = name("denied");
    let error = candidate.store.acquire(&election, &candidate.bid()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let keys = keys(&election);
    soon("the vote was given and taken back", async || {
        let note = nodes[0].call(&["HGET", &keys.record, "withdrawn"]).await.text();
        note.is_some() && nodes[0].call(&["GET", &keys.lease]).await.text().is_none()
    })
    .await;
}

/// Somebody leads between a bidder's look and its votes: whoever it names as the one before it, was not.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_led_since_the_look_is_not_left_out() {
    let (nodes, proxies) = behind_proxies(5);
    let others_way = Proxies::start(&addresses(&nodes), Resp);
    for proxy in &others_way.all()[..2] {
        proxy.turn_away().await;
    }
    let candidate = Candidate::new(open_nodes(&proxies.addresses(), SHORT), "candidate", TTL);
    let other = Candidate::new(open_nodes(&others_way.addresses(), KEPT), "other", TTL);
    let election = name("between");
    let first = candidate.win(&election).await;
    candidate.store.release(&candidate.release_of(&first)).await.unwrap();
    for node in &nodes {
        soon("all have heard of it", async || token_at(node, &election).await.is_none()).await;
    }
    // Votes for somebody who is gone, of which the other one does not hear: above that token the candidate will propose.
    let dead = Candidate::new(open_nodes(&proxies.addresses(), SHORT), "dead", TTL);
    lose(&proxies.all()[..2], &Fault::LoseAnswers(writes(), Then::Silence)).await;
    lose(&proxies.all()[2..], &Fault::LoseRequests(writes(), Then::Silence)).await;
    let high = Bid { floor: FencingToken(1 << 52), ..dead.bid() };
    assert!(dead.store.acquire(&election, &high).await.unwrap_err().is_retryable());
    proxies.clear().await;
    hears_all(&candidate, proxies.all()).await;

    proxies.inject(&Fault::HoldBack(votes()));
    let bid = candidate.bid();
    assert!(candidate.store.acquire(&election, &bid).await.unwrap_err().is_retryable());
    let between = other.win(&election).await;
    other.store.release(&other.release_of(&between)).await.unwrap();
    proxies.clear().await;
    assert!(proxies.deliver_late().await >= 3, "no votes came late");
    let lease = match candidate.store.acquire(&election, &again(&candidate, &bid)).await.unwrap() {
        Acquisition::Acquired(lease) => lease,
        Acquisition::Refused(record) => panic!("nobody leads: {record:?}"),
    };
    let previous = lease.previous.as_ref().map(|term| term.token);
    // It names the other one, or the vote that may have been a term.
    assert!(
        previous.is_some_and(|token| token >= between.token),
        "{previous:?}, and not {:?}",
        between.token
    );
}
