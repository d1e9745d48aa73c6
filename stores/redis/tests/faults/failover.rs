//! Servers that take each other's place.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::LeaseStore;
use tenure_core::{Clock, SystemClock};
use tenure_testkit::servers::redis::{Cluster, ClusterOptions, Redis, SentinelOptions, Sentinels};

use crate::arena::{Arena, TTL, after, rounds};
use crate::candidate::ELECTION;
use crate::deployment::{Deployment, Promise, SEATS, open};
use crate::faults;

/// A deployment in which another server takes the place of one that is gone.
trait FailsOver: Deployment {
    fn servers(&self) -> &[Redis];

    /// Returns the server that the lease lies in.
    async fn serving(&self) -> &Redis;

    /// Waits until another server than `old` serves.
    async fn taken_over(&self, old: &Redis);

    /// Waits until all is as it was at the start.
    async fn whole(&self);

    /// Returns the replicas of a server.
    async fn replicas_of(&self, master: &Redis) -> Vec<&Redis> {
        let port = master.port().to_string();
        let mut replicas = Vec::new();
        for server in self.servers() {
            let info = server.call(&["INFO", "replication"]).await;
            if info.line("master_port").is_some_and(|of| of == port) {
                replicas.push(server);
            }
        }
        replicas
    }
}

/// A server that takes the place of one that is dead is found within this time.
const DOWN_AFTER: Duration = Duration::from_millis(1000);

/// Long enough to cut the replicas off.
const PAUSE: Duration = Duration::from_secs(2);

/// A master, two replicas, three sentinels.
struct BehindSentinels {
    sentinels: Sentinels,
    ttl: Duration,
    url: String,
    observer: Arc<dyn LeaseStore>,
}

impl BehindSentinels {
    async fn start(ttl: Duration, options: &str) -> Self {
        let sentinels =
            SentinelOptions { down_after: DOWN_AFTER, ..SentinelOptions::default() }.start().await;
        let hosts: Vec<_> = sentinels.addresses().iter().map(ToString::to_string).collect();
        let url = format!(
            "redis+sentinel://{}/{}?survives_restart=true{options}",
            hosts.join(","),
            sentinels.name()
        );
        let observer = open(&url);
        Self { sentinels, ttl, url, observer }
    }
}

impl Deployment for BehindSentinels {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    /// Nobody reaches a master that is dead, and the one in its place waits for what it may have lost.
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

impl FailsOver for BehindSentinels {
    fn servers(&self) -> &[Redis] {
        self.sentinels.servers()
    }

    async fn serving(&self) -> &Redis {
        self.sentinels.master().await
    }

    async fn taken_over(&self, old: &Redis) {
        self.sentinels.new_master(old).await;
    }

    async fn whole(&self) {
        self.sentinels.wait_until_ready().await;
    }
}

/// Three masters with a replica each.
struct InCluster {
    cluster: Cluster,
    slot: u16,
    url: String,
    observer: Arc<dyn LeaseStore>,
}

impl InCluster {
    async fn start() -> Self {
        let cluster = ClusterOptions { down_after: DOWN_AFTER, ..ClusterOptions::default() }.start().await;
        let slot = cluster.slot_of(&format!("tenure:leader:{ELECTION}")).await;
        let hosts: Vec<_> = cluster.addresses().iter().map(ToString::to_string).collect();
        let url = format!("redis+cluster://{}?survives_restart=true", hosts.join(","));
        let observer = open(&url);
        Self { cluster, slot, url, observer }
    }
}

impl Deployment for InCluster {
    /// Nobody reaches a master that is dead, and whoever sees another one in its place waits for what that may have lost.
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

impl FailsOver for InCluster {
    fn servers(&self) -> &[Redis] {
        self.cluster.servers()
    }

    async fn serving(&self) -> &Redis {
        self.cluster.master_of(self.slot).await
    }

    async fn taken_over(&self, old: &Redis) {
        self.cluster.new_master_of(self.slot, old).await;
    }

