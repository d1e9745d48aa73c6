//! A cluster: which server has an election's slot, and where a call goes when that server has it no more.
//!
//! Each master has a connection of its own, as a single server has. A call that a server sends on (`MOVED`, `ASK`) was not
//! applied there, so that sending it to the named server is no repetition; a call without an answer is the caller's to
//! repeat, as everywhere. Whatever happens, one call takes its limit at most.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use redis::{Cmd, Pipeline, RedisError, ServerErrorKind, Value};
use tenure_core::clock::{ClockExt, Moment};
use tenure_core::store::ErrorKind;
use tenure_core::{Clock, Random};

use crate::config::{Address, Host, RedisConfig};
use crate::connect::{ALWAYS, Connect, Connected, Node, Push};
use crate::error::Trouble;
use crate::keys;
use crate::link::{Age, Links, Request, within};
use crate::store::outcome;

/// A cluster has so many slots, for ever.
const SLOTS: u16 = 16_384;

/// So often is one call sent on: more happens only while servers contradict each other.
const HOPS: u32 = 5;

/// A map of at most this age is not asked for again: thousands of calls that find a server gone ask once.
const NEW: Duration = Duration::from_millis(100);

/// The part of a call's time after which the next server is asked for the map, beside the one that keeps silent.
const PATIENCE: u32 = 8;

/// The part of a call's time that learning the map may take where there is an older one: the rest is for the call.
const RENEWING: u32 = 2;

/// The part of the time in which a server must let us in before the next one is tried.
const ONE_OF_MANY: u32 = 3;

/// The servers of a cluster.
pub(crate) struct Cluster {
    config: RedisConfig,
    name: String,
    seeds: Vec<Host>,
    /// What is run there.
    script: &'static str,
    clock: Arc<dyn Clock>,
    random: Random,
    map: Mutex<Map>,
    /// Whoever learns the map has this.
    learning: tokio::sync::Mutex<()>,
}

/// Who has which slots.
struct Map {
    slots: Vec<Option<Arc<Member>>>,
    members: BTreeMap<Host, Arc<Member>>,
    /// When it was asked for.
    learnt: Option<Moment>,
    /// Something does not fit it any more.
    stale: bool,
}

/// One master.
struct Member {
    host: Host,
    links: Links,
    /// When it was first seen to serve; `None` if it did when we came. It may have taken the place of a server whose last
    /// writes it does not have.
    since: Option<Moment>,
}

/// Slots and who has them, as a server tells it.
type Ranges = Vec<(RangeInclusive<u16>, Host)>;

/// How a call reaches a server.
#[derive(Clone, Copy)]
enum How {
    /// As it is.
    Plain,
    /// With the script before it.
    WithScript,
    /// As one that was sent on while its slot moves.
    Asking,
}

/// What an answer asks for.
enum Next {
    /// This server has the slot from now on.
    Moved(Host),
    /// This server has what the call is about already, while the slot moves.
    Ask(Host),
    /// The server has forgotten the script.
    Script,
}

impl Cluster {
    /// Takes the cluster that a configuration names, if it names one.
    pub(crate) fn of(
        config: &RedisConfig,
        script: &'static str,
        clock: &Arc<dyn Clock>,
    ) -> Option<Arc<Self>> {
        let Address::Cluster(seeds) = &config.address else { return None };
        let slots = vec![None; usize::from(SLOTS)];
        let map = Map { slots, members: BTreeMap::new(), learnt: None, stale: true };
        Some(Arc::new(Self {
            config: config.clone(),
            name: config.to_string(),
            seeds: seeds.clone(),
            script,
            clock: Arc::clone(clock),
            random: Random::from_os(),
            map: Mutex::new(map),
            learning: tokio::sync::Mutex::default(),
        }))
    }

