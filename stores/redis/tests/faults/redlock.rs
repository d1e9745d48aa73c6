//! Five servers that know nothing of each other, of which a majority decides.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::LeaseStore;
use tenure_core::{Clock, SystemClock};
use tenure_testkit::servers::redis::{Data, Options, Redis};

use crate::arena::{Arena, TTL, after, rounds};
use crate::deployment::{Deployment, Promise, SEATS, open};
use crate::faults;

const NODES: usize = 5;

struct Independent {
    nodes: Vec<Redis>,
    ttl: Duration,
    url: String,
    observer: Arc<dyn LeaseStore>,
}

impl Independent {
    async fn start(ttl: Duration) -> Self {
        let nodes = Redis::start_many(NODES, &Options::default()).await;
        let hosts: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
        let url = format!("redlock://{}", hosts.join(","));
        let observer = open(&url);
        Self { nodes, ttl, url, observer }
    }
}

impl Deployment for Independent {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn promise(&self) -> Promise {
        Promise::Exclusion
    }

    fn url(&self, _: usize) -> String {
        self.url.clone()
    }

    fn observer(&self) -> &dyn LeaseStore {
        &*self.observer
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill() {
    faults::kill(Independent::start(TTL).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop() {
    faults::stop(Independent::start(TTL).await).await;
}

/// Two nodes are lost, others in each round, and come back with nothing: the leader goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_of_five_nodes_are_lost_and_come_back_empty() {
    let mut arena = Arena::open(Independent::start(TTL).await).await;
    // Three may have elected it, of which two are about to go: with its renewals it comes to the others.
    let leader = arena.leader().await;
    arena.stays(&leader).await;
    for round in 0..rounds() {
        let leader = arena.leader().await;
        let lost = [round % NODES, (round + 2) % NODES];
        for node in lost {
            arena.deployment.nodes[node].kill().await;
        }
        arena.stays(&leader).await;
        for node in lost {
            arena.deployment.nodes[node].restart(Data::Lost).await;
        }
        arena.stays(&leader).await;
    }
    arena.assert_promise().await;
}

/// A leader that three nodes elected is stopped while two were down. Those come back, and one of the three has forgotten: a
/// majority knows nothing of the leader, and must elect nobody beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_has_forgotten_the_leader_elects_nobody_beside_it() {
    let mut arena = Arena::open(Independent::start(TTL * 2).await).await;
    for round in 0..rounds() {
        let before = arena.leader().await;
        let (down, forgets) = ([round % NODES, (round + 1) % NODES], (round + 2) % NODES);
        for node in down {
            arena.deployment.nodes[node].kill().await;
        }
        arena.kill(before.seat);
        let leader = arena.leader_after(&before).await;
        arena.stop(leader.seat).await;
        for node in down.into_iter().chain([forgets]) {
            arena.deployment.nodes[node].restart(Data::Lost).await;
        }
        // One that has never heard of the leader.
        arena.replace(before.seat).await;
        // In which it bids; the leader then wakes up, with some of its ttl before it.
        after(SystemClock.now(), Duration::from_secs(1)).await;
        assert_ne!(before.seat, leader.seat, "of {SEATS}");
        arena.go_on(leader.seat).await;
        arena.leader_after(&before).await;
    }
    arena.assert_promise().await;
}
