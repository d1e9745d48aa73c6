//! The master that sentinels name.
//!
//! Sentinels watch a master and its replicas, and let a replica take its place when it is gone. They are asked whenever a
//! connection is made, and only then: one that lasts needs none of them. What they name is believed only if it takes itself
//! for the master, and only from those whose news is the newest: with each failover a number rises (`config-epoch`), so that
//! a sentinel that has missed one cannot send anybody to the old master. The highest number that any of them named is
//! remembered for as long as the process lives: also a sentinel that is left alone cannot.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::{ServerErrorKind, Value};
use tenure_core::Clock;
use tenure_core::clock::ClockExt;
use tenure_core::store::ErrorKind;

use crate::config::{Address, Host, RedisConfig};
use crate::connect::{ALWAYS, Connect, Connected, Node, Push, REPLICA, connect_plainly};
use crate::error::{About, Trouble};
use crate::link::within;
use crate::store::outcome;

/// The part of a call's time that one sentinel has for its answer: the rest is for the master.
const ASK: u32 = 2;

/// The part of a call's time after which nobody waits for more sentinels than have answered.
const PATIENCE: u32 = 8;

/// A master and the sentinels that know where it is.
pub(crate) struct Sentinels {
    /// How to reach each sentinel.
    sentinels: Vec<RedisConfig>,
    /// How to reach the master, but for its address.
    server: RedisConfig,
    /// What the sentinels call it.
    master: String,
    /// The highest number of a failover that any of them named.
    highest: Arc<AtomicU64>,
    script: &'static str,
    name: String,
    clock: Arc<dyn Clock>,
}

/// Returns the highest number of a failover that was named in this process, which all share who ask the same sentinels for
/// the same master.
fn highest(sentinels: &[Host], master: &str) -> Arc<AtomicU64> {
    type Masters = BTreeMap<(Vec<String>, String), Arc<AtomicU64>>;
    static MASTERS: LazyLock<Mutex<Masters>> = LazyLock::new(Mutex::default);
    let mut sentinels: Vec<_> = sentinels.iter().map(ToString::to_string).collect();
    sentinels.sort_unstable();
    let mut masters = MASTERS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(masters.entry((sentinels, master.to_owned())).or_default())
}

/// What a sentinel says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    master: Host,
    /// Rises with each failover.
    epoch: u64,
    /// So long at least has this one been the only master: [`ALWAYS`] if there has been no failover. A sentinel counts from
    /// when it saw the change, or from its own start.
    serves: Duration,
    /// Whether nobody else takes itself for the master any more. A failover that a person orders leaves the old one as it is
    /// for some ten seconds.
    settled: bool,
}

/// Why a sentinel names no master.
#[derive(Clone, Debug)]
struct Reason {
    kind: ErrorKind,
    text: String,
}

impl Sentinels {
    pub(crate) fn new(
        config: &RedisConfig,
        sentinels: &[Host],
        master: &str,
        script: &'static str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let sentinel = |host: &Host| RedisConfig {
            address: Address::Tcp(host.clone()),
            user: config.sentinel_user.clone(),
            password: config.sentinel_password.clone(),
            database: 0,
            ..config.clone()
        };
        Self {
            sentinels: sentinels.iter().map(sentinel).collect(),
            server: config.clone(),
            master: master.to_owned(),
            highest: highest(sentinels, master),
            script,
            name: config.to_string(),
            clock,
        }
    }

    /// Asks all sentinels at once and returns the newest word. One that answers is enough; the others are waited for a
    /// little, since one of them may know better.
    async fn ask(&self) -> Result<Word, Trouble> {
        let limit = self.server.call_timeout;
        let mut asked: FuturesUnordered<_> =
            self.sentinels.iter().map(|sentinel| self.ask_one(sentinel, limit / ASK)).collect();
        let mut patience = self.clock.sleep(limit / PATIENCE);
        let (mut newest, mut reasons, mut over): (Option<Word>, _, _) = (None, Vec::new(), false);
        while newest.is_none() || !over {
            let answer = tokio::select! {
                biased;
                answer = asked.next() => answer,
                () = &mut patience, if !over => {
                    over = true;
                    continue;
                }
            };
            match answer {
                Some(Ok(word)) => newest = Some(newest.map_or(word.clone(), |other| other.or_newer(word))),
                Some(Err(reason)) => reasons.push(reason),
                None => break,
            }
        }
        newest.ok_or_else(|| self.nobody_knows(&reasons))
    }

    async fn ask_one(&self, sentinel: &RedisConfig, limit: Duration) -> Result<Word, Reason> {
        let mut all = redis::pipe();
        for question in ["GET-MASTER-ADDR-BY-NAME", "MASTER", "REPLICAS"] {
            all.cmd("SENTINEL").arg(question).arg(&self.master);
        }
        let answers = within(&self.clock, limit, async {
            let mut connection = connect_plainly(sentinel).await?;
            connection.send_packed_commands(&all, 0, all.len()).await.map_err(Trouble::Connection)
        });
        let word = answers.await.and_then(|answers| {
            let mut answers = answers.into_iter();
            let [address, details, replicas] = std::array::from_fn(|_| outcome(answers.next()));
            Word::read(address?, details?, replicas?).map_err(Trouble::Reply)
        });
        let word = word.map_err(|trouble| Reason::of(&sentinel.address, &trouble))?;
        let highest = self.highest.fetch_max(word.epoch, Ordering::AcqRel);
        if word.epoch < highest {
            return Err(Reason::missed(&sentinel.address, word.epoch, highest));
        }
        Ok(word)
    }

    fn nobody_knows(&self, reasons: &[Reason]) -> Trouble {
        let kind = match reasons {
            // What all of them say is so; what some say may be mended by the others.
            [first, others @ ..] if others.iter().all(|other| other.kind == first.kind) => first.kind,
            _ => ErrorKind::Unavailable,
        };
        let texts: Vec<_> = reasons.iter().map(|reason| reason.text.as_str()).collect();
        Trouble::Unfit(kind, format!("has no sentinel that names the master: {}", texts.join("; ")))
    }
}