    /// Sends one command to whoever has the slot of `key`.
    pub(crate) async fn send(
        &self,
        key: &str,
        request: Request<'_>,
        again: bool,
        limit: Duration,
    ) -> Result<Value, Trouble> {
        let (slot, until) = (slot(key), self.clock.now().plus(limit));
        self.renew_map(until).await?;
        let member = self.member_of(slot)?;
        let answer = self.ask(&member, request, How::Plain, again, until).await;
        self.follow(slot, member, request, answer, again, until).await
    }

    /// Sends many commands, each with its key, all for one server in one go; each has its own answer.
    pub(crate) async fn many(
        &self,
        calls: &[(&str, &Cmd)],
        again: bool,
        limit: Duration,
    ) -> Vec<Result<Value, Trouble>> {
        let until = self.clock.now().plus(limit);
        if let Err(trouble) = self.renew_map(until).await {
            return calls.iter().map(|_| Err(trouble.clone())).collect();
        }
        let slots: &Vec<_> = &calls.iter().map(|(key, _)| slot(key)).collect();
        let mut answers: BTreeMap<usize, Result<Value, Trouble>> = BTreeMap::new();
        let mut by_member: BTreeMap<Host, (Arc<Member>, Vec<usize>)> = BTreeMap::new();
        for (at, slot) in slots.iter().enumerate() {
            match self.member_of(*slot) {
                Ok(member) => {
                    let host = member.host.clone();
                    by_member.entry(host).or_insert_with(|| (member, Vec::new())).1.push(at);
                }
                Err(trouble) => drop(answers.insert(at, Err(trouble))),
            }
        }
        let each = by_member.into_values().map(|(member, places)| async move {
            let commands: Vec<_> = places.iter().map(|at| calls[*at].1).collect();
            let found = self.ask_many(&member, &commands, again, until).await;
            // What is sent on is sent alone: it is the exception.
            let followed = places.iter().zip(found).map(|(at, answer)| {
                let (slot, request) = (slots[*at], Request::One(calls[*at].1));
                let member = Arc::clone(&member);
                async move { (*at, self.follow(slot, member, request, answer, again, until).await) }
            });
            join_all(followed).await
        });
        answers.extend(join_all(each).await.into_iter().flatten());
        answers.into_values().collect()
    }

    /// Returns all masters, of which each has a part of the keys.
    pub(crate) async fn masters(&self, limit: Duration) -> Result<Vec<Links>, Trouble> {
        self.renew_map(self.clock.now().plus(limit)).await?;
        let map = self.map();
        let serving = map.members.values().filter(|member| map.serves(member));
        Ok(serving.map(|member| member.links.clone()).collect())
    }

    /// Goes where an answer sends a call, until there is one that settles it.
    async fn follow(
        &self,
        slot: u16,
        mut member: Arc<Member>,
        request: Request<'_>,
        mut answer: Result<Value, Trouble>,
        again: bool,
        until: Moment,
    ) -> Result<Value, Trouble> {
        for _ in 0..HOPS {
            let Some(next) = next(&answer, &member.host) else { break };
            let how;
            (member, how) = match next {
                Next::Moved(host) => (self.moved(slot, &host), How::Plain),
                Next::Ask(host) => (self.member_at(&mut self.map(), &host), How::Asking),
                Next::Script => (member, How::WithScript),
            };
            answer = self.ask(&member, request, how, again, until).await;
        }
        answer
    }

    /// Sends one command to one server.
    async fn ask(
        &self,
        member: &Member,
        request: Request<'_>,
        how: How,
        again: bool,
        until: Moment,
    ) -> Result<Value, Trouble> {
        let now = self.clock.now();
        let limit = until.time_until(now);
        let since = member.since.map_or(ALWAYS, |since| now.least_since(since));
        let answer = match (request, how) {
            (Request::ByAge(command), How::Plain) => {
                let by_age = move |age: Age<'_>| command(age.serving(since));
                member.links.send(Request::ByAge(&by_age), again, limit).await
            }
            (request, How::Plain) => member.links.send(request, again, limit).await,
            (request, how) => {
                let behind_script = |age: Age<'_>| self.behind_script(request, how, age.serving(since));
                member.links.send(Request::ManyByAge(&behind_script), again, limit).await
            }
        };
        let answer = answer.and_then(last_of);
        answer.map_err(|trouble| self.noted(member, trouble))
    }

