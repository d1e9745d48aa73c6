//! One server for the conformance suite.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::clock::ClockExt;
use tenure_core::store::{ErrorKind, LeaseStore};
use tenure_core::{ElectionName, SystemClock};
use tenure_testkit::conformance::{Network, Refusal};
use tenure_testkit::process::lead_for_ever;
use tenure_testkit::proxy::{Proxies, ProxyNetwork, Requests, Resp};
use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{ClientCertificates, Data, Flavour, Options, Redis};

use super::deployed::{Conforming, Deployed, open_url};
use super::{documented_access, here, name, open};

/// The ttl of the suite's leases: a process that does not get a core for a few tenths of a second, on a busy machine, must
/// not lose a lease by that.
pub const TTL: Duration = Duration::from_millis(900);

/// The ttl where a new connection takes several round trips or costs a core some time.
pub const LONG_TTL: Duration = Duration::from_millis(1800);

/// How long a call over the disturbed way takes at most.
const CALL_LIMIT: Duration = Duration::from_millis(150);

/// The suite restarts servers with their data, which these keep, and says so.
const SETTINGS: &str = "survives_restart=true&call_timeout=2s";
pub const PATIENT: &str = "survives_restart=true&call_timeout=5s";

type Wrap = fn(Arc<dyn LeaseStore>) -> Arc<dyn LeaseStore>;

/// A server of its own; each handle connects once more, as another process would.
pub struct OneNode {
    pub server: Redis,
    flavour: Flavour,
    /// What stands behind the URL.
    settings: String,
    ttl: Duration,
    wrap: Wrap,
    network: Option<Arc<ProxyNetwork>>,
    /// Servers that refuse, kept for as long as they are asked.
    refusing: Mutex<Vec<Redis>>,
}

impl OneNode {
    pub async fn fresh(wrap: Wrap) -> Conforming<Self> {
        Self::of(Flavour::Redis, Options::default(), wrap).await
    }

    /// Starts a server of somebody else.
    pub async fn of_flavour(flavour: Flavour) -> Conforming<Self> {
        Self::of(flavour, Options::default(), |handle| handle).await
    }

    /// Starts a server that talks TLS only, to a user who may do only what the documents say.
    pub async fn guarded() -> Conforming<Self> {
        let options = Options::default().tls(ClientCertificates::Optional).without_default_user();
        let options = options.user("app", "secret", &documented_access());
        Self::of(Flavour::Redis, options, |handle| handle).await
    }

    async fn of(flavour: Flavour, options: Options, wrap: Wrap) -> Conforming<Self> {
        let server = here(options.flavour(flavour).append_only().start());
        let (network, settings, ttl) = match server.certificates() {
            None => (Some(Arc::new(network(&server, wrap))), SETTINGS.to_owned(), TTL),
            // What is encrypted cannot be told apart: a proxy would disturb the greeting of a new connection as well. The
            // suite disturbs the calls instead.
            Some(certificates) => {
                (None, format!("{PATIENT}&ca={}", certificates.authority().display()), LONG_TTL)
            }
        };
        Conforming::new(Self { server, flavour, settings, ttl, wrap, network, refusing: Mutex::default() })
    }
}

/// Puts a proxy before a server, and a handle before that.
fn network(server: &Redis, wrap: Wrap) -> ProxyNetwork {
    let proxies = Arc::new(Proxies::start(&[server.address()], Resp));
    let way = server.url_by(proxies.addresses()[0]);
    let limited = format!("survives_restart=true&call_timeout={}ms", CALL_LIMIT.as_millis());
    let handle = wrap(Arc::new(open(&way, &limited)));
    // Every verb is a call of the script.
    let verbs = Requests::commands(&["EVALSHA"]);
    ProxyNetwork::new(proxies, handle, CALL_LIMIT, verbs)
}

/// The keys of an election, as the documents say.
pub struct Keys {
    pub lease: String,
    pub record: String,
}

pub fn keys(election: &ElectionName) -> Keys {
    let name = election.as_str().replace('%', "%25").replace('{', "%7B").replace('}', "%7D");
    let lease = format!("tenure:leader:{name}");
    Keys { record: format!("{{{lease}}}:record"), lease }
}

#[async_trait]
impl Deployed for OneNode {
    fn url(&self) -> String {
        format!("{}?{}", self.server.url(), self.settings)
    }

    fn open(&self) -> Arc<dyn LeaseStore> {
        (self.wrap)(open_url(&self.url()))
    }

    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn keepers(&self, _: &ElectionName) -> Vec<&Redis> {
        vec![&self.server]
    }

    fn restart(&self, data: Data) -> Vec<&Redis> {
        here(self.server.restart(data));
        vec![&self.server]
    }

