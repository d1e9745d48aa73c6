//! Where the server is, who we are there, and where leases lie.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_core::ElectionName;
use url::Url;

use crate::keys::{DEFAULT_PREFIX, DEFAULT_TEMPLATE, Keys};

/// The schemes of [`RedisConfig::from_url`].
pub const SCHEMES: &[&str] = &["redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster", "redlock"];

/// The options that a URL may have after its `?`.
const OPTIONS: &str = "user, password, db, prefix, key, tls, ca, certificate, certificate_private, server_name, \
                       sentinel_user, sentinel_password, min_replicas, max_server_skew, allow_eviction, \
                       survives_restart, longest_ttl, min_ttl, call_timeout";

/// Those whose value may be anything.
const FREE: &[&str] = &[
    "user",
    "password",
    "sentinel_user",
    "sentinel_password",
    "prefix",
    "key",
    "ca",
    "certificate",
    "certificate_private",
];

/// How to reach a Redis server, and where leases lie in it.
///
/// ```
/// use tenure_redis::RedisConfig;
///
/// let config = RedisConfig::from_url("rediss://app:secret@redis.example/2?prefix=shop&ca=/etc/ca.pem")?;
/// assert_eq!(config.database, 2);
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<_, tenure_redis::InvalidConfig>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RedisConfig {
    /// Where the server is.
    pub address: Address,
    /// How the connection is encrypted; `None` is not at all.
    pub tls: Option<Tls>,
    /// Who we are there; `None` is the server's `default`.
    pub user: Option<String>,
    /// The user's password; never written out.
    #[serde(skip_serializing)]
    pub password: Option<String>,
    /// Who we are to the sentinels; `None` is their `default`.
    pub sentinel_user: Option<String>,
    /// The password for the sentinels; never written out.
    #[serde(skip_serializing)]
    pub sentinel_password: Option<String>,
    /// The number of the database.
    pub database: u32,
    /// What `{prefix}` in the key template stands for.
    pub prefix: String,
    /// The key of an election's lease, with `{election}` and, if wanted, `{prefix}`.
    pub key: String,
    /// Work also on a server that removes keys when its memory is full. A lease that it removes has two leaders.
    pub allow_eviction: bool,
    /// The server keeps every answered write over a restart: `appendonly yes` with `appendfsync always`, on a disk that
    /// keeps its word. Without this, a server that began lately grants nothing: it may have forgotten a lease that still
    /// lives.
    pub survives_restart: bool,
    /// So many replicas must have a write before it counts.
    pub min_replicas: u32,
    /// So much may the clocks of two servers differ, of which one takes the other's place.
    #[serde(with = "duration")]
    pub max_server_skew: Duration,
    /// The longest ttl of anybody on this server; what this process sees itself counts anyway. So long
    /// after its start does a server grant nothing.
    #[serde(with = "duration")]
    pub longest_ttl: Duration,
    /// The shortest ttl that a lease may have here.
    #[serde(with = "duration")]
    pub min_ttl: Duration,
    /// How long one call may take, reconnecting included.
    #[serde(with = "duration")]
    pub call_timeout: Duration,
}

/// Where a server is, or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// A host and a port.
    Tcp(Host),
    /// A socket of this machine.
    Unix(PathBuf),
    /// The server that sentinels name.
    Sentinel {
        /// Where the sentinels are; one that answers is enough.
        sentinels: Vec<Host>,
        /// What they call the master.
        master: String,
    },
    /// Some nodes of a cluster; they name the others.
    Cluster(Vec<Host>),
    /// Servers that know nothing of each other, of which a majority decides.
    Redlock(Vec<Host>),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Its name or address.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// How a connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tls {
    /// The file of the authorities that may vouch for the server (PEM); `None` is those of this machine.
    pub ca: Option<PathBuf>,
    /// The file of our own certificate (PEM), if the server wants one.
    pub certificate: Option<PathBuf>,
    /// The file of its key (PEM).
    pub certificate_private: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host's.
    pub server_name: Option<String>,
}