    async fn whole(&self) {
        self.cluster.wait_until_ready().await;
    }
}

/// The server is killed, and another one takes its place: the leader goes on or somebody else leads.
async fn failover(deployment: impl FailsOver) {
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        arena.leader().await;
        let old = arena.deployment.serving().await;
        old.kill().await;
        arena.deployment.taken_over(old).await;
        old.start_again().await;
        arena.deployment.whole().await;
        arena.leader().await;
    }
    arena.assert_promise().await;
}

/// A person orders a failover: the old master serves on for some ten seconds, and its leader with it. Whoever comes new is
/// sent to the other one.
async fn ordered_failover(deployment: BehindSentinels) {
    // As sentinels are by default: they wait for four greetings of each other before they make the old master a replica.
    for sentinel in deployment.sentinels.sentinels() {
        sentinel.call(&["SENTINEL", "DEBUG", "PUBLISH-PERIOD", "2000"]).await;
    }
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        let leader = arena.leader().await;
        let old = arena.deployment.serving().await.port();
        let other = (leader.seat + 1) % SEATS;
        arena.kill(other);
        let sentinels = &arena.deployment.sentinels;
        sentinels.sentinels()[0].call(&["SENTINEL", "FAILOVER", sentinels.name()]).await;
        let servers = arena.deployment.servers();
        let old = servers.iter().find(|server| server.port() == old).unwrap();
        arena.deployment.taken_over(old).await;
        arena.replace(other).await;
        arena.deployment.whole().await;
        arena.leader_after(&leader).await;
    }
    arena.assert_promise().await;
}

/// Whether somebody comes after the failover who has never heard of the leader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newcomer {
    Comes,
    None,
}

/// The server in its place has never heard of the term: nobody leads beside whoever does not know that yet.
async fn failover_that_loses_the_term(deployment: impl FailsOver, newcomer: Newcomer) {
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        let before = arena.leader().await;
        let place = |arena: &Arena<_>, server: &Redis| {
            let port = server.port();
            FailsOver::servers(&arena.deployment).iter().position(|server| server.port() == port).unwrap()
        };
        let (old, replicas) = {
            let old = arena.deployment.serving().await;
            let replicas = arena.deployment.replicas_of(old).await;
            let replicas: Vec<_> = replicas.into_iter().map(|replica| place(&arena, replica)).collect();
            (place(&arena, old), replicas)
        };
        assert!(!replicas.is_empty());
        // So that what the replicas have last is that nobody leads.
        arena.pause(&before, PAUSE).await;
        // What is on its way to them would still arrive: there must be no way.
        for replica in &replicas {
            arena.deployment.servers()[*replica].freeze().await;
        }
        arena.deployment.servers()[old].call(&["CLIENT", "KILL", "TYPE", "replica"]).await;
        let lost = arena.leader_after(&before).await;
        let other = (lost.seat + 1) % SEATS;
        if newcomer == Newcomer::Comes {
            arena.stop(lost.seat).await;
            arena.kill(other);
        }
        arena.deployment.servers()[old].kill().await;
        for replica in &replicas {
            arena.deployment.servers()[*replica].thaw().await;
        }
        arena.deployment.taken_over(&arena.deployment.servers()[old]).await;
        let record = arena.record().await;
        let mut known = record.last_terms.iter().map(|term| term.token).chain([record.token]);
        assert!(known.all(|token| token != lost.token), "it was not lost: {record:?}");
        if newcomer == Newcomer::Comes {
            arena.replace(other).await;
            // In which it bids; the leader then wakes up, with most of its ttl before it.
            after(SystemClock.now(), Duration::from_secs(1)).await;
            arena.go_on(lost.seat).await;
        }
        arena.leader_after(&lost).await;
        arena.deployment.servers()[old].start_again().await;
        arena.deployment.whole().await;
    }
    arena.assert_promise().await;
}

mod sentinel {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn kill() {
        faults::kill(BehindSentinels::start(TTL, "").await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failover() {
        super::failover(BehindSentinels::start(TTL, "").await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ordered_failover() {
        super::ordered_failover(BehindSentinels::start(TTL, "").await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failover_with_replicas_that_must_have_it() {
        super::failover(BehindSentinels::start(TTL, "&min_replicas=1").await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failover_that_loses_the_term() {
        super::failover_that_loses_the_term(BehindSentinels::start(TTL, "").await, Newcomer::None).await;
    }

    /// The sentinels tell a newcomer that there was a failover.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failover_that_loses_the_term_of_a_leader_that_is_stopped() {
        let deployment = BehindSentinels::start(TTL * 3, "").await;
        super::failover_that_loses_the_term(deployment, Newcomer::Comes).await;
    }
}

mod cluster {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn kill() {
        faults::kill(InCluster::start().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failover() {
        super::failover(InCluster::start().await).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failover_that_loses_the_term() {
        super::failover_that_loses_the_term(InCluster::start().await, Newcomer::None).await;
    }
}