#[async_trait]
impl Connect for Sentinels {
    async fn connect(&self, push: Push) -> Result<Connected, Trouble> {
        let Word { master, serves, settled, .. } = self.ask().await?;
        let name = master.to_string();
        let node =
            Node::new(RedisConfig { address: Address::Tcp(master), ..self.server.clone() }, self.script);
        match node.connect(push).await {
            Ok(connected) => Ok(Connected { serves, settled, ..connected }),
            Err(Trouble::Unfit(kind, what)) if what == REPLICA => {
                let rule = "which is a replica now: a failover is under way, try again";
                Err(Trouble::Unfit(kind, format!("names {name} as the master, {rule}")))
            }
            Err(trouble) => {
                let about = About {
                    operation: "connect",
                    server: &name,
                    access: "",
                    script: self.script,
                    election: None,
                };
                let (kind, message) = trouble.explained(about);
                Err(Trouble::Unfit(kind, format!("names a master that does not serve us: {message}")))
            }
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

impl Word {
    /// Takes the answers to all questions.
    fn read(address: Value, details: Value, replicas: Value) -> Result<Self, String> {
        let address: Option<(String, u16)> =
            redis::from_redis_value(address).map_err(|error| error.to_string())?;
        let Some((host, port)) = address else { return Err("it names no address".to_owned()) };
        let details: BTreeMap<String, String> =
            redis::from_redis_value(details).map_err(|error| error.to_string())?;
        let number = |name: &str| details.get(name).and_then(|text| text.parse::<u64>().ok());
        let epoch = number("config-epoch").ok_or("it names no config-epoch")?;
        // In the middle of a failover it names the new one already, and knows more only about the old one.
        let same = details.get("ip") == Some(&host) && number("port") == Some(port.into());
        let serves = match number("role-reported-time").filter(|_| same) {
            Some(_) if epoch == 0 => ALWAYS,
            Some(ms) => Duration::from_millis(ms),
            None => Duration::ZERO,
        };
        let replicas: Vec<BTreeMap<String, String>> =
            redis::from_redis_value(replicas).map_err(|error| error.to_string())?;
        let word = Self { master: Host { host, port }, epoch, serves, settled: true };
        // Without a failover nobody else ever was the master.
        Ok(if epoch == 0 { word } else { replicas.iter().fold(word, Self::beside) })
    }

    /// Takes into account what is known of one of the others, which may have been the master before.
    fn beside(self, other: &BTreeMap<String, String>) -> Self {
        let is = |name: &str, value: &str| other.get(name).is_some_and(|found| found == value);
        let age = |name: &str| {
            other.get(name).and_then(|text| text.parse().ok()).map_or(Duration::ZERO, Duration::from_millis)
        };
        let is_down = other.get("flags").is_some_and(|flags| flags.contains("down"));
        let is_replica = is("role-reported", "slave");
        let was_asked = age("info-refresh") > Duration::ZERO;
        let since = if is_replica { age("role-reported-time") } else { age("s-down-time") };
        Self {
            serves: self.serves.min(since),
            settled: self.settled && (is_down || is_replica && was_asked),
            ..self
        }
    }

    /// Returns the newer one of two. Of two that are as new, the one counts that is less sure.
    fn or_newer(self, other: Self) -> Self {
        if self.epoch == other.epoch && self.master == other.master {
            let (serves, settled) = (self.serves.min(other.serves), self.settled && other.settled);
            return Self { serves, settled, ..self };
        }
        if other.epoch > self.epoch { other } else { self }
    }
}

impl Reason {
    fn of(sentinel: &Address, trouble: &Trouble) -> Self {
        let (kind, what) = match trouble {
            Trouble::NoAnswer(limit) => {
                (ErrorKind::Unavailable, format!("gave no answer within {} ms", limit.as_millis()))
            }
            Trouble::Connection(error) | Trouble::Server(error) => Self::of_error(error),
            Trouble::Reply(why) => {
                (ErrorKind::Unavailable, format!("answers what is not understood ({why})"))
            }
            other => (ErrorKind::Unavailable, format!("{other:?}")),
        };
        Self::at(sentinel, kind, &what)
    }

    /// A sentinel that has not heard of a failover that others have told us of.
    fn missed(sentinel: &Address, epoch: u64, highest: u64) -> Self {
        let rule = "it must reach the others; if the sentinels were set up anew, start this program anew";
        let what =
            format!("has missed a failover (it knows of config-epoch {epoch}, not of {highest}): {rule}");
        Self::at(sentinel, ErrorKind::Unavailable, &what)
    }

    fn at(sentinel: &Address, kind: ErrorKind, what: &str) -> Self {
        let host = match sentinel {
            Address::Tcp(host) => host.to_string(),
            _ => String::new(),
        };
        Self { kind, text: format!("{host} {what}") }
    }

    fn of_error(error: &redis::RedisError) -> (ErrorKind, String) {
        let detail = error.detail().unwrap_or_default();
        match (error.kind(), error.code().unwrap_or_default()) {
            (redis::ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS" | "NOAUTH") => {
                let rule = "check sentinel_user and sentinel_password";
                (ErrorKind::Denied, format!("refuses the user or the password ({error}): {rule}"))
            }
            (redis::ErrorKind::Server(ServerErrorKind::NoPerm), _) => {
                let rule = "grant +sentinel|get-master-addr-by-name +sentinel|master +sentinel|replicas";
                (ErrorKind::Denied, format!("does not let this user ask for the master: {rule}"))
            }
            (_, "ERR") if detail.contains("unknown command") => {
                let rule = "give the addresses of sentinels, or write redis:// for one server";
                (ErrorKind::Invalid, format!("is no sentinel: {rule}"))
            }
            (_, "ERR") if detail.contains("No such master") => {
                let rule = "write the name that stands behind \"sentinel monitor\" in its configuration";
                (ErrorKind::Invalid, format!("knows no master of this name: {rule}"))
            }
            _ => (ErrorKind::Unavailable, format!("cannot be asked: {error}")),
        }
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinels({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(port: u16, epoch: u64, serves_ms: u64) -> Word {
        let master = Host { host: "h".into(), port };
        Word { master, epoch, serves: Duration::from_millis(serves_ms), settled: true }
    }

    fn texts(texts: &[&str]) -> Value {
        Value::Array(texts.iter().map(|text| Value::BulkString(text.as_bytes().to_vec())).collect())
    }

    #[test]
    fn whoever_has_missed_a_failover_is_not_believed() {
        let (old, new) = (word(1, 3, 90_000), word(2, 4, 5));
        assert_eq!(old.clone().or_newer(new.clone()), new);
        assert_eq!(new.clone().or_newer(old), new);
        // The same server again, two failovers later: the old word about its age does not count.
        assert_eq!(word(1, 3, 90_000).or_newer(word(1, 5, 7)), word(1, 5, 7));
        // One that missed the last two failovers to the same server says too much.
        assert_eq!(word(1, 3, 10).or_newer(word(1, 3, 90)), word(1, 3, 10));
    }

    #[test]
    fn in_the_middle_of_a_failover_the_age_of_the_old_master_does_not_count() {
        let of =
            ["ip", "h", "port", "1", "flags", "master", "config-epoch", "4", "role-reported-time", "90000"];
        let none = Value::Array(Vec::new());
        assert_eq!(Word::read(texts(&["h", "1"]), texts(&of), none.clone()), Ok(word(1, 4, 90_000)));
        assert_eq!(Word::read(texts(&["h", "2"]), texts(&of), none.clone()), Ok(word(2, 4, 0)));
        assert!(Word::read(Value::Nil, texts(&of), none.clone()).is_err());
        let never = ["ip", "h", "port", "1", "config-epoch", "0", "role-reported-time", "9"];
        assert_eq!(Word::read(texts(&["h", "1"]), texts(&never), none).unwrap().serves, ALWAYS);
    }

    #[test]
    fn as_long_as_the_old_master_may_serve_the_new_one_is_not_alone() {
        let of = ["ip", "h", "port", "1", "config-epoch", "4", "role-reported-time", "90000"];
        let with = |replica: &[&str]| {
            let replicas = Value::Array(vec![texts(replica)]);
            let word = Word::read(texts(&["h", "1"]), texts(&of), replicas).unwrap();
            (word.settled, word.serves.as_millis())
        };
        let replica = |role, age, flags| ["role-reported", role, "role-reported-time", age, "flags", flags];
        let told = |entry: [&'static str; 6]| [entry.as_slice(), &["info-refresh", "300"]].concat();
        assert_eq!(with(&told(replica("slave", "95000", "slave"))), (true, 90_000));
        assert_eq!(with(&told(replica("slave", "700", "slave"))), (true, 700), "only lately");
        assert_eq!(with(&told(replica("master", "5000", "slave"))), (false, 0));
        assert_eq!(
            with(&replica("slave", "5000", "slave,disconnected")),
            (false, 5000),
            "nobody asked it yet"
        );
        assert_eq!(with(&replica("slave", "5000", "s_down,slave,disconnected")), (true, 5000));
        let hangs = [replica("master", "9000", "s_down,slave").as_slice(), &["s-down-time", "400"]].concat();
        assert_eq!(with(&hangs), (true, 400));
    }
}