    async fn ask_many(
        &self,
        member: &Member,
        commands: &[&Cmd],
        again: bool,
        until: Moment,
    ) -> Vec<Result<Value, Trouble>> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command((*command).clone());
        }
        let limit = until.time_until(self.clock.now());
        match member.links.send(Request::Many(&pipeline), again, limit).await {
            Ok(values) => {
                let mut values = values.into_iter();
                let each = commands.iter().map(|_| outcome(values.next()));
                each.map(|answer| answer.map_err(|trouble| self.noted(member, trouble))).collect()
            }
            Err(trouble) => {
                let trouble = self.noted(member, trouble);
                commands.iter().map(|_| Err(trouble.clone())).collect()
            }
        }
    }

    /// Puts what a server needs before a command, in one go with it.
    fn behind_script(&self, request: Request<'_>, how: How, age: Age<'_>) -> Pipeline {
        let mut pipeline = redis::pipe();
        // Also where a slot comes in: whether the script is there would be known only from an answer that sends nowhere.
        pipeline.cmd("SCRIPT").arg("LOAD").arg(self.script);
        if let How::Asking = how {
            pipeline.cmd("ASKING");
        }
        match request {
            Request::One(command) => {
                pipeline.add_command(command.clone());
            }
            Request::ByAge(command) => {
                pipeline.add_command(command(age));
            }
            Request::Many(commands) => add_all(&mut pipeline, commands),
            Request::ManyByAge(commands) => add_all(&mut pipeline, &commands(age)),
        }
        pipeline
    }

    /// Takes note of trouble that another map may be the remedy for, and names the server that it is about.
    fn noted(&self, member: &Member, trouble: Trouble) -> Trouble {
        let Trouble::Server(error) = &trouble else {
            self.map().stale = true;
            return Trouble::At(member.links.server().to_owned(), Box::new(trouble));
        };
        let moves = [
            ServerErrorKind::ClusterDown,
            ServerErrorKind::MasterDown,
            ServerErrorKind::ReadOnly,
            ServerErrorKind::BusyLoading,
        ];
        if moves.iter().any(|kind| error.kind() == redis::ErrorKind::Server(*kind)) {
            self.map().stale = true;
        }
        trouble
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member_of(&self, slot: u16) -> Result<Arc<Member>, Trouble> {
        let mut map = self.map();
        if let Some(member) = &map.slots[usize::from(slot)] {
            return Ok(Arc::clone(member));
        }
        map.stale = true;
        Err(Trouble::Unfit(
            ErrorKind::Unavailable,
            format!("has no server for slot {slot}, in which the election lies: see CLUSTER INFO"),
        ))
    }

    /// Notes who has a slot now; the next call asks who has the others.
    fn moved(&self, slot: u16, host: &Host) -> Arc<Member> {
        let mut map = self.map();
        let member = self.member_at(&mut map, host);
        map.slots[usize::from(slot)] = Some(Arc::clone(&member));
        map.stale = true;
        member
    }

    fn member_at(&self, map: &mut Map, host: &Host) -> Arc<Member> {
        let since = map.learnt.map(|_| self.clock.now());
        let new = || {
            let node = Node::of_cluster(self.config_of(host), self.script);
            let links = Links::new(Arc::new(node), Arc::clone(&self.clock), self.config.call_timeout);
            Arc::new(Member { host: host.clone(), links, since })
        };
        Arc::clone(map.members.entry(host.clone()).or_insert_with(new))
    }

    fn config_of(&self, host: &Host) -> RedisConfig {
        RedisConfig { address: Address::Tcp(host.clone()), ..self.config.clone() }
    }

    /// Learns the map if there is none, or one that does not fit any more.
    async fn renew_map(&self, until: Moment) -> Result<(), Trouble> {
        if self.is_fresh() {
            return Ok(());
        }
        let left = until.time_until(self.clock.now());
        let known = self.map().learnt.is_some();
        let limit = if known { left / RENEWING } else { left };
        let learnt = within(&self.clock, limit, async {
            let _learning = self.learning.lock().await;
            // Another call was faster.
            if self.is_fresh() { Ok(()) } else { self.learn(limit).await }
        });
        match learnt.await {
            // What is known may still be right.
            Err(trouble) if known => {
                tracing::debug!(cluster = self.name, ?trouble, "nobody tells who has which slots");
                Ok(())
            }
            learnt => learnt,
        }
    }

    fn is_fresh(&self) -> bool {
        let map = self.map();
        let is_new = |learnt: Moment| self.clock.now().time_since(learnt) <= NEW;
        map.learnt.is_some_and(|learnt| !map.stale || is_new(learnt))
    }

    /// Asks one server after the other, and does not wait for one that keeps silent.
    async fn learn(&self, limit: Duration) -> Result<(), Trouble> {
        let asked_at = self.clock.now();
        let mut hosts = self.hosts().into_iter();
        let mut asked = FuturesUnordered::new();
        let mut last = Trouble::NoConnection(limit);
        loop {
            match hosts.next() {
                Some(host) => asked.push(self.ranges(host)),
                None if asked.is_empty() => return Err(last),
                None => {}
            }
            let mut patience = self.clock.sleep(limit / PATIENCE);
            tokio::select! {
                biased;
                Some(answer) = asked.next() => match answer {
                    Ok(ranges) => {
                        self.take(asked_at, ranges);
                        return Ok(());
                    }
                    Err(trouble) => last = trouble,
                },
                () = &mut patience => {}
            }
        }
    }

    /// Returns whom to ask: who is known to serve, then whom the configuration names; each time in another order, so that
    /// neither one server is asked by all nor one that knows nothing is asked first for ever.
    fn hosts(&self) -> Vec<Host> {
        let map = self.map();
        let mut hosts: Vec<_> = map.members.keys().cloned().collect();
        drop(map);
        self.turn(&mut hosts);
        let mut seeds: Vec<_> = self.seeds.iter().filter(|seed| !hosts.contains(seed)).cloned().collect();
        self.turn(&mut seeds);
        hosts.extend(seeds);
        hosts
    }

    fn turn<T>(&self, some: &mut [T]) {
        let by = self.random.below(some.len() as u64);
        some.rotate_left(usize::try_from(by).unwrap_or(0));
    }

    /// Asks one server who has which slots. A replica knows it as well, so that nothing else is asked of it.
    async fn ranges(&self, host: Host) -> Result<Ranges, Trouble> {
        let node = Node::of_cluster(self.config_of(&host), self.script);
        let ranges = async {
            let mut connection = node.open(Box::new(|_| ())).await?;
            let mut slots = redis::cmd("CLUSTER");
            slots.arg("SLOTS");
            let answer = connection.send_packed_command(&slots).await.map_err(Trouble::Connection)?;
            ranges(&outcome(Some(answer))?, &host)
        };
        ranges.await.map_err(|trouble| match trouble {
            Trouble::Server(error) if error.to_string().contains("cluster support disabled") => Trouble::At(
                node.name().to_owned(),
                Box::new(Trouble::Unfit(ErrorKind::Invalid, NO_CLUSTER.to_owned())),
            ),
            trouble => Trouble::At(node.name().to_owned(), Box::new(trouble)),
        })
    }

    fn take(&self, asked_at: Moment, ranges: Ranges) {
        let mut map = self.map();
        map.slots.fill(None);
        let serving: BTreeSet<_> = ranges.iter().map(|(_, host)| host).collect();
        map.members.retain(|host, _| serving.contains(host));
        for (slots, host) in ranges {
            let member = self.member_at(&mut map, &host);
            for slot in slots {
                map.slots[usize::from(slot)] = Some(Arc::clone(&member));
            }
        }
        map.learnt = Some(asked_at);
        map.stale = false;
    }
}

