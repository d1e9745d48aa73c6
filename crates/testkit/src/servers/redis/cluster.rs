//! A cluster of three masters and three replicas.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::future::join_all;

use super::options::{FIXTURE_PASSWORD, FIXTURE_USER, Kind};
use super::{Options, Redis};
use crate::resp::Reply;
use crate::wait::{LIMIT, look_until};

const MASTERS: usize = 3;
const SLOTS: usize = 16_384;

/// How the servers of a cluster are set up.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// How each server is set up.
    pub servers: Options,
    /// How long a server must not have answered before the others take it for dead. Longer than a busy machine may
    /// stand still, or a test that kills nobody meets a failover.
    pub down_after: Duration,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { servers: Options::default(), down_after: Duration::from_millis(2000) }
    }
}

impl ClusterOptions {
    /// Starts a cluster that is set up so, and waits until a failover of each master would succeed.
    ///
    /// # Panics
    /// If the program is missing, or something does not start; with its log.
    pub async fn start(self) -> Cluster {
        let options = self
            .servers
            .kind(Kind::OfCluster)
            .set("masteruser", FIXTURE_USER)
            .set("masterauth", FIXTURE_PASSWORD)
            .set("cluster-node-timeout", &self.down_after.as_millis().to_string());
        let cluster = Cluster { servers: Redis::start_many(MASTERS * 2, &options).await };
        cluster.form().await;
        cluster.wait_until_ready().await;
        cluster
    }
}

/// A cluster of three masters and three replicas.
#[derive(Debug)]
pub struct Cluster {
    servers: Vec<Redis>,
}

/// Who has which slots, as one server sees it.
struct Range {
    slots: RangeInclusive<u16>,
    /// The master's port.
    master: u16,
}

impl Cluster {
    /// Starts one and waits until a failover of each master would succeed.
    ///
    /// # Panics
    /// If the program is missing, or something does not start; with its log.
    pub async fn start() -> Self {
        ClusterOptions::default().start().await
    }