/// A configuration that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the configuration of a Redis store {0}")]
pub struct InvalidConfig(pub String);

impl Default for RedisConfig {
    fn default() -> Self {
        Self {
            address: Address::Tcp(Host { host: "127.0.0.1".into(), port: DEFAULT_PORT }),
            tls: None,
            user: None,
            password: None,
            sentinel_user: None,
            sentinel_password: None,
            database: 0,
            prefix: DEFAULT_PREFIX.into(),
            key: DEFAULT_TEMPLATE.into(),
            allow_eviction: false,
            survives_restart: false,
            min_replicas: 0,
            max_server_skew: Duration::from_millis(500),
            longest_ttl: Duration::ZERO,
            min_ttl: Duration::from_millis(100),
            call_timeout: Duration::from_secs(2),
        }
    }
}

const DEFAULT_PORT: u16 = 6379;
const DEFAULT_SENTINEL_PORT: u16 = 26379;

impl RedisConfig {
    /// Takes a URL, with options after a `?`:
    ///
    /// | URL | is |
    /// |---|---|
    /// | `redis://user:password@host:port/db`, `rediss://…` | one server, `rediss` encrypted |
    /// | `redis+unix:///path` | one server of this machine |
    /// | `redis+sentinel://user:password@a:26379,b,c/mymaster` | the master that sentinels name |
    /// | `redis+cluster://user:password@a:6379,b,c` | a cluster |
    /// | `redlock://user:password@a,b,c/db` | independent servers, of which a majority decides |
    ///
    /// | option | is |
    /// |---|---|
    /// | `prefix`, `key` | [`prefix`](Self::prefix), [`key`](Self::key) |
    /// | `tls=true` | encrypts, where the scheme does not say it |
    /// | `ca`, `certificate`, `certificate_private`, `server_name` | see [`Tls`] |
    /// | `allow_eviction=true`, `survives_restart=true`, `longest_ttl=60s`, `min_ttl=100ms`, `call_timeout=2s` | the fields of that name |
    /// | `min_replicas=1`, `max_server_skew=500ms`, `sentinel_user`, `sentinel_password` | the fields of that name |
    /// | `user`, `password`, `db` | where the URL has no other place for them |
    ///
    /// # Errors
    /// Names the rule that the URL breaks, and the way out; never shows a password.
    pub fn from_url(url: &str) -> Result<Self, InvalidConfig> {
        let wrong = |rule: String| InvalidConfig(rule);
        let (url, hosts) = without_hosts(url);
        let parsed = Url::parse(&url).map_err(|error| {
            wrong(format!("has a URL that is none ({error}): write special characters of a password as %23 for #, %40 for @ …"))
        })?;
        let mut config = Self::default();
        let path = decoded(parsed.path().trim_start_matches('/'))?;
        if parsed.scheme() != "redis+unix" && path.contains('@') {
            return Err(misplaced("/", "%2F"));
        }
        config.address = match parsed.scheme() {
            "redis" | "rediss" => Address::Tcp(host(&parsed, DEFAULT_PORT)?),
            "redis+unix" => unix(&parsed)?,
            "redis+sentinel" if path.is_empty() => {
                return Err(wrong(
                    "does not say what the sentinels call the master: write redis+sentinel://host/mymaster"
                        .into(),
                ));
            }
            "redis+sentinel" => {
                Address::Sentinel { sentinels: several(&hosts, DEFAULT_SENTINEL_PORT)?, master: path.clone() }
            }
            "redis+cluster" if !path.is_empty() => {
                return Err(wrong(format!(
                    "names database {path:?}: a cluster has only one, write redis+cluster://host:port"
                )));
            }
            "redis+cluster" => Address::Cluster(several(&hosts, DEFAULT_PORT)?),
            "redlock" => Address::Redlock(several(&hosts, DEFAULT_PORT)?),
            scheme => {
                let known = SCHEMES.join(", ");
                return Err(wrong(format!("has the scheme {scheme:?}: write one of {known}")));
            }
        };
        if !parsed.username().is_empty() {
            config.user = Some(decoded(parsed.username())?);
        }
        if let Some(password) = parsed.password() {
            config.password = Some(decoded(password)?);
        }
        if let Address::Tcp(_) | Address::Redlock(_) = config.address
            && !path.is_empty()
        {
            config.database = number("path", &path)?;
        }
        let misplaced_at = |(option, value): (Cow<'_, str>, Cow<'_, str>)| {
            option.contains('@') || (value.contains('@') && !FREE.contains(&&*option))
        };
        if parsed.query_pairs().any(misplaced_at) {
            return Err(misplaced("?", "%3F"));
        }
        // Before the options that need it.
        let asks_for_tls = parsed.query_pairs().find(|(option, _)| option == "tls");
        let tls = asks_for_tls.map(|(option, value)| switch(&option, &value)).transpose()?;
        if tls.unwrap_or(parsed.scheme() == "rediss") {
            config.tls = Some(Tls::default());
        }
        if parsed.fragment().is_some() {
            return Err(wrong(
                "has a URL with a \"#\": write it as %23 if it is part of the password".into(),
            ));
        }
        for (option, value) in parsed.query_pairs() {
            config.set(&option, &value)?;
        }
        config.check()?;
        Ok(config)
    }

