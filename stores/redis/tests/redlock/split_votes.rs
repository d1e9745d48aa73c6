//! Bidders that meet, and votes that are not enough.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::{Acquisition, Bid, ErrorKind, Lease, RecordState, Released};
use tenure_testkit::proxy::{Fault, Requests, Then};
use tenure_testkit::servers::redis::{Options, Redis};
use tokio::sync::Barrier;

use crate::support::fixture::keys;
use crate::support::independent::{open_nodes, writes};
use crate::support::{Candidate, here, name, open, soon};
use crate::{KEPT, addresses, behind_proxies};

const TTL: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn split_votes_end_soon_with_one_winner() {
    let nodes = here(Redis::start_many(5, &Options::default()));
    let election = name("contested");
    let barrier = Arc::new(Barrier::new(6));
    let mut tasks = Vec::new();
    for number in 0..6 {
        let store = open_nodes(&addresses(&nodes), KEPT);
        let candidate = Candidate::new(store, &format!("candidate-{number}"), TTL);
        let (barrier, election) = (Arc::clone(&barrier), election.clone());
        tasks.push(tokio::spawn(async move {
            let mut won = Vec::new();
            for _ in 0..10 {
                barrier.wait().await;
                let lease = bid(&candidate, &election).await;
                // All have their answers: whoever has won gives it back for the next round.
                barrier.wait().await;
                if let Some(lease) = lease {
                    won.push(lease.token);
                    candidate.store.release(&candidate.release_of(&lease)).await.unwrap();
                }
            }
            won
        }));
    }
    let mut tokens = Vec::new();
    for task in tasks {
        tokens.extend(task.await.unwrap());
    }
    assert_eq!(tokens.len(), 10, "one winner of each round");
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 10, "each term has its own token");
    let mut withdrawn = 0;
    for node in &nodes {
        let note = node.call(&["HGET", &keys(&election).record, "withdrawn"]).await;
        withdrawn += u32::from(note.text().is_some());
    }
    assert!(withdrawn > 0, "no vote was ever split");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_attempts_of_one_bid_are_one_term() {
    let nodes = here(Redis::start_many(5, &Options::default()));
    let candidate = Candidate::new(open_nodes(&addresses(&nodes), KEPT), "candidate", TTL);
    let election = name("attempts");
    for _ in 0..10 {
        let first = candidate.bid();
        let again = Bid { attempt: candidate.attempt(), open: vec![first.attempt], ..first.clone() };
        let answers = tokio::join!(
            candidate.store.acquire(&election, &first),
            candidate.store.acquire(&election, &again)
        );
        let (Ok(Acquisition::Acquired(one)), Ok(Acquisition::Acquired(other))) = answers else {
            panic!("{answers:?}")
        };
        assert_eq!(one, other);
        let released = candidate.store.release(&candidate.release_of(&one)).await.unwrap();
        assert_eq!(released, Released::Released);
    }
}

/// Bids until somebody has won.
async fn bid(candidate: &Candidate, election: &tenure_core::ElectionName) -> Option<Lease> {
    let mut bid = candidate.bid();
    loop {
        match candidate.store.acquire(election, &bid).await {
            Ok(Acquisition::Acquired(lease)) => return Some(lease),
            Ok(Acquisition::Refused(record)) if record.state == RecordState::Held => return None,
            Ok(Acquisition::Refused(record)) => panic!("nobody holds it, but: {record:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                bid.open.push(bid.attempt);
                bid.attempt = candidate.attempt();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_made_bids_of_the_dead_block_a_minority_and_no_longer_than_their_ttl() {
    let (nodes, proxies) = behind_proxies(5);
    let other = Candidate::new(open_nodes(&addresses(&nodes), KEPT), "other", TTL);
    let options = "survives_restart=true&call_timeout=500ms";

    // Two votes given, the others lost on the way: a majority is left.
    let dead = Candidate::new(open_nodes(&proxies.addresses(), options), "dead", TTL);
    let election = name("two-of-five");
    half_bid(&dead, &proxies, &election, 0..2).await;
    other.win(&election).await;

    // Two and two: nobody can be elected until enough of them have run out.
    let election = name("two-and-two");
    let ttl = Duration::from_millis(1500);
    for (name, places) in [("dead", 0..2), ("gone", 2..4)] {
        let dead = Candidate::new(open_nodes(&proxies.addresses(), options), name, ttl);
        half_bid(&dead, &proxies, &election, places).await;
    }
    let record = other.store.read(&election).await.unwrap().unwrap();
    assert_eq!(
        (&record.state, &record.holder),
        (&RecordState::Reserved { successor: None }, &None),
        "{record:?}"
    );
    soon("they have run out", async || matches!(other.acquire(&election).await, Acquisition::Acquired(_)))
        .await;
}

/// Bids so that only these nodes get the proposal, and the bidder hears of none.
async fn half_bid(
    dead: &Candidate,
    proxies: &tenure_testkit::proxy::Proxies,
    election: &tenure_core::ElectionName,
    places: std::ops::Range<usize>,
) {
    for (number, proxy) in proxies.all().iter().enumerate() {
        proxy.inject(if places.contains(&number) {
            Fault::LoseAnswers(writes(), Then::Silence)
        } else {
            Fault::LoseRequests(writes(), Then::Silence)
        });
    }
    let error = dead.store.acquire(election, &dead.bid()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    proxies.clear().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_that_arrives_after_the_bid_was_lost_is_not_given() {
    let (nodes, proxies) = behind_proxies(5);
    let options = "survives_restart=true&call_timeout=2s";
    let candidate = Candidate::new(open_nodes(&proxies.addresses(), options), "candidate", TTL);
    let election = name("late");
    // Two nodes are against it, and a third one hears of it late.
    for node in &nodes[..2] {
        let store = open(&node.url(), "survives_restart=true");
        let pause = tenure_core::store::Pause { by: "kim".into(), ends_in: TTL };
        let operator: &dyn tenure_core::store::Operator = &store;
        operator.pause(&election, candidate.attempt(), pause).await.unwrap();
    }
    let late = &proxies.all()[4];
    late.inject(Fault::HoldBack(Requests::containing("$4\r\nvote\r\n")));
    let answer = candidate.store.acquire(&election, &candidate.bid()).await;
    assert!(!matches!(answer, Ok(Acquisition::Acquired(_))), "two votes are no majority: {answer:?}");
    late.wait_for("a vote that was held back", |counts| counts.troubled() > 0).await;
    // The withdrawals have overtaken the votes on connections of their own.
    let note = async || nodes[4].call(&["HGET", &keys(&election).record, "withdrawn"]).await.text();
    soon("the last one is withdrawn", async || note().await.is_some()).await;
    late.clear().await;
    assert!(late.deliver_late().await > 0, "no vote came late");
    for node in &nodes[2..] {
        soon("no vote is left", async || node.call(&["GET", &keys(&election).lease]).await.text().is_none())
            .await;
    }
}
