//! A cluster for the conformance suite.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::clock::ClockExt;
use tenure_core::store::{ErrorKind, LeaseStore};
use tenure_core::{Clock, ElectionName, SystemClock};
use tenure_testkit::conformance::{ByHand, Fixture, Freezer, Network, Property, Refusal, Restart};
use tenure_testkit::process::Process;
use tenure_testkit::proxy::{Proxies, ProxyNetwork, Requests, Resp};
use tenure_testkit::servers::redis::{Cluster, ClusterOptions, Data, Options, Redis};

use super::fixture::{LONG_TTL as TTL, PATIENT, get_by_hand, grown_up, in_a_later_format, keys, put_by_hand};
use super::{documented_access, documented_access_in_a_cluster, here, open};

/// All servers go by the clock of this machine.
const SAME_CLOCK: &str = "max_server_skew=0ms";

/// How long a call over the disturbed way takes at most: the first one learns who has which slots, connects, and calls.
const CALL_LIMIT: Duration = Duration::from_millis(300);

/// Starts a cluster with users: one who may do what the documents say, one who may not write, and one who may not write
/// our keys.
pub async fn guarded() -> Cluster {
    let rights = format!("{} {}", documented_access(), documented_access_in_a_cluster());
    let servers = Options::default()
        .user("app", "secret", &rights)
        .user("weak", "secret", &format!("{rights} -hset"))
        .user("elsewhere", "secret", &rights.replace("~tenure:", "~other:").replace("~{tenure:", "~{other:"));
    ClusterOptions { servers, ..ClusterOptions::default() }.start().await
}

/// Returns the URL of a cluster by some addresses of it, for a user with the password `secret`, or for anybody.
pub fn url_of(user: Option<&str>, addresses: &[std::net::SocketAddr]) -> String {
    let hosts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let login = user.map(|user| format!("{user}:secret@")).unwrap_or_default();
    format!("redis+cluster://{login}{}", hosts.join(","))
}

/// The cluster, emptied; each handle connects once more, as another process would.
pub struct InCluster {
    cluster: Arc<Cluster>,
    network: Arc<ProxyNetwork>,
    frozen: Mutex<Vec<Process>>,
    /// A server that is alone, kept for as long as it is asked.
    alone: Mutex<Vec<Redis>>,
}

impl InCluster {
    pub async fn emptied(cluster: Arc<Cluster>) -> Self {
        here(cluster.wait_until_ready());
        for server in cluster.servers() {
            // A replica refuses, and follows its master.
            server.call(&["FLUSHALL"]).await;
        }
        let addresses = cluster.addresses();
        let proxies = Arc::new(Proxies::start(&addresses, Resp));
        let limited = format!("survives_restart=true&{SAME_CLOCK}&call_timeout={}ms", CALL_LIMIT.as_millis());
        let handle = Arc::new(open(&url_of(Some("app"), &proxies.addresses()), &limited));
        // Every verb is a call of the script.
        let verbs = Requests::commands(&["EVALSHA"]);
        Self {
            cluster,
            network: Arc::new(ProxyNetwork::new(proxies, handle, CALL_LIMIT, verbs)),
            frozen: Mutex::default(),
            alone: Mutex::default(),
        }
    }

    fn url(&self, user: &str) -> String {
        url_of(Some(user), &self.cluster.addresses())
    }

    fn settings(&self) -> String {
        format!("{PATIENT}&{SAME_CLOCK}")
    }

    fn master_of(&self, election: &ElectionName) -> &Redis {
        here(async {
            let slot = self.cluster.slot_of(&keys(election).lease).await;
            self.cluster.master_of(slot).await
        })
    }
}

#[async_trait]
impl Fixture for InCluster {
    async fn handle(&self) -> Arc<dyn LeaseStore> {
        Arc::new(open(&self.url("app"), &self.settings()))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn applies(&self, property: Property) -> Result<(), &'static str> {
        match property {
            Property::A30 => Err("leases hang on no session"),
            _ => Ok(()),
        }
    }

    fn by_hand(&self) -> Option<&dyn ByHand> {
        Some(self)
    }

    fn restart(&self) -> Option<&dyn Restart> {
        Some(self)
    }

    fn network(&self) -> Option<Arc<dyn Network>> {
        Some(self.network.clone())
    }

    async fn refusals(&self) -> Vec<Refusal> {
        let alone = here(Redis::start());
        let handle = |url: String| Arc::new(open(&url, "survives_restart=true")) as Arc<dyn LeaseStore>;
        let refusals = vec![
            Refusal {
                what: "a wrong password",
                handle: handle(self.url("app").replace(":secret@", ":wrong@")),
                kind: ErrorKind::Denied,
                hint: "refuses the user or the password",
            },
            Refusal {
                what: "a command that is not permitted",
                handle: handle(self.url("weak")),
                kind: ErrorKind::Denied,
                hint: "grant +hset",
            },
            Refusal {
                what: "keys that are not permitted",
                handle: handle(self.url("elsewhere")),
                kind: ErrorKind::Denied,
                hint: "grant ~tenure:leader:* ~{tenure:leader:*}*",
            },
            Refusal {
                what: "a server that is alone",
                handle: handle(url_of(None, &[alone.address()])),
                kind: ErrorKind::Invalid,
                hint: "is no node of a cluster: write redis://",
            },
            Refusal {
                what: "a node that is taken for a server alone",
                handle: handle(format!("redis://app:secret@{}", self.cluster.addresses()[0])),
                kind: ErrorKind::Invalid,
                hint: "write redis+cluster://",
            },
        ];
        self.alone.lock().unwrap().push(alone);
        refusals
    }

    fn freezer(&self) -> Option<&dyn Freezer> {
        Some(self)
    }
}

#[async_trait]
impl ByHand for InCluster {
    async fn get(&self, election: &ElectionName) -> Option<Vec<u8>> {
        get_by_hand(self.master_of(election), election).await
    }

    async fn put(&self, election: &ElectionName, bytes: Option<Vec<u8>>) {
        put_by_hand(self.master_of(election), election, bytes).await;
    }

    fn in_a_later_format(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        in_a_later_format(bytes)
    }
}

/// One after the other, each before the others take it for dead: no replica takes its master's place.
#[async_trait]
impl Restart for InCluster {
    async fn keeping_data(&self) -> bool {
        for server in self.cluster.servers() {
            here(server.restart(Data::Kept));
        }
        here(self.cluster.wait_until_ready());
        true
    }

    async fn losing_data(&self) -> bool {
        for server in self.cluster.servers() {
            here(server.restart(Data::Lost));
        }
        here(self.cluster.wait_until_ready());
        for server in self.cluster.servers() {
            grown_up(server).await;
        }
        true
    }
}

#[async_trait]
impl Freezer for InCluster {
    async fn freeze(&self, election: &ElectionName, after: Duration) {
        let url = format!("{}?{}", self.url("app"), self.settings());
        let other = Process::leading("other_process", &url, election, TTL).await;
        SystemClock.sleep(after).await;
        other.stop().await;
        self.frozen.lock().unwrap().push(other);
    }

    async fn end(&self) {
        self.frozen.lock().unwrap().clear();
    }
}