    fn set(&mut self, option: &str, value: &str) -> Result<(), InvalidConfig> {
        let tls = |config: &mut Self, set: fn(&mut Tls, &str)| match &mut config.tls {
            Some(tls) => {
                set(tls, value);
                Ok(())
            }
            None => Err(InvalidConfig(format!(
                "has the option {option} without encryption: write rediss:// or tls=true"
            ))),
        };
        match option {
            "user" => self.user = Some(value.to_owned()),
            "password" => self.password = Some(value.to_owned()),
            "db" => self.database = number(option, value)?,
            "prefix" => value.clone_into(&mut self.prefix),
            "key" => value.clone_into(&mut self.key),
            "sentinel_user" => self.sentinel_user = Some(value.to_owned()),
            "sentinel_password" => self.sentinel_password = Some(value.to_owned()),
            // Taken before the others.
            "tls" => {}
            "ca" => tls(self, |tls, value| tls.ca = Some(value.into()))?,
            "certificate" => tls(self, |tls, value| tls.certificate = Some(value.into()))?,
            "certificate_private" => tls(self, |tls, value| tls.certificate_private = Some(value.into()))?,
            "server_name" => tls(self, |tls, value| tls.server_name = Some(value.into()))?,
            "allow_eviction" => self.allow_eviction = switch(option, value)?,
            "survives_restart" => self.survives_restart = switch(option, value)?,
            "min_replicas" => self.min_replicas = count(option, value)?,
            "max_server_skew" => self.max_server_skew = time(option, value)?,
            "longest_ttl" => self.longest_ttl = time(option, value)?,
            "min_ttl" => self.min_ttl = time(option, value)?,
            "call_timeout" => self.call_timeout = time(option, value)?,
            _ => {
                return Err(InvalidConfig(format!("has the unknown option {option:?}: there are {OPTIONS}")));
            }
        }
        Ok(())
    }

    /// Tells whether another server may take the place of the one that leases lie in.
    pub(crate) fn fails_over(&self) -> bool {
        let several = matches!(self.address, Address::Sentinel { .. } | Address::Cluster(_));
        // Whoever counts replicas has a use for them.
        several || self.min_replicas > 0
    }

    /// Returns the key at which an election's lease lies.
    ///
    /// # Errors
    /// If the configuration breaks a rule.
    pub fn lease_name(&self, election: &ElectionName) -> Result<String, InvalidConfig> {
        Ok(self.check()?.of(election).lease)
    }

    /// Writes the URL with what says where leases lie, without secrets.
    #[must_use]
    pub fn without_secrets(&self) -> String {
        let default = Self::default();
        let options = [("prefix", &self.prefix, &default.prefix), ("key", &self.key, &default.key)];
        let options = options.into_iter().filter(|(_, value, default)| value != default);
        let options: Vec<_> = options.map(|(name, value, _)| format!("{name}={}", encoded(value))).collect();
        if options.is_empty() { self.to_string() } else { format!("{self}?{}", options.join("&")) }
    }

