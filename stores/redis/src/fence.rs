//! A fence in the server that is written to.

use std::sync::{Arc, OnceLock};

use redis::{ServerErrorKind, Value};
use tenure_core::clock::SystemClock;
use tenure_core::store::StoreError;
use tenure_core::{Clock, FencingToken};

use crate::cluster::Cluster;
use crate::config::{InvalidConfig, RedisConfig};
use crate::connect::{Connect, way_to};
use crate::error::{About, Trouble};
use crate::link::{Links, Request};

/// Lets a leader write to keys of a Redis server, and refuses whoever led before.
///
/// The server compares and writes in one step, so that not even a leader that was paused between its check and its write
/// can write over a newer one. The *mark*, the highest token seen, lies in a key of that server; give one to whatever
/// belongs together.
///
/// ```no_run
/// use tenure_core::FencingToken;
/// use tenure_redis::{RedisConfig, RedisFence};
///
/// # async fn example(token: FencingToken) -> Result<(), Box<dyn std::error::Error>> {
/// let fence = RedisFence::new(RedisConfig::from_url("redis://localhost")?, "billing:fence")?;
/// fence.write(token, "SET", "billing:last-run", &["2026-11-16"]).await?;
/// fence.write(token, "HINCRBY", "billing:totals", &["invoices", "1"]).await?;
/// # Ok(())
/// # }
/// ```
///
/// In a Redis Cluster the mark and the keys must lie in one slot: give them one hash tag, such as `{billing}:fence` and
/// `{billing}:totals`. A mark that is removed forgets who has been here; so does one that a failover loses, until the first
/// write of the next term.
#[derive(Debug)]
pub struct RedisFence {
    links: Links,
    cluster: Option<Arc<Cluster>>,
    config: RedisConfig,
    mark: String,
}

/// Why a fenced write did not happen, or may not have.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RedisFenceError {
    /// The token is lower than the highest seen: its term is over. Nothing was written.
    #[error(
        "fencing token {token} is refused, {highest} has been seen: a newer leader has been here, stop writing"
    )]
    Refused {
        /// The token that came.
        token: FencingToken,
        /// The highest token that has been seen.
        highest: FencingToken,
    },
    /// The server gave no outcome. If the error is retryable, the write may have happened.
    #[error(transparent)]
    Server(#[from] StoreError),
}

/// What a command answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Written {
    /// Nothing, or `OK`.
    Done,
    /// A number.
    Number(i64),
    /// A value.
    Bytes(Vec<u8>),
    /// Several answers.
    Many(Vec<Written>),
}

/// What the server runs.
const SOURCE: &str = include_str!("fence.lua");

fn hash() -> &'static str {
    static HASH: OnceLock<String> = OnceLock::new();
    HASH.get_or_init(|| redis::Script::new(SOURCE).get_hash().to_owned())
}

impl RedisFence {
    /// Makes a fence whose mark lies at the key `mark` of a server; the server is asked with the first write.
    ///
    /// Of the configuration only what is about the server counts, and `allow_eviction`: a server that removes keys when its
    /// memory is full may remove the mark.
    ///
    /// # Errors
    /// If the configuration breaks a rule.
    pub fn new(config: RedisConfig, mark: impl Into<String>) -> Result<Self, InvalidConfig> {
        config.check()?;
        let mark = mark.into();
        if mark.is_empty() {
            return Err(InvalidConfig("has no key for the mark of a fence: give one".to_owned()));
        }
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let cluster = Cluster::of(&config, SOURCE, &clock);
        let way: Arc<dyn Connect> = match &cluster {
            Some(cluster) => Arc::clone(cluster) as Arc<dyn Connect>,
            None => way_to(&config, SOURCE, &clock),
        };
        let links = Links::new(way, clock, config.call_timeout);
        Ok(Self { links, cluster, config, mark })
    }

    /// Runs `command key arguments…` if no higher token has been seen, and raises the mark to `token`.
    ///
    /// # Errors
    /// [`Refused`](RedisFenceError::Refused) if a newer leader has been here. After any other error that is retryable the
    /// write may have happened.
    pub async fn write<A: AsRef<[u8]>>(
        &self,
        token: FencingToken,
        command: &str,
        key: &str,
        arguments: &[A],
    ) -> Result<Written, RedisFenceError> {
        let mut call = redis::cmd("EVALSHA");
        call.arg(hash()).arg(2).arg(&self.mark).arg(key).arg(token.0).arg(command);
        for argument in arguments {
            call.arg(argument.as_ref());
        }
        let answer = self.send(&call).await.map_err(|trouble| {
            let access = format!("~{} ~{key}", self.mark);
            let about = About {
                operation: "write",
                server: self.links.server(),
                access: &access,
                script: SOURCE,
                election: None,
            };
            trouble.into_error(about)
        })?;
        self.outcome(token, &answer)
    }

    async fn send(&self, call: &redis::Cmd) -> Result<Value, Trouble> {
        let (begun, limit) = (SystemClock.now(), self.config.call_timeout);
        if let Some(cluster) = &self.cluster {
            return cluster.send(&self.mark, Request::One(call), false, limit).await;
        }
        let answer = crate::store::outcome(self.links.send(Request::One(call), false, limit).await?.pop());
        match answer {
            Err(Trouble::Server(error))
                if error.kind() == redis::ErrorKind::Server(ServerErrorKind::NoScript) =>
            {
                // Nothing happened: the server has forgotten the script.
                let rest = || limit.saturating_sub(SystemClock.now().time_since(begun));
                let mut load = redis::cmd("SCRIPT");
                load.arg("LOAD").arg(SOURCE);
                self.links.send(Request::One(&load), false, rest()).await?;
                crate::store::outcome(self.links.send(Request::One(call), false, rest()).await?.pop())
            }
            answer => answer,
        }
    }

    fn outcome(&self, token: FencingToken, answer: &Value) -> Result<Written, RedisFenceError> {
        let unexpected = |answer: &Value| {
            let about = About {
                operation: "write",
                server: self.links.server(),
                access: "",
                script: SOURCE,
                election: None,
            };
            RedisFenceError::Server(Trouble::Reply(format!("it is {answer:?}")).into_error(about))
        };
        let Value::Array(parts) = answer else { return Err(unexpected(answer)) };
        match parts.as_slice() {
            [Value::BulkString(name), Value::BulkString(highest)] if name == b"refused" => {
                let highest = std::str::from_utf8(highest).ok().and_then(|text| text.parse().ok());
                let highest = FencingToken(highest.unwrap_or(u64::MAX));
                Err(RedisFenceError::Refused { token, highest })
            }
            // A command that answers nothing leaves nothing in the list.
            [Value::BulkString(name)] if name == b"written" => Ok(Written::Done),
            [Value::BulkString(name), value] if name == b"written" => Ok(Written::of(value)),
            _ => Err(unexpected(answer)),
        }
    }
}

impl Written {
    fn of(value: &Value) -> Self {
        match value {
            Value::Int(number) => Self::Number(*number),
            Value::BulkString(bytes) => Self::Bytes(bytes.clone()),
            Value::Array(values) => Self::Many(values.iter().map(Self::of).collect()),
            _ => Self::Done,
        }
    }
}
