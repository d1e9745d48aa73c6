//! Several servers that know nothing of each other, for the conformance suite and for behaviours.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::ElectionName;
use tenure_core::store::{ErrorKind, LeaseStore};
use tenure_redis::{RedisConfig, RedlockStore};
use tenure_testkit::conformance::{Network, Refusal};
use tenure_testkit::proxy::{Proxies, ProxyNetwork, Requests, Resp};
use tenure_testkit::resp;
use tenure_testkit::servers::redis::{Data, Options, Redis};

use super::deployed::{Conforming, Deployed, open_url};
use super::{here, name, soon};

/// Longer than for one server, as a call has more to do: a process that does not get a core for a while must not lose a
/// lease by that.
const TTL: Duration = Duration::from_millis(1350);

/// How long a call over the disturbed way takes at most.
const CALL_LIMIT: Duration = Duration::from_millis(300);

/// The suite restarts servers with their data, which these save before, and says so.
const SETTINGS: &str = "survives_restart=true&call_timeout=5s";

/// Returns the URL of some nodes.
pub fn url(nodes: &[SocketAddr], options: &str) -> String {
    let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    format!("redlock://{}?{options}", nodes.join(","))
}

/// Opens the store on some nodes.
pub fn open_nodes(nodes: &[SocketAddr], options: &str) -> RedlockStore {
    RedlockStore::new(RedisConfig::from_url(&url(nodes, options)).unwrap()).unwrap()
}

/// Requests that change something: the first round of a bid only looks.
pub fn writes() -> Requests {
    Requests::matching(|request| {
        let looks = b"$4\r\nread\r\n";
        resp::command(request).is_some_and(|command| command == "EVALSHA")
            && !request.windows(looks.len()).any(|window| window == looks)
    })
}

/// Nodes, of which some may be down for good.
pub struct Independent {
    pub nodes: Vec<Redis>,
    up: usize,
    network: Arc<ProxyNetwork>,
    refusing: Mutex<Vec<Redis>>,
}

impl Independent {
    pub async fn fresh(count: usize, down: usize) -> Conforming<Self> {
        let nodes = here(Redis::start_many(count, &Options::default()));
        let up = count - down;
        for node in &nodes[up..] {
            here(node.kill());
        }
        let addresses: Vec<_> = nodes.iter().map(Redis::address).collect();
        let proxies = Arc::new(Proxies::start(&addresses, Resp));
        let options = format!("survives_restart=true&call_timeout={}ms", CALL_LIMIT.as_millis());
        let handle = Arc::new(open_nodes(&proxies.addresses(), &options));
        // Connecting to all of them takes longer than a call, on a busy machine.
        here(soon("the nodes answer", async || handle.read(&name("connected")).await.is_ok()));
        let network = Arc::new(ProxyNetwork::new(proxies, handle, CALL_LIMIT, writes()));
        Conforming::new(Self { nodes, up, network, refusing: Mutex::default() })
    }

    fn up(&self) -> &[Redis] {
        &self.nodes[..self.up]
    }
}

#[async_trait]
impl Deployed for Independent {
    fn url(&self) -> String {
        let addresses: Vec<_> = self.nodes.iter().map(Redis::address).collect();
        url(&addresses, SETTINGS)
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(120)
    }

    fn keepers(&self, _: &ElectionName) -> Vec<&Redis> {
        self.up().iter().collect()
    }

    fn restart(&self, data: Data) -> Vec<&Redis> {
        for node in self.up() {
            here(node.restart(data));
        }
        self.up().iter().collect()
    }

    fn network(&self) -> Option<Arc<dyn Network>> {
        Some(self.network.clone())
    }

    async fn refusals(&self) -> Vec<Refusal> {
        let guarded = Options::default().user("app", "pw", "~* &* +@all -hset");
        let guarded = here(Redis::start_many(3, &guarded));
        let evicting = here(Redis::start_many(3, &Options::default().set("maxmemory-policy", "allkeys-lru")));
        let full = here(Redis::start_many(3, &Options::default().set("maxmemory", "1")));
        let of = |nodes: &[Redis], login: &str| {
            let nodes: Vec<_> = nodes.iter().map(Redis::address).collect();
            let url = url(&nodes, "survives_restart=true").replace("://", &format!("://{login}"));
            open_url(&url)
        };
        let refusals = vec![
            Refusal {
                what: "a wrong password",
                handle: of(&guarded, "app:wrong@"),
                kind: ErrorKind::Denied,
                hint: "refuses the user or the password",
            },
            Refusal {
                what: "a command that is not permitted",
                handle: of(&guarded, "app:pw@"),
                kind: ErrorKind::Denied,
                hint: "grant +hset",
            },
            Refusal {
                what: "nodes that remove leases",
                handle: of(&evicting, ""),
                kind: ErrorKind::Invalid,
                hint: "allow_eviction=true",
            },
            Refusal {
                what: "nodes without memory",
                handle: of(&full, ""),
                kind: ErrorKind::Unavailable,
                hint: "raise maxmemory",
            },
        ];
        self.refusing.lock().unwrap().extend(guarded.into_iter().chain(evicting).chain(full));
        refusals
    }
}