impl Map {
    fn serves(&self, member: &Arc<Member>) -> bool {
        self.slots.iter().flatten().any(|serving| Arc::ptr_eq(serving, member))
    }
}

/// What is wrong with a server that is alone.
pub(crate) const NO_CLUSTER: &str = "is no node of a cluster: write redis:// or rediss://";

/// A connection to any master: changes are told at all of them.
#[async_trait]
impl Connect for Cluster {
    async fn connect(&self, push: Push) -> Result<Connected, Trouble> {
        let limit = self.config.call_timeout;
        self.renew_map(self.clock.now().plus(limit)).await?;
        let mut members: Vec<_> = self.map().members.keys().cloned().collect();
        self.turn(&mut members);
        let push = Arc::new(push);
        let mut last = Trouble::NoConnection(limit);
        for host in members {
            let node = Node::of_cluster(self.config_of(&host), self.script);
            let push = Arc::clone(&push);
            let connected = node.connect(Box::new(move |info| push(info)));
            match within(&self.clock, limit / ONE_OF_MANY, connected).await {
                Ok(connected) => return Ok(connected),
                Err(trouble) => {
                    self.map().stale = true;
                    last = Trouble::At(node.name().to_owned(), Box::new(trouble));
                }
            }
        }
        Err(last)
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn add_all(pipeline: &mut Pipeline, commands: &Pipeline) {
    for command in commands.cmd_iter() {
        pipeline.add_command(command.clone());
    }
}

/// Takes the answer to a command from those to it and to what was put before it. If it is an error, the first one of them
/// says why.
fn last_of(mut values: Vec<Value>) -> Result<Value, Trouble> {
    let last = outcome(values.pop());
    match last {
        Ok(value) => Ok(value),
        Err(trouble) => {
            let first = values.into_iter().map(|value| outcome(Some(value))).find_map(Result::err);
            Err(first.unwrap_or(trouble))
        }
    }
}

/// Tells where an answer of the server `at` sends a call.
fn next(answer: &Result<Value, Trouble>, at: &Host) -> Option<Next> {
    let Err(Trouble::Server(error)) = answer else { return None };
    match error.kind() {
        redis::ErrorKind::Server(ServerErrorKind::NoScript) => Some(Next::Script),
        redis::ErrorKind::Server(ServerErrorKind::Moved) => named(error, at).map(Next::Moved),
        redis::ErrorKind::Server(ServerErrorKind::Ask) => named(error, at).map(Next::Ask),
        _ => None,
    }
}

/// Takes the server that an error names; one without a host is the port's number at the host that was asked.
fn named(error: &RedisError, at: &Host) -> Option<Host> {
    let (address, _slot) = error.redirect_node()?;
    let (host, port) = address.rsplit_once(':')?;
    Some(Host { host: host_or(host, at), port: port.parse().ok()? })
}

/// A server that does not know its own name leaves it out, or says so.
fn host_or(host: &str, at: &Host) -> String {
    if host.is_empty() || host == "?" { at.host.clone() } else { host.to_owned() }
}

/// Takes the answer of the server `at` to CLUSTER SLOTS.
fn ranges(answer: &Value, at: &Host) -> Result<Ranges, Trouble> {
    let wrong = || Trouble::Reply(format!("its slots are {answer:?}"));
    let Value::Array(ranges) = answer else { return Err(wrong()) };
    let ranges: Option<Ranges> = ranges.iter().map(|part| range(part, at)).collect();
    let ranges = ranges.ok_or_else(wrong)?;
    if ranges.is_empty() {
        // It has left the cluster, or has not come into it yet.
        let message = "knows of no server that has slots: see CLUSTER INFO";
        return Err(Trouble::Unfit(ErrorKind::Unavailable, message.to_owned()));
    }
    Ok(ranges)
}

/// Takes the first and the last slot and their master; whatever follows is about replicas.
fn range(part: &Value, at: &Host) -> Option<(RangeInclusive<u16>, Host)> {
    let Value::Array(parts) = part else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice() else {
        return None;
    };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => host_or(std::str::from_utf8(host).ok()?, at),
        Value::Nil => at.host.clone(),
        _ => return None,
    };
    (first <= last && last < SLOTS).then_some((first..=last, Host { host, port: u16::try_from(*port).ok()? }))
}

/// Returns the slot of a key: of its hash tag, if it has one.
fn slot(key: &str) -> u16 {
    crc16(keys::tag(key).unwrap_or(key).as_bytes()) % SLOTS
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc: u16, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cluster({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Host {
        Host { host: "asked".into(), port: 1 }
    }

    fn answer(line: &str) -> Result<Value, Trouble> {
        outcome(Some(redis::parse_redis_value(format!("{line}\r\n").as_bytes()).unwrap()))
    }

    #[test]
    fn slots_are_those_of_the_servers() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, expected) in [("foo", 12182), ("", 0), ("{user1000}.following", 3443), ("foo{}{bar}", 8363)]
        {
            assert_eq!(slot(key), expected, "{key}");
        }
        assert_eq!(slot("tenure:leader:a"), slot("{tenure:leader:a}:record"));
        assert_eq!(slot("foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
    }

    #[test]
    fn a_server_that_leaves_its_name_out_is_where_the_answer_came_from() {
        let host = |name: &str| Value::BulkString(name.into());
        let part = |name: Value| {
            let master = Value::Array(vec![name, Value::Int(7000), host("id")]);
            Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(16383), master])])
        };
        for (name, expected) in
            [(host("10.0.0.7"), "10.0.0.7"), (host(""), "asked"), (host("?"), "asked"), (Value::Nil, "asked")]
        {
            let found = ranges(&part(name), &here()).unwrap();
            assert_eq!(found, [(0..=16383, Host { host: expected.into(), port: 7000 })]);
        }
        for wrong in [Value::Nil, Value::Array(vec![]), Value::Array(vec![Value::Int(1)])] {
            assert!(ranges(&wrong, &here()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_an_answer_that_names_a_server_sends_a_call_on() {
        let host = |line| match next(&answer(line), &here()) {
            Some(Next::Moved(Host { host, port })) => format!("moved {host} {port}"),
            Some(Next::Ask(Host { host, port })) => format!("ask {host} {port}"),
            Some(Next::Script) => "script".to_owned(),
            None => "nowhere".to_owned(),
        };
        for (line, expected) in [
            ("-MOVED 3999 10.0.0.7:7001", "moved 10.0.0.7 7001"),
            ("-MOVED 3999 :7001", "moved asked 7001"),
            ("-MOVED 3999 ?:7001", "moved asked 7001"),
            ("-MOVED 3999 ::1:7001", "moved ::1 7001"),
            ("-ASK 3999 redis-2.example:7002", "ask redis-2.example 7002"),
            ("-NOSCRIPT No matching script.", "script"),
            ("-MOVED 3999", "nowhere"),
            ("-TRYAGAIN Multiple keys request during rehashing of slot", "nowhere"),
            ("-CLUSTERDOWN The cluster is down", "nowhere"),
            ("-ERR MOVED 3999 10.0.0.7:7001", "nowhere"),
            ("+MOVED", "nowhere"),
        ] {
            assert_eq!(host(line), expected, "{line}");
        }
    }
}
