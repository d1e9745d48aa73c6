//! How a connection is got and what is verified before it is used: the one part that differs between one server and several.

use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::aio::MultiplexedConnection;
use redis::io::AsyncDNSResolver;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo, ProtocolVersion,
    PushInfo, RedisConnectionInfo, RedisFuture, TlsCertificates, Value,
};
use tenure_core::Clock;
use tenure_core::store::ErrorKind;

use crate::cluster::NO_CLUSTER;
use crate::config::{Address, Host, RedisConfig, Tls};
use crate::error::Trouble;
use crate::sentinel::Sentinels;
use crate::store::outcome;

/// Takes what the server tells unasked, and that the connection is gone.
pub(crate) type Push = Box<dyn Fn(PushInfo) + Send + Sync>;

/// A way to a server that leases may lie in.
#[async_trait]
pub(crate) trait Connect: fmt::Debug + Send + Sync + 'static {
    /// Connects to the server that serves now, and verifies it.
    async fn connect(&self, push: Push) -> Result<Connected, Trouble>;

    /// Names the server, for messages; without secrets.
    fn name(&self) -> &str;
}

/// A connection to a server that leases may lie in.
pub(crate) struct Connected {
    pub(crate) connection: MultiplexedConnection,
    /// So long at least had the server been up when the connection was made. It ends with the server, so that whatever
    /// answers on it has been up since.
    pub(crate) up: Duration,
    /// So long at least has the server been the one that serves; [`ALWAYS`] if no other one ever did.
    pub(crate) serves: Duration,
    /// Whether no other server may still take itself for the one that serves. If one may, this one gives nobody a lease.
    pub(crate) settled: bool,
    /// What the server calls its present run; another one may know less.
    pub(crate) run: String,
}

/// Longer than any lease.
pub(crate) const ALWAYS: Duration = Duration::MAX;

/// Returns the way to what a configuration names.
pub(crate) fn way_to(config: &RedisConfig, script: &'static str, clock: &Arc<dyn Clock>) -> Arc<dyn Connect> {
    match &config.address {
        Address::Sentinel { sentinels, master } => {
            Arc::new(Sentinels::new(config, sentinels, master, script, Arc::clone(clock)))
        }
        _ => Arc::new(Node::new(config.clone(), script)),
    }
}

/// A single server.
#[derive(Debug)]
pub(crate) struct Node {
    config: RedisConfig,
    name: String,
    /// What its connections run.
    script: &'static str,
    /// It is one of the nodes of a cluster.
    of_cluster: bool,
}

/// Silence after which the kernel asks whether the other side is there, and how often it does before it gives up.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;

impl Node {
    pub(crate) fn new(config: RedisConfig, script: &'static str) -> Self {
        Self { name: config.to_string(), config, script, of_cluster: false }
    }

    pub(crate) fn of_cluster(config: RedisConfig, script: &'static str) -> Self {
        Self { of_cluster: true, ..Self::new(config, script) }
    }

    /// Connects, and verifies nothing.
    pub(crate) async fn open(&self, push: Push) -> Result<MultiplexedConnection, Trouble> {
        // Version 3 tells us when a connection is gone, and tells changes on it.
        let client = client(&self.config, ProtocolVersion::RESP3)?;
        let settings = settings(&self.config).set_push_sender(move |info| {
            push(info);
            Ok::<_, std::convert::Infallible>(())
        });
        client.get_multiplexed_async_connection_with_config(&settings).await.map_err(Trouble::Connection)
    }
}

/// Makes what connects to one server.
fn client(config: &RedisConfig, protocol: ProtocolVersion) -> Result<Client, Trouble> {
    let unfit = |error| Trouble::Connection(error);
    let address = match (&config.address, &config.tls) {
        (Address::Unix(path), _) => ConnectionAddr::Unix(path.clone()),
        (Address::Tcp(Host { host, port }), None) => ConnectionAddr::Tcp(host.clone(), *port),
        (Address::Tcp(Host { host, port }), Some(tls)) => ConnectionAddr::TcpTls {
            // The name that the certificate must have; where it is, the resolver below says.
            host: tls.server_name.as_ref().unwrap_or(host).clone(),
            port: *port,
            insecure: false,
            tls_params: None,
        },
        _ => return Err(Trouble::Unfit(ErrorKind::Invalid, "are several servers, and not one".into())),
    };
    let mut login = RedisConnectionInfo::default()
        .set_db(config.database.into())
        .set_protocol(protocol)
        // The name of the connection says it; this would be one more permission.
        .set_skip_set_lib_name();
    if let Some(user) = &config.user {
        login = login.set_username(user);
    }
    if let Some(password) = &config.password {
        login = login.set_password(password);
    }
    let tcp = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(
            TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE).with_retries(KEEPALIVE_PROBES),
        )
        // What was sent and never acknowledged: the kernel would go on for a quarter of an hour.
        .set_user_timeout(KEEPALIVE * KEEPALIVE_PROBES);
    let info = address.into_connection_info().map_err(unfit)?.set_redis_settings(login).set_tcp_settings(tcp);
    match &config.tls {
        None => Client::open(info).map_err(unfit),
        Some(tls) => {
            one_provider();
            Client::build_with_tls(info, certificates(tls)?).map_err(unfit)
        }
    }
}