    /// Returns all servers. At the start the first three are masters, and the fourth is the first one's replica.
    #[must_use]
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// Returns the addresses of all servers: what a candidate is given.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(Redis::address).collect()
    }

    /// Returns the slot of a name in the cluster.
    ///
    /// # Panics
    /// If no server answers.
    pub async fn slot_of(&self, name: &str) -> u16 {
        let slot = look_until(async || match self.ask(&["CLUSTER", "KEYSLOT", name]).await? {
            Reply::Integer(slot) => u16::try_from(slot).ok(),
            _ => None,
        });
        slot.await.unwrap_or_else(|| self.fail("the slot of a name"))
    }

    /// Returns the master of a slot on which all servers that run agree; waits for one.
    ///
    /// # Panics
    /// If there is none in time; with the logs.
    pub async fn master_of(&self, slot: u16) -> &Redis {
        self.wait_for_master(slot, "a master", |_| true).await
    }

    /// Waits until another server than `old`, which was killed or frozen, is the master of a slot.
    ///
    /// # Panics
    /// If there is none in time; with the logs.
    pub async fn new_master_of(&self, slot: u16, old: &Redis) -> &Redis {
        self.wait_for_master(slot, "a new master", |port| port != old.port()).await
    }

    /// Waits until every server runs and sees every slot served, each by a master with a replica that is up to date.
    ///
    /// # Panics
    /// If that does not come about in time; with the logs.
    pub async fn wait_until_ready(&self) {
        let ready = look_until(async || {
            let each = self.servers.iter().map(|server| self.is_ready(server));
            join_all(each).await.into_iter().all(|ready| ready == Some(true)).then_some(())
        });
        if ready.await.is_none() {
            self.fail("a cluster that is whole");
        }
    }

    async fn is_ready(&self, server: &Redis) -> Option<bool> {
        let info = server.ask(&["CLUSTER", "INFO"]).await?;
        let is = |name, value: &str| info.line(name).as_deref() == Some(value);
        let served = is("cluster_state", "ok") && is("cluster_slots_ok", &SLOTS.to_string());
        // Its view of the replicas; the list of slots leaves out one that has not seen a write yet.
        let members = server.ask(&["CLUSTER", "NODES"]).await?.text()?;
        let well = |flags: &str| flags.trim_start_matches("myself,") == "slave";
        let flags = members.lines().filter_map(|member| member.split(' ').nth(2));
        let whole = flags.filter(|flags| well(flags)).count() == self.servers.len() - MASTERS;
        let replication = server.ask(&["INFO", "replication"]).await?;
        let up_to_date = match replication.line("role")?.as_str() {
            "master" => replication.text()?.contains("state=online"),
            _ => replication.line("master_link_status")? == "up",
        };
        let known = is("cluster_known_nodes", &self.servers.len().to_string());
        Some(served && known && whole && up_to_date)
    }

    /// Begins to move a slot: from now on its present master sends on (`ASK`) whoever asks for what it no longer has.
    ///
    /// # Panics
    /// If a server refuses.
    pub async fn begin_move(&self, slot: u16, to: &Redis) {
        let from = self.master_of(slot).await;
        let (slot, source, target) = (slot.to_string(), id(from).await, id(to).await);
        ok(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]).await;
        ok(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]).await;
    }

    /// Moves what a slot has and ends the move: from now on its old master sends everybody away (`MOVED`).
    ///
    /// # Panics
    /// If a server refuses, or the others do not hear of it in time.
    pub async fn finish_move(&self, slot: u16, to: &Redis) {
        self.move_names(slot, to).await;
        let from = self.master_of(slot).await;
        let (text, target) = (slot.to_string(), id(to).await);
        // The new master first: else nobody would have the slot for a moment.
        for server in [to, from] {
            ok(server, &["CLUSTER", "SETSLOT", &text, "NODE", &target]).await;
        }
        self.wait_for_master(slot, "the moved slot", |port| port == to.port()).await;
    }

    /// Moves what a slot has now, and does not end the move: its master sends on (`ASK`) whoever asks for that.
    ///
    /// # Panics
    /// If a server refuses.
    pub async fn move_names(&self, slot: u16, to: &Redis) {
        let from = self.master_of(slot).await;
        let (text, port) = (slot.to_string(), to.port().to_string());
        loop {
            let names = from.call(&["CLUSTER", "GETKEYSINSLOT", &text, "100"]).await;
            let Some(names) = Some(names.list()).filter(|names| !names.is_empty()) else { break };
            let mut migrate: Vec<Vec<u8>> =
                ["MIGRATE", "127.0.0.1", &port, "", "0", "10000"].map(Vec::from).to_vec();
            migrate.extend(["AUTH2", FIXTURE_USER, FIXTURE_PASSWORD, "KEYS"].map(Vec::from));
            migrate.extend(names.iter().filter_map(|name| match name {
                Reply::Bytes(name) => Some(name.clone()),
                _ => None,
            }));
            let moved = from.call(&migrate).await;
            assert!(!matches!(moved, Reply::Error(_)), "slot {slot} cannot be moved: {moved:?}");
        }
    }

    /// Makes one cluster of the servers, all of which have met nobody yet.
    async fn form(&self) {
        let each = self.servers.iter().enumerate();
        join_all(each.clone().map(|(number, server)| async move {
            // Masters with different epochs need not settle first whose word counts.
            ok(server, &["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]).await;
            if number < MASTERS {
                let (first, last) = (number * SLOTS / MASTERS, (number + 1) * SLOTS / MASTERS - 1);
                ok(server, &["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).await;
            }
            // Each of them all others, since word of mouth takes longer.
            for other in self.servers.iter().filter(|other| other.port() != server.port()) {
                ok(server, &["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]).await;
            }
        }))
        .await;
        join_all(each.skip(MASTERS).map(|(number, replica)| async move {
            let master = id(&self.servers[number - MASTERS]).await;
            let told = look_until(async || {
                // Refused until they have met.
                let reply = replica.call(&["CLUSTER", "REPLICATE", &master]).await;
                (reply == Reply::Text("OK".to_owned())).then_some(())
            });
            if told.await.is_none() {
                self.fail("a replica that knows its master");
            }
        }))
        .await;
    }

    async fn wait_for_master(&self, slot: u16, what: &str, fits: impl Fn(u16) -> bool) -> &Redis {
        let found = look_until(async || {
            let master = self.agreed_master(slot).await?;
            fits(master.port()).then_some(master)
        });
        match found.await {
            Some(master) => master,
            None => self.fail(what),
        }
    }

    async fn agreed_master(&self, slot: u16) -> Option<&Redis> {
        let mut masters = Vec::new();
        for server in &self.servers {
            // One that is down has no opinion.
            let Some(ranges) = ranges(server).await else { continue };
            masters.push(ranges.iter().find(|range| range.slots.contains(&slot))?.master);
        }
        let port = *masters.first().filter(|first| masters.iter().all(|port| port == *first))?;
        let master = self.servers.iter().find(|server| server.port() == port)?;
        let role = master.ask(&["ROLE"]).await?;
        let info = master.ask(&["CLUSTER", "INFO"]).await?;
        let serves = info.line("cluster_state").as_deref() == Some("ok");
        (serves && role.list().first()?.text()? == "master").then_some(master)
    }

    /// Asks the first server that answers.
    async fn ask(&self, arguments: &[&str]) -> Option<Reply> {
        for server in &self.servers {
            if let Some(reply) = server.ask(arguments).await {
                return Some(reply);
            }
        }
        None
    }

    fn fail(&self, what: &str) -> ! {
        let logs = self.servers.iter().map(|one| format!("port {}: {}", one.port(), one.server().log_tail()));
        panic!("there is no sign of {what} within {LIMIT:?}\n{}", logs.collect::<Vec<_>>().join("\n"));
    }
}

async fn id(server: &Redis) -> String {
    server.call(&["CLUSTER", "MYID"]).await.text().expect("each server of a cluster has an id")
}

async fn ok(server: &Redis, arguments: &[&str]) {
    let reply = server.call(arguments).await;
    assert_eq!(reply, Reply::Text("OK".to_owned()), "{arguments:?} at port {}", server.port());
}

/// Asks a server that may be down who has which slots.
async fn ranges(server: &Redis) -> Option<Vec<Range>> {
    let number = |reply: &Reply| reply.text()?.parse::<u16>().ok();
    let reply = server.ask(&["CLUSTER", "SLOTS"]).await?;
    let range = |range: &Reply| {
        let [first, last, master, ..] = range.list() else { return None };
        Some(Range { slots: number(first)?..=number(last)?, master: number(master.list().get(1)?)? })
    };
    reply.list().iter().map(range).collect()
}