    /// Checks what can be checked without a server.
    pub(crate) fn check(&self) -> Result<Keys, InvalidConfig> {
        let broken = |rule: &str| Err(InvalidConfig(rule.to_owned()));
        if self.call_timeout.is_zero() {
            return broken("has a call_timeout of zero: no call could ever be answered");
        }
        if self.user.is_some() && self.password.is_none() {
            return broken("has a user without a password: write user:password@host");
        }
        if self.sentinel_user.is_some() && self.sentinel_password.is_none() {
            return broken("has a sentinel_user without a sentinel_password: give both");
        }
        if let Address::Cluster(_) = self.address
            && self.database != 0
        {
            return broken("names a database: a cluster has only number 0");
        }
        if let Address::Redlock(nodes) = &self.address {
            let twice = nodes.iter().enumerate().any(|(at, node)| nodes[..at].contains(node));
            if nodes.len() < 3 || nodes.len().is_multiple_of(2) || twice {
                return broken(
                    "needs an odd number of different nodes, at least three: write redlock://a,b,c",
                );
            }
        }
        if let Some(tls) = &self.tls {
            if tls.certificate.is_some() != tls.certificate_private.is_some() {
                return broken(
                    "has one of certificate and certificate_private: a client's certificate needs both",
                );
            }
            if matches!(self.address, Address::Unix(_)) {
                return broken("encrypts a socket of this machine: leave tls out");
            }
        }
        let keys = Keys::new(&self.key, &self.prefix).map_err(InvalidConfig)?;
        Ok(keys.in_database(self.database))
    }
}

/// What stands before the `@` is a login: a character that ends it too early leaves a part of the password behind, which is
/// not shown.
fn misplaced(character: &str, written: &str) -> InvalidConfig {
    InvalidConfig(format!(
        "has a URL with an \"@\" after a {character:?}: write {character} as {written} if it is part of the password"
    ))
}

/// Takes the hosts of a URL that may name several, and leaves one in their place.
fn without_hosts(url: &str) -> (String, String) {
    let several = ["redis+sentinel", "redis+cluster", "redlock"];
    let Some((scheme, rest)) = url.split_once("://").filter(|(scheme, _)| several.contains(scheme)) else {
        return (url.to_owned(), String::new());
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = authority.split_at(authority.rfind('@').map_or(0, |at| at + 1));
    (format!("{scheme}://{login}hosts{path}"), hosts.to_owned())
}

/// What is no host is not shown: it may be a part of a password.
fn several(hosts: &str, default_port: u16) -> Result<Vec<Host>, InvalidConfig> {
    let hosts = hosts.split(',').enumerate().map(|(at, one)| match Url::parse(&format!("redis://{one}")) {
        Ok(url) => host(&url, default_port),
        Err(error) => Err(InvalidConfig(format!(
            "has no host at place {} of its list ({error}): write a:port,b:port,c:port, and special characters of a \
             password as %23 for #, %2F for / …",
            at + 1
        ))),
    });
    hosts.collect()
}

fn host(url: &Url, default_port: u16) -> Result<Host, InvalidConfig> {
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return Err(InvalidConfig("has a URL without a host: write redis://host:port".into()));
    };
    // The URL's brackets around an IPv6 address are not part of it.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Host { host, port: url.port().unwrap_or(default_port) })
}

fn unix(url: &Url) -> Result<Address, InvalidConfig> {
    if url.host_str().is_some_and(|host| !host.is_empty()) || url.path().len() < 2 {
        return Err(InvalidConfig("names no socket: write redis+unix:///path/to/socket".into()));
    }
    Ok(Address::Unix(decoded(url.path())?.into()))
}