/// The library below takes the process's cryptography. If nobody chose one it would take the only one in the build, and
/// panic if there are two: then it is the one that this project builds with.
fn one_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Somebody else was faster: his choice holds.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

fn certificates(tls: &Tls) -> Result<TlsCertificates, Trouble> {
    let client_tls = match (&tls.certificate, &tls.certificate_private) {
        (Some(certificate), Some(key)) => {
            Some(ClientTlsConfig { client_cert: file(certificate)?, client_key: file(key)? })
        }
        _ => None,
    };
    let root_cert = tls.ca.as_deref().map(file).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

/// Read anew with every connection: certificates are replaced while programs run.
fn file(path: &Path) -> Result<Vec<u8>, Trouble> {
    fs::read(path).map_err(|error| {
        let message = format!("cannot be reached: the file {} cannot be read: {error}", path.display());
        Trouble::Unfit(ErrorKind::Invalid, message)
    })
}

/// Finds the server where the configuration says, whatever name its certificate has.
struct At(Host);

impl AsyncDNSResolver for At {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _host: &'b str,
        _port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((self.0.host.as_str(), self.0.port)).await?.collect();
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

fn settings(config: &RedisConfig) -> AsyncConnectionConfig {
    let settings = AsyncConnectionConfig::new()
        // Our own limit is around every call; two limits would be two opinions.
        .set_connection_timeout(None)
        .set_response_timeout(None);
    match &config.address {
        Address::Tcp(host) => settings.set_dns_resolver(At(host.clone())),
        _ => settings,
    }
}

/// Connects to one server in the way that everything understands, for a few questions; verifies nothing.
pub(crate) async fn connect_plainly(config: &RedisConfig) -> Result<MultiplexedConnection, Trouble> {
    let client = client(config, ProtocolVersion::RESP2)?;
    let connected = client.get_multiplexed_async_connection_with_config(&settings(config)).await;
    connected.map_err(Trouble::Connection)
}

#[async_trait]
impl Connect for Node {
    async fn connect(&self, push: Push) -> Result<Connected, Trouble> {
        let mut connection = self.open(push).await?;
        let (up, run) = verify(&mut connection, &self.config, self.script, self.of_cluster).await?;
        Ok(Connected { connection, up, serves: ALWAYS, settled: true, run })
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// What is said of a server that others write to.
pub(crate) const REPLICA: &str = "is a replica that cannot be written to: give the address of its master";

/// Names the connection, loads the script, and looks whether leases may lie here; one round trip. Returns how long the
/// server has been up at least, and what it calls that run.
async fn verify(
    connection: &mut MultiplexedConnection,
    config: &RedisConfig,
    script: &str,
    of_cluster: bool,
) -> Result<(Duration, String), Trouble> {
    let mut all = redis::pipe();
    all.cmd("CLIENT").arg("SETNAME").arg(format!("tenure-{}", std::process::id()));
    all.cmd("INFO");
    all.cmd("SCRIPT").arg("LOAD").arg(script);
    if config.min_replicas > 0 {
        // For nobody: whoever may not wait learns it here, before anything is written.
        all.cmd("WAIT").arg(0).arg(1);
    }
    let answers = connection.send_packed_commands(&all, 0, all.len()).await.map_err(Trouble::Connection)?;
    let mut answers = answers.into_iter();
    let [named, info, loaded] = std::array::from_fn(|_| outcome(answers.next()));
    let info = match named.and(info)? {
        Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
        Value::VerbatimString { text, .. } => text,
        other => return Err(Trouble::Reply(format!("INFO is {other:?}"))),
    };
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map(str::trim)
            .unwrap_or_default()
    };
    let unfit = |kind, message: &str| Err(Trouble::Unfit(kind, message.to_owned()));
    if field("redis_mode") == "sentinel" {
        let message = "is a sentinel, in which nothing can lie: write redis+sentinel://host:port/mymaster";
        return unfit(ErrorKind::Invalid, message);
    }
    loaded?;
    if field("loading") == "1" {
        return unfit(ErrorKind::Unavailable, "is still loading its data: it will serve soon");
    }
    match (field("cluster_enabled") == "1", of_cluster) {
        (true, false) => {
            return unfit(ErrorKind::Invalid, "is a node of a Redis Cluster: write redis+cluster://");
        }
        (false, true) => return unfit(ErrorKind::Invalid, NO_CLUSTER),
        _ => {}
    }
    if field("role") == "slave" {
        return unfit(ErrorKind::Unavailable, REPLICA);
    }
    if config.min_replicas > 0 {
        outcome(answers.next())?;
    }
    let policy = field("maxmemory_policy");
    if !config.allow_eviction && policy != "noeviction" {
        let message = format!(
            "removes keys when its memory is full (maxmemory-policy {policy}): a lease that it removes has two \
             leaders; use a server with noeviction, or take the risk with allow_eviction=true"
        );
        return Err(Trouble::Unfit(ErrorKind::Invalid, message));
    }
    // The difference of two whole seconds: the true one may be a second less.
    let up: u64 = field("uptime_in_seconds").parse().unwrap_or(0);
    Ok((Duration::from_secs(up.saturating_sub(1)), field("run_id").to_owned()))
}
