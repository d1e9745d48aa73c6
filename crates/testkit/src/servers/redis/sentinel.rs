//! One master, two replicas and three sentinels.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;

use super::options::{FIXTURE_PASSWORD, FIXTURE_USER, Kind};
use super::{Options, Redis};
use crate::resp::Reply;
use crate::wait::{LIMIT, look_until};

const SERVERS: usize = 3;
const SENTINELS: usize = 3;

/// How master, replicas and sentinels are set up.
#[derive(Clone, Debug)]
pub struct SentinelOptions {
    /// How master and replicas are set up; a password is that of all of them.
    pub servers: Options,
    /// The password of the sentinels themselves.
    pub sentinel_password: Option<String>,
    /// How long a server must not have answered before a sentinel takes it for dead. Longer than a busy machine may
    /// stand still, or a test that kills nobody meets a failover.
    pub down_after: Duration,
}

impl Default for SentinelOptions {
    fn default() -> Self {
        Self { servers: Options::default(), sentinel_password: None, down_after: Duration::from_millis(2000) }
    }
}

impl SentinelOptions {
    /// Starts everything that is set up so, and waits until a failover would succeed.
    ///
    /// # Panics
    /// If the program is missing, or something does not start; with its log.
    pub async fn start(self) -> Sentinels {
        let servers = self.start_servers().await;
        // Last: a sentinel that finds no replicas when it starts looks again only after ten seconds.
        let sentinels = Redis::start_many(SENTINELS, &self.sentinel(servers[0].port())).await;
        let sentinels = Sentinels { servers, sentinels };
        sentinels.hurry().await;
        sentinels.wait_until_ready().await;
        sentinels
    }

    async fn start_servers(&self) -> Vec<Redis> {
        // All of them, since the master is a replica after the next failover.
        let options =
            self.servers.clone().set("masteruser", FIXTURE_USER).set("masterauth", FIXTURE_PASSWORD);
        let master = options.clone().start().await;
        let replica = options.set("replicaof", &format!("127.0.0.1 {}", master.port()));
        let mut servers = Redis::start_many(SERVERS - 1, &replica).await;
        servers.insert(0, master);
        let attached = look_until(async || {
            let online = |reply: &Reply| reply.text().unwrap_or_default().matches("state=online").count();
            (online(&servers[0].call(&["INFO", "replication"]).await) == SERVERS - 1).then_some(())
        });
        let log = || servers[0].server().log_tail();
        assert!(attached.await.is_some(), "the replicas do not come within {LIMIT:?}\n{}", log());
        servers
    }

    fn sentinel(&self, master: u16) -> Options {
        let down_after = self.down_after.as_millis();
        let mut options = Options::default().flavour(self.servers.flavour).kind(Kind::Sentinel);
        // More than half must agree, so that a minority cannot.
        let mut lines = vec![
            format!("monitor {NAME} 127.0.0.1 {master} {}", SENTINELS / 2 + 1),
            format!("down-after-milliseconds {NAME} {down_after}"),
            format!("failover-timeout {NAME} {}", (down_after * 2).max(4000)),
            format!("parallel-syncs {NAME} {SERVERS}"),
            format!("auth-user {NAME} {FIXTURE_USER}"),
            format!("auth-pass {NAME} {FIXTURE_PASSWORD}"),
        ];
        if let Some(password) = &self.sentinel_password {
            options = options.password(password);
            lines.push(format!("sentinel-user {FIXTURE_USER}"));
            lines.push(format!("sentinel-pass {FIXTURE_PASSWORD}"));
        }
        lines.iter().fold(options, |options, line| options.set("sentinel", line))
    }
}

/// The name by which the sentinels know their master.
const NAME: &str = "mymaster";

/// One master, two replicas and three sentinels.
#[derive(Debug)]
pub struct Sentinels {
    servers: Vec<Redis>,
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// Starts them without passwords and waits until a failover would succeed.
    ///
    /// # Panics
    /// If the program is missing, or something does not start; with its log.
    pub async fn start() -> Self {
        SentinelOptions::default().start().await
    }