fn decoded(text: &str) -> Result<String, InvalidConfig> {
    let bytes = percent_encoding::percent_decode_str(text);
    let decoded = bytes.decode_utf8().map_err(|_| InvalidConfig("has a URL part that is no text".into()))?;
    Ok(decoded.into_owned())
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

fn number(what: &str, value: &str) -> Result<u32, InvalidConfig> {
    value.parse().map_err(|_| {
        InvalidConfig(format!("has {what} {value:?} for the database: write its number, such as 0"))
    })
}

fn count(option: &str, value: &str) -> Result<u32, InvalidConfig> {
    value.parse().map_err(|_| InvalidConfig(format!("has {option}={value:?}: write a number such as 1")))
}

fn switch(option: &str, value: &str) -> Result<bool, InvalidConfig> {
    value.parse().map_err(|_| InvalidConfig(format!("has {option}={value:?}: write true or false")))
}

fn time(option: &str, value: &str) -> Result<Duration, InvalidConfig> {
    humantime::parse_duration(value)
        .map_err(|_| InvalidConfig(format!("has {option}={value:?}: write a duration such as 500ms or 30s")))
}

/// Durations as people write them: "500ms", "30s".
mod duration {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(*duration))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        humantime::parse_duration(&text).map_err(serde::de::Error::custom)
    }
}

