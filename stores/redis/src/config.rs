//! Where the server is, who we are there, and where leases lie.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use url::Url;

use crate::keys::{DEFAULT_PREFIX, DEFAULT_TEMPLATE, Keys};

/// The schemes of [`RedisConfig::from_url`].
pub const SCHEMES: &[&str] = &["redis", "rediss", "redis+unix"];

/// The options that a URL may have after its `?`.
const OPTIONS: &str = "user, password, db, prefix, key, ca, certificate, certificate_private, server_name, \
                       allow_eviction, survives_restart, longest_ttl, min_ttl, call_timeout";

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

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// A host and a port.
    Tcp {
        /// The host's name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket of this machine.
    Unix(PathBuf),
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
            address: Address::Tcp { host: "127.0.0.1".into(), port: DEFAULT_PORT },
            tls: None,
            user: None,
            password: None,
            database: 0,
            prefix: DEFAULT_PREFIX.into(),
            key: DEFAULT_TEMPLATE.into(),
            allow_eviction: false,
            survives_restart: false,
            longest_ttl: Duration::ZERO,
            min_ttl: Duration::from_millis(100),
            call_timeout: Duration::from_secs(2),
        }
    }
}

const DEFAULT_PORT: u16 = 6379;

impl RedisConfig {
    /// Takes a URL: `redis://user:password@host:port/db`, `rediss://…` (encrypted) or `redis+unix:///path`, with options
    /// after a `?`.
    ///
    /// | option | is |
    /// |---|---|
    /// | `prefix`, `key` | [`prefix`](Self::prefix), [`key`](Self::key) |
    /// | `ca`, `certificate`, `certificate_private`, `server_name` | see [`Tls`] |
    /// | `allow_eviction=true`, `survives_restart=true`, `longest_ttl=60s`, `min_ttl=100ms`, `call_timeout=2s` | the fields of that name |
    /// | `user`, `password`, `db` | for a socket, whose URL has no other place for them |
    ///
    /// # Errors
    /// Names the rule that the URL breaks, and the way out; never shows a password.
    pub fn from_url(url: &str) -> Result<Self, InvalidConfig> {
        let wrong = |rule: String| InvalidConfig(rule);
        let parsed = Url::parse(url).map_err(|error| {
            wrong(format!("has a URL that is none ({error}): write special characters of a password as %23 for #, %40 for @ …"))
        })?;
        let mut config = Self::default();
        match parsed.scheme() {
            "redis" => config.address = tcp(&parsed)?,
            "rediss" => {
                config.address = tcp(&parsed)?;
                config.tls = Some(Tls::default());
            }
            "redis+unix" => config.address = unix(&parsed)?,
            scheme => {
                let known = SCHEMES.join(", ");
                return Err(wrong(format!("has the scheme {scheme:?}: write one of {known}")));
            }
        }
        if !parsed.username().is_empty() {
            config.user = Some(decoded(parsed.username())?);
        }
        if let Some(password) = parsed.password() {
            config.password = Some(decoded(password)?);
        }
        if let Address::Tcp { .. } = config.address {
            let database = parsed.path().trim_start_matches('/');
            if !database.is_empty() {
                config.database = number("path", database)?;
            }
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
            None => {
                Err(InvalidConfig(format!("has the option {option} without encryption: write rediss://")))
            }
        };
        match option {
            "user" => self.user = Some(value.to_owned()),
            "password" => self.password = Some(value.to_owned()),
            "db" => self.database = number(option, value)?,
            "prefix" => value.clone_into(&mut self.prefix),
            "key" => value.clone_into(&mut self.key),
            "ca" => tls(self, |tls, value| tls.ca = Some(value.into()))?,
            "certificate" => tls(self, |tls, value| tls.certificate = Some(value.into()))?,
            "certificate_private" => tls(self, |tls, value| tls.certificate_private = Some(value.into()))?,
            "server_name" => tls(self, |tls, value| tls.server_name = Some(value.into()))?,
            "allow_eviction" => self.allow_eviction = switch(option, value)?,
            "survives_restart" => self.survives_restart = switch(option, value)?,
            "longest_ttl" => self.longest_ttl = time(option, value)?,
            "min_ttl" => self.min_ttl = time(option, value)?,
            "call_timeout" => self.call_timeout = time(option, value)?,
            _ => {
                return Err(InvalidConfig(format!("has the unknown option {option:?}: there are {OPTIONS}")));
            }
        }
        Ok(())
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
        Keys::new(&self.key, &self.prefix).map_err(InvalidConfig)
    }
}

fn tcp(url: &Url) -> Result<Address, InvalidConfig> {
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return Err(InvalidConfig("has a URL without a host: write redis://host:port".into()));
    };
    // The URL's brackets around an IPv6 address are not part of it.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Address::Tcp { host, port: url.port().unwrap_or(DEFAULT_PORT) })
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

fn number(what: &str, value: &str) -> Result<u32, InvalidConfig> {
    value.parse().map_err(|_| {
        InvalidConfig(format!("has {what} {value:?} for the database: write its number, such as 0"))
    })
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
        match &self.address {
            Address::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
            Address::Tcp { host, port } => {
                let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                write!(f, "{scheme}://{host}:{port}")?;
            }
        }
        write!(f, "/{}", self.database)
    }
}

impl fmt::Debug for RedisConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            tls,
            user,
            password,
            database,
            prefix,
            key,
            allow_eviction,
            survives_restart,
            longest_ttl,
            min_ttl,
            call_timeout,
        } = self;
        f.debug_struct("RedisConfig")
            .field("address", address)
            .field("tls", tls)
            .field("user", user)
            .field("password", &password.as_ref().map(|_| "…"))
            .field("database", database)
            .field("prefix", prefix)
            .field("key", key)
            .field("allow_eviction", allow_eviction)
            .field("survives_restart", survives_restart)
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
        assert_eq!(config.address, Address::Tcp { host: "::1".into(), port: 7000 });
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
    fn a_password_is_shown_nowhere() {
        let config = RedisConfig::from_url("redis://app:secret@h").unwrap();
        let written = serde_json::to_string(&config).unwrap();
        assert!(!format!("{config:?} {config} {written}").contains("secret"));
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