    /// Returns the servers, each of which may be master; the first one was at the start.
    #[must_use]
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// Returns the sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Returns the addresses of the sentinels: what a candidate is given.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.sentinels.iter().map(Redis::address).collect()
    }

    /// Returns the name of the master among the sentinels.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Returns the master on which all sentinels that run agree, and which takes itself for it; waits for one.
    ///
    /// # Panics
    /// If there is none in time; with the logs.
    pub async fn master(&self) -> &Redis {
        self.wait_for_master("a master", |_| true).await
    }

    /// Waits until another server than `old`, which was killed or frozen, is master.
    ///
    /// # Panics
    /// If there is none in time; with the logs.
    pub async fn new_master(&self, old: &Redis) -> &Redis {
        self.wait_for_master("a new master", |port| port != old.port()).await
    }

    /// Waits until the master has all its replicas, all servers and sentinels are up, and all of them know it.
    ///
    /// # Panics
    /// If that does not come about in time; with the logs.
    pub async fn wait_until_ready(&self) {
        let ready = look_until(async || {
            let master = self.agreed_master().await?;
            let replicas = master.ask(&["INFO", "replication"]).await?.text()?;
            if replicas.matches("state=online").count() < SERVERS - 1 {
                return None;
            }
            for sentinel in &self.sentinels {
                if !self.knows_all(sentinel).await {
                    return None;
                }
            }
            Some(())
        });
        if ready.await.is_none() {
            self.fail("all servers and sentinels");
        }
    }

    /// Tells whether a sentinel sees everybody, and nobody down.
    async fn knows_all(&self, sentinel: &Redis) -> bool {
        let Some(master) = sentinel.ask(&["SENTINEL", "MASTER", NAME]).await else { return false };
        let count = |name| master.field(name).and_then(|count| count.parse::<usize>().ok());
        let Some(replicas) = sentinel.ask(&["SENTINEL", "REPLICAS", NAME]).await else { return false };
        let online = |replica: &&Reply| replica.field("flags").as_deref() == Some("slave");
        count("num-other-sentinels") == Some(SENTINELS - 1)
            && master.field("flags").as_deref() == Some("master")
            && replicas.list().iter().filter(online).count() == SERVERS - 1
    }

    /// Lets sentinels greet each other and look after replicas more often. With two and ten seconds every start would take
    /// three seconds, and a server that comes back ten, since they wait for four greetings before they make it a replica.
    async fn hurry(&self) {
        join_all(self.sentinels.iter().map(|sentinel| async move {
            for (period, milliseconds) in [("PUBLISH-PERIOD", "250"), ("INFO-PERIOD", "1000")] {
                let reply = sentinel.call(&["SENTINEL", "DEBUG", period, milliseconds]).await;
                assert_eq!(reply, Reply::Text("OK".to_owned()), "a sentinel takes no {period}");
            }
        }))
        .await;
    }

    async fn wait_for_master(&self, what: &str, fits: impl Fn(u16) -> bool) -> &Redis {
        let found = look_until(async || {
            let master = self.agreed_master().await?;
            fits(master.port()).then_some(master)
        });
        match found.await {
            Some(master) => master,
            None => self.fail(what),
        }
    }

    async fn agreed_master(&self) -> Option<&Redis> {
        let mut ports = Vec::new();
        for sentinel in &self.sentinels {
            // One that is down has no opinion.
            let Some(reply) = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).await else {
                continue;
            };
            ports.push(reply.list().get(1)?.text()?.parse::<u16>().ok()?);
        }
        let port = *ports.first().filter(|first| ports.iter().all(|port| port == *first))?;
        let master = self.servers.iter().find(|server| server.port() == port)?;
        let role = master.ask(&["ROLE"]).await?;
        (role.list().first()?.text()? == "master").then_some(master)
    }

    fn fail(&self, what: &str) -> ! {
        let logs = self.servers.iter().chain(&self.sentinels);
        let logs: Vec<_> =
            logs.map(|one| format!("port {}: {}", one.port(), one.server().log_tail())).collect();
        panic!("there is no sign of {what} within {LIMIT:?}\n{}", logs.join("\n"));
    }
}