    fn network(&self) -> Option<Arc<dyn Network>> {
        self.network.clone().map(|network| network as Arc<dyn Network>)
    }

    async fn refusals(&self) -> Vec<Refusal> {
        let options = || Options::default().flavour(self.flavour);
        let guarded =
            options().user("app", "pw", "~* &* +@all -hset").user("elsewhere", "pw", "~other:* &* +@all");
        let guarded = here(guarded.start());
        let evicting = here(options().set("maxmemory-policy", "allkeys-lru").start());
        let full = here(options().set("maxmemory", "1").start());
        let open_to_all = here(options().start());
        let master = format!("127.0.0.1 {}", open_to_all.port());
        let replica = here(options().set("replicaof", &master).start());
        let host = open_to_all.address();
        let handle = |url: String| Arc::new(open(&url, "survives_restart=true")) as Arc<dyn LeaseStore>;
        let elsewhere = guarded.url().replace("app:", "elsewhere:");
        let refusals = vec![
            Refusal {
                what: "a wrong password",
                handle: handle(guarded.url().replace(":pw@", ":wrong@")),
                kind: ErrorKind::Denied,
                hint: "refuses the user or the password",
            },
            Refusal {
                what: "a password where none is set",
                handle: handle(format!("redis://nobody:pw@{host}")),
                kind: ErrorKind::Denied,
                hint: "check both",
            },
            Refusal {
                what: "a command that is not permitted",
                handle: handle(guarded.url()),
                kind: ErrorKind::Denied,
                hint: "grant +hset",
            },
            Refusal {
                what: "keys that are not permitted",
                handle: handle(elsewhere),
                kind: ErrorKind::Denied,
                hint: "grant ~tenure:leader:* ~{tenure:leader:*}*",
            },
            Refusal {
                what: "a server that removes leases",
                handle: handle(evicting.url()),
                kind: ErrorKind::Invalid,
                hint: "allow_eviction=true",
            },
            Refusal {
                what: "a server without memory",
                handle: handle(full.url()),
                kind: ErrorKind::Unavailable,
                hint: "raise maxmemory",
            },
            Refusal {
                what: "a replica",
                handle: handle(replica.url()),
                kind: ErrorKind::Unavailable,
                hint: "address of its master",
            },
        ];
        self.refusing.lock().unwrap().extend([guarded, evicting, full, open_to_all, replica]);
        refusals
    }
}

pub async fn get_by_hand(server: &Redis, election: &ElectionName) -> Option<Vec<u8>> {
    let key = keys(election).record;
    match server.call(&["GET", &key]).await {
        Reply::Error(_) => fields(server, &key).await,
        Reply::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}

async fn fields(server: &Redis, key: &str) -> Option<Vec<u8>> {
    let reply = server.call(&["HGETALL", key]).await;
    let texts: Vec<_> = reply.list().iter().map(|field| field.text().unwrap()).collect();
    let fields: BTreeMap<_, _> = texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    (!fields.is_empty()).then(|| serde_json::to_vec(&fields).unwrap())
}

pub async fn put_by_hand(server: &Redis, election: &ElectionName, bytes: Option<Vec<u8>>) {
    let Keys { lease, record } = keys(election);
    let fields: Option<BTreeMap<String, String>> =
        bytes.as_ref().and_then(|bytes| serde_json::from_slice(bytes).ok());
    match (bytes, fields) {
        (None, _) => {
            server.call(&["DEL", &lease, &record]).await;
        }
        (Some(_), Some(fields)) => {
            server.call(&["DEL", &record]).await;
            let mut command = vec!["HSET".to_owned(), record];
            command.extend(fields.into_iter().flat_map(|(name, value)| [name, value]));
            server.call(&command).await;
        }
        (Some(bytes), None) => {
            server.call(&[b"SET", record.as_bytes(), &bytes]).await;
        }
    }
}

pub fn in_a_later_format(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut fields: BTreeMap<String, String> = serde_json::from_slice(bytes).ok()?;
    fields.insert("format".to_owned(), "1001".to_owned());
    serde_json::to_vec(&fields).ok()
}

/// What the process does that is frozen.
pub fn other_process() {
    lead_for_ever(open_url);
}

/// Waits until a server that lost its data, and said that it would not, is as old as it would have to be by itself.
pub async fn grown_up(server: &Redis) {
    let uptime = async || server.call(&["INFO", "server"]).await.line("uptime_in_seconds");
    while uptime().await.unwrap().parse::<u64>().unwrap() < 2 {
        SystemClock.sleep(Duration::from_millis(20)).await;
    }
}

/// Removes everything of an election but its lease.
pub async fn forget(server: &Redis, election: &str) {
    server.call(&["DEL", &keys(&name(election)).record]).await;
}
