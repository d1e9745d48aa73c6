//! A cluster for the conformance suite.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::ElectionName;
use tenure_core::store::{ErrorKind, LeaseStore};
use tenure_testkit::conformance::{Network, Refusal};
use tenure_testkit::proxy::{Proxies, ProxyNetwork, Requests, Resp};
use tenure_testkit::servers::redis::{Cluster, ClusterOptions, Data, Options, Redis};

use super::deployed::{Conforming, Deployed};
use super::fixture::{LONG_TTL as TTL, PATIENT, keys};
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

/// The cluster, emptied.
pub struct InCluster {
    cluster: Arc<Cluster>,
    network: Arc<ProxyNetwork>,
    /// A server that is alone, kept for as long as it is asked.
    alone: Mutex<Vec<Redis>>,
}

impl InCluster {
    pub async fn emptied(cluster: Arc<Cluster>) -> Conforming<Self> {
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
        let network = Arc::new(ProxyNetwork::new(proxies, handle, CALL_LIMIT, verbs));
        Conforming::new(Self { cluster, network, alone: Mutex::default() })
    }

    fn url_for(&self, user: &str) -> String {
        url_of(Some(user), &self.cluster.addresses())
    }
}

#[async_trait]
impl Deployed for InCluster {
    fn url(&self) -> String {
        format!("{}?{PATIENT}&{SAME_CLOCK}", self.url_for("app"))
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn keepers(&self, election: &ElectionName) -> Vec<&Redis> {
        let slot = here(self.cluster.slot_of(&keys(election).lease));
        vec![here(self.cluster.master_of(slot))]
    }

    /// One after the other, each before the others take it for dead: no replica takes its master's place.
    fn restart(&self, data: Data) -> Vec<&Redis> {
        for server in self.cluster.servers() {
            here(server.restart(data));
        }
        here(self.cluster.wait_until_ready());
        self.cluster.servers().iter().collect()
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
                handle: handle(self.url_for("app").replace(":secret@", ":wrong@")),
                kind: ErrorKind::Denied,
                hint: "refuses the user or the password",
            },
            Refusal {
                what: "a command that is not permitted",
                handle: handle(self.url_for("weak")),
                kind: ErrorKind::Denied,
                hint: "grant +hset",
            },
            Refusal {
                what: "keys that are not permitted",
                handle: handle(self.url_for("elsewhere")),
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
}