/// Writes the address, without secrets.
impl fmt::Display for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |hosts: &[Host]| hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",");
        match &self.address {
            Address::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
            Address::Tcp(host) => {
                write!(f, "{}://{host}", if self.tls.is_some() { "rediss" } else { "redis" })?;
            }
            Address::Sentinel { sentinels, master } => {
                return write!(f, "redis+sentinel://{}/{master}", list(sentinels));
            }
            Address::Cluster(nodes) => return write!(f, "redis+cluster://{}", list(nodes)),
            Address::Redlock(nodes) => write!(f, "redlock://{}", list(nodes))?,
        }
        write!(f, "/{}", self.database)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            tls,
            user,
            password,
            sentinel_user,
            sentinel_password,
            database,
            prefix,
            key,
            allow_eviction,
            survives_restart,
            min_replicas,
            max_server_skew,
            longest_ttl,
            min_ttl,
            call_timeout,
        } = self;
        f.debug_struct("RedisConfig")
            .field("address", address)
            .field("tls", tls)
            .field("user", user)
            .field("password", &password.as_ref().map(|_| "…"))
            .field("sentinel_user", sentinel_user)
            .field("sentinel_password", &sentinel_password.as_ref().map(|_| "…"))
            .field("database", database)
            .field("prefix", prefix)
            .field("key", key)
            .field("allow_eviction", allow_eviction)
            .field("survives_restart", survives_restart)
            .field("min_replicas", min_replicas)
            .field("max_server_skew", max_server_skew)
            .field("longest_ttl", longest_ttl)
            .field("min_ttl", min_ttl)
            .field("call_timeout", call_timeout)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_the_server_is_and_who_we_are() {
        let config =
            RedisConfig::from_url("redis://app:p%40ss@[::1]:7000/3?prefix=shop&longest_ttl=60s").unwrap();
        assert_eq!(config.address, Address::Tcp(Host { host: "::1".into(), port: 7000 }));
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("app"), Some("p@ss")));
        assert_eq!((config.database, config.prefix.as_str()), (3, "shop"));
        assert_eq!(config.longest_ttl, Duration::from_secs(60));
        assert_eq!(config.to_string(), "redis://[::1]:7000/3");

        let config = RedisConfig::from_url("rediss://:pw@h?ca=/ca.pem&server_name=redis.internal").unwrap();
        assert_eq!(config.user, None);
        let tls = config.tls.unwrap();
        assert_eq!((tls.ca, tls.server_name.as_deref()), (Some("/ca.pem".into()), Some("redis.internal")));

        let config = RedisConfig::from_url("redis+unix:///run/redis.sock?db=2&password=pw").unwrap();
        assert_eq!(config.address, Address::Unix("/run/redis.sock".into()));
        assert_eq!((config.database, config.password.as_deref()), (2, Some("pw")));
    }

    #[test]
    fn a_url_may_name_several_hosts() {
        let host = |host: &str, port| Host { host: host.into(), port };
        let config =
            RedisConfig::from_url("redis+sentinel://app:pw@a,[::1]:1,c:2/shop?tls=true&ca=/ca.pem").unwrap();
        let sentinels = vec![host("a", 26379), host("::1", 1), host("c", 2)];
        assert_eq!(config.address, Address::Sentinel { sentinels, master: "shop".into() });
        assert_eq!((config.user.as_deref(), config.password.as_deref()), (Some("app"), Some("pw")));
        assert_eq!(config.tls.as_ref().unwrap().ca, Some("/ca.pem".into()));
        assert_eq!(config.to_string(), "redis+sentinel://a:26379,[::1]:1,c:2/shop");

        let config = RedisConfig::from_url("redis+cluster://a,b:7001?min_replicas=1").unwrap();
        assert_eq!(config.address, Address::Cluster(vec![host("a", 6379), host("b", 7001)]));
        assert_eq!((config.min_replicas, config.to_string().as_str()), (1, "redis+cluster://a:6379,b:7001"));

        let config = RedisConfig::from_url("redlock://a,b,c/2").unwrap();
        assert_eq!(config.address, Address::Redlock(vec![host("a", 6379), host("b", 6379), host("c", 6379)]));
        assert_eq!((config.database, config.to_string().as_str()), (2, "redlock://a:6379,b:6379,c:6379/2"));
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        for url in ["redis://app:secret@h", "redis+sentinel://a:secret@h,i/m?sentinel_password=secret"] {
            let config = RedisConfig::from_url(url).unwrap();
            let written = serde_json::to_string(&config).unwrap();
            assert!(!format!("{config:?} {config} {written}").contains("secret"));
        }
    }

    #[test]
    fn a_broken_rule_is_named_with_the_way_out() {
        for (url, wants) in [
            ("http://h", "one of redis, rediss, redis+unix"),
            ("redis://", "redis://host:port"),
            ("redis://h/x", "its number"),
            ("redis://app@h", "user:password@host"),
            ("redis://h?ca=/ca.pem", "rediss://"),
            ("rediss://h?certificate=/c.pem", "needs both"),
            ("redis://h?allow_eviction=yes", "true or false"),
            ("redis://h?call_timeout=2", "500ms"),
            ("redis://h?call_timeout=0s", "zero"),
            ("redis://h?tiemout=2s", "there are user,"),
            ("redis://h?key=leader", "without {election}"),
            ("redis://h?prefix=a}b", "no hash tag"),
            ("redis+unix://h", "redis+unix:///path"),
            ("redis+sentinel://a,b", "redis+sentinel://host/mymaster"),
            ("redis+sentinel://a:x,b/m", "a:port,b:port"),
            ("redlock://u:secret/x@a,b,c", "%2F"),
            ("redis+cluster://a,b/1", "only one"),
            ("redlock://a,b", "at least three"),
            ("redlock://a,b,a", "different nodes"),
            ("redlock://u:secret#@a,b,c", "%23"),
            ("redis://app:12/secret@h:6379/0", "%2F"),
            ("redis://app:12?secret@h", "%3F"),
            ("redis://app:12?db=secret@h", "%3F"),
            ("redis://app:12?tls=secret@h", "%3F"),
            ("redis+cluster://app:12/secret@a,b", "%2F"),
            ("redlock://app:12?secret=@a,b,c", "%3F"),
            ("redis://app:secret#1@h", "%23"),
        ] {
            let error = RedisConfig::from_url(url).unwrap_err().to_string();
            assert!(error.contains(wants) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn it_can_be_written_in_a_file() {
        let config: RedisConfig =
            serde_json::from_str(r#"{"address":{"tcp":{"host":"h","port":1}},"call_timeout":"1s"}"#).unwrap();
        assert_eq!(config.call_timeout, Duration::from_secs(1));
        let again: RedisConfig = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
        assert_eq!(again, config);
    }
}
