//! The store: each verb is one call of the script.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use redis::{Cmd, ServerErrorKind, Value};
use tenure_core::clock::{Moment, SystemClock};
use tenure_core::store::{
    Acquisition, Answered, Bid, Changes, ControlRequest, ErrorKind, ExpiryClock, Guarantees, Lease,
    LeaseRecord, LeaseStore, Next, Operator, Release, Released, Renew, Renewal, StoreError, TokenOrder, Wake,
};
use tenure_core::{Attempt, Clock, ElectionName, FencingToken, Random};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::config::{InvalidConfig, RedisConfig};
use crate::connect::{Connect, Node};
use crate::error::{About, STORE, Trouble};
use crate::keys::Keys;
use crate::link::{Links, Request};
use crate::listen::Listener;
use crate::record::{self, Who};
use crate::script::{Answer, Script, View};
use crate::watch::Watchers;

/// Tokens are computed by a script whose numbers are exact up to here; at a million terms a second it is reached in the
/// year 2255.
const TOKEN_LIMIT: u64 = 1 << 53;

/// Leases in Redis; clones share their connections.
#[derive(Clone)]
pub struct RedisStore {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) config: RedisConfig,
    pub(crate) keys: Keys,
    /// What an access rule must name, for messages.
    access: String,
    links: Links,
    random: Random,
    /// The longest ttl that was seen here, ms.
    longest_ttl_ms: AtomicU64,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connect: Arc<dyn Connect>,
    watchers: Arc<Watchers>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl RedisStore {
    /// Opens the store; the server is asked with the first call.
    ///
    /// # Errors
    /// If the configuration breaks a rule.
    pub fn new(config: RedisConfig) -> Result<Self, InvalidConfig> {
        Self::with_clock(config, Arc::new(SystemClock))
    }

    /// Opens the store at a URL, as [`RedisConfig::from_url`] reads it.
    ///
    /// # Errors
    /// If the URL breaks a rule.
    pub fn from_url(url: &str) -> Result<Self, InvalidConfig> {
        Self::new(RedisConfig::from_url(url)?)
    }

    /// Opens the store with a clock that limits how long a call may take; no lease ends by it.
    ///
    /// # Errors
    /// If the configuration breaks a rule.
    pub fn with_clock(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<Self, InvalidConfig> {
        let keys = config.check()?;
        let connect: Arc<dyn Connect> = Arc::new(Node::new(config.clone(), Script::SOURCE));
        let links = Links::new(Arc::clone(&connect), Arc::clone(&clock), config.call_timeout);
        let shared = Shared {
            watchers: Arc::new(Watchers::new(Arc::clone(&clock))),
            listener: Mutex::default(),
            clock,
            connect,
            access: keys.access(),
            longest_ttl_ms: AtomicU64::new(whole_ms(config.longest_ttl)),
            keys,
            links,
            random: Random::from_os(),
            config,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Nobody can watch any more.
impl Drop for Shared {
    fn drop(&mut self) {
        let listener = self.listener.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = listener.take() {
            task.abort();
        }
    }
}

impl Shared {
    /// Lets a task listen, unless one does; `None` where there is no runtime for it.
    fn listen(&self) -> Option<()> {
        let runtime = Handle::try_current().ok()?;
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        // One that has ended has ended with its runtime.
        if listener.as_ref().is_none_or(JoinHandle::is_finished) {
            let listen = Listener {
                connect: Arc::clone(&self.connect),
                clock: Arc::clone(&self.clock),
                random: Random::from_os(),
                watchers: Arc::clone(&self.watchers),
                keys: self.keys.clone(),
                database: self.config.database,
                limit: self.config.call_timeout,
            };
            *listener = Some(runtime.spawn(listen.run()));
        }
        Some(())
    }

    pub(crate) fn error(
        &self,
        operation: &'static str,
        election: Option<&ElectionName>,
        trouble: Trouble,
    ) -> StoreError {
        let about = About {
            operation,
            server: self.links.server(),
            access: &self.access,
            script: Script::SOURCE,
            election,
        };
        trouble.into_error(about)
    }

    /// Runs one verb on one election.
    pub(crate) async fn run(
        &self,
        verb: &'static str,
        election: &ElectionName,
        mark: &str,
        arguments: &[&str],
        again: bool,
    ) -> Result<Answer, StoreError> {
        let call = Script::call(&self.keys.of(election), election.as_str(), verb, mark, arguments);
        self.answer(Request::One(&call), mark, again)
            .await
            .map_err(|trouble| self.error(verb, Some(election), trouble))
    }

    /// Sends one request and takes the script's answer.
    async fn answer(&self, request: Request<'_>, mark: &str, again: bool) -> Result<Answer, Trouble> {
        let value = self.send(request, again).await?;
        Answer::new(value, mark).map_err(Trouble::Reply)
    }

    /// Sends one command.
    pub(crate) async fn one(&self, command: &Cmd, again: bool) -> Result<Value, Trouble> {
        self.send(Request::One(command), again).await
    }

    /// Sends one request, and the script first if the server does not know it (any more).
    async fn send(&self, request: Request<'_>, again: bool) -> Result<Value, Trouble> {
        let limit = self.config.call_timeout;
        let answer = outcome(self.links.send(request, again, limit).await?.pop());
        if !is_unknown_script(&answer) {
            return answer;
        }
        self.load().await?;
        outcome(self.links.send(request, again, limit).await?.pop())
    }

    /// Sends many commands in one go; each has its own answer.
    async fn many(&self, commands: &[Cmd], again: bool, limit: Duration) -> Vec<Result<Value, Trouble>> {
        let answers = self.many_once(commands, again, limit).await;
        if !answers.iter().any(is_unknown_script) {
            return answers;
        }
        if let Err(trouble) = self.load().await {
            return commands.iter().map(|_| Err(trouble.clone())).collect();
        }
        // Only those that the server did not know how to run: nothing is sent twice.
        let left: Vec<_> = commands
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| is_unknown_script(answer))
            .map(|(command, _)| command.clone())
            .collect();
        let mut late = self.many_once(&left, again, limit).await.into_iter();
        answers
            .into_iter()
            .map(|answer| if is_unknown_script(&answer) { late.next().unwrap_or(answer) } else { answer })
            .collect()
    }

    async fn many_once(&self, commands: &[Cmd], again: bool, limit: Duration) -> Vec<Result<Value, Trouble>> {
        let mut pipeline = redis::Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command.clone());
        }
        match self.links.send(Request::Many(&pipeline), again, limit).await {
            Ok(values) => {
                let mut values = values.into_iter();
                commands.iter().map(|_| outcome(values.next())).collect()
            }
            Err(trouble) => commands.iter().map(|_| Err(trouble.clone())).collect(),
        }
    }

    async fn load(&self) -> Result<(), Trouble> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(Script::SOURCE);
        outcome(self.links.send(Request::One(&load), false, self.config.call_timeout).await?.pop()).map(drop)
    }

    /// Makes what everybody sees of a view, and notes the ttl in it.
    pub(crate) fn record(
        &self,
        operation: &'static str,
        election: &ElectionName,
        view: &View,
    ) -> Result<LeaseRecord, StoreError> {
        let record = view.record(election).map_err(|why| corrupt(operation, election, &why))?;
        if let Some(holder) = &record.holder {
            self.longest_ttl_ms.fetch_max(whole_ms(holder.ttl), Ordering::Relaxed);
        }
        Ok(record)
    }

    pub(crate) fn new_mark(&self) -> String {
        Attempt::new(&self.random).to_string()
    }

    fn unexpected(&self, operation: &'static str, election: &ElectionName, why: String) -> StoreError {
        self.error(operation, Some(election), Trouble::Reply(why))
    }

    fn acquired(
        &self,
        election: &ElectionName,
        bid: &Bid,
        sent: Moment,
        mut answer: Answer,
    ) -> Result<Acquisition, StoreError> {
        if answer.name() == "refused" {
            let view = answer.view().map_err(|why| self.unexpected("acquire", election, why))?;
            let record = self.record("acquire", election, &view)?;
            if view.wait_ms > 0 {
                let server = self.links.server();
                tracing::info!(%election, server, wait_ms = view.wait_ms, "the server began lately: nobody is elected yet");
            }
            self.watchers.answered(sent, view.now, &record);
            self.watchers.stands_by(election, &bid.candidate);
            return Ok(Acquisition::Refused(Box::new(record)));
        }
        let mut lease = || -> Result<Lease, String> {
            if answer.name() != "acquired" {
                return Err(format!("it says {:?}", answer.name()));
            }
            Ok(Lease {
                election: election.clone(),
                bid: bid.id,
                candidate: bid.candidate.clone(),
                token: FencingToken(answer.number()?),
                attempt: record::attempt(&answer.text()?)?,
                ttl: Duration::from_millis(answer.number()?),
                renew_count: answer.number()?,
                renew_total: answer.number()?,
                previous: answer.maybe_text()?.map(|line| record::term(&line)).transpose()?.map(Arc::new),
            })
        };
        // What it names cannot be told: the bid may have won, and is to be repeated.
        let lease = lease().map_err(|why| self.unexpected("acquire", election, why))?;
        self.watchers.leads(election, &bid.candidate, bid.id);
        Ok(Acquisition::Acquired(lease))
    }

    fn renewed(&self, renewal: &Renew, mut answer: Answer) -> Result<Renewal, StoreError> {
        let election = &renewal.lease.election;
        let unexpected = |why| self.unexpected("renew", election, why);
        if answer.name() == "lost" {
            let view = answer.maybe_view().map_err(unexpected)?;
            // What cannot be understood is not ours.
            let record = view.and_then(|view| self.record("renew", election, &view).ok());
            return Ok(Renewal::Lost(record.map(Box::new)));
        }
        let renewed = |answer: &mut Answer| -> Result<Renewal, String> {
            if answer.name() != "renewed" {
                return Err(format!("it says {:?}", answer.name()));
            }
            let lease = Lease {
                attempt: renewal.attempt,
                ttl: Duration::from_millis(answer.number()?),
                renew_count: answer.number()?,
                renew_total: answer.number()?,
                ..renewal.lease.clone()
            };
            let request = answer.maybe_pair()?.and_then(|(request, left)| {
                let request: ControlRequest = serde_json::from_str(&request).ok()?;
                Some(Box::new(ControlRequest { expires_in: Duration::from_micros(left), ..request }))
            });
            Ok(Renewal::Renewed(lease, request))
        };
        renewed(&mut answer).map_err(unexpected)
    }

    /// The time by the wall clock of this machine, for people.
    fn now_ms(&self) -> String {
        let since = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        since.as_millis().to_string()
    }

    fn renew_call(&self, renewal: &Renew) -> Cmd {
        let Renew { lease, attempt, open, answer } = renewal;
        let marks = marks(open.iter().chain([&lease.attempt, attempt]));
        let (answer_id, answered) = answer_arguments(answer.as_ref());
        let value = record::value_of(&lease.candidate, lease.bid);
        let arguments = [value, lease.token.to_string(), marks, self.now_ms(), answer_id, answered];
        let keys = self.keys.of(&lease.election);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        Script::call(&keys, lease.election.as_str(), "renew", &attempt.to_string(), &arguments)
    }
}

#[async_trait]
impl LeaseStore for RedisStore {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        let shared = &self.shared;
        if bid.floor.0 >= TOKEN_LIMIT - 1 {
            let message = format!("token {} has no successor here: tokens end at {TOKEN_LIMIT}", bid.floor);
            return Err(StoreError::new(ErrorKind::Invalid, STORE, "acquire", message));
        }
        let ttl_ms = whole_ms(bid.ttl);
        let longest = shared.longest_ttl_ms.fetch_max(ttl_ms, Ordering::Relaxed).max(ttl_ms);
        let arguments = [
            bid.id.to_string(),
            record::value_of(&bid.candidate, bid.id),
            bid.candidate.to_string(),
            Who::of(bid),
            record::About::of(bid),
            ttl_ms.to_string(),
            bid.floor.to_string(),
            bid.supersedes.map(|bid| bid.to_string()).unwrap_or_default(),
        ];
        let mark = bid.attempt.to_string();
        let keys = shared.keys.of(election);
        let call = |up: Duration| {
            // Zero: it has forgotten nothing, or began so long ago that nothing of that lives any more. Else it looks
            // itself, since it may have become old enough meanwhile.
            let old = shared.config.survives_restart || whole_ms(up) > longest;
            let wait_for = if old { 0 } else { longest }.to_string();
            let arguments: Vec<_> = arguments.iter().chain([&wait_for]).map(String::as_str).collect();
            Script::call(&keys, election.as_str(), "acquire", &mark, &arguments)
        };
        let sent = shared.clock.now();
        let answer = shared
            .answer(Request::ByUptime(&call), &mark, !bid.open.is_empty())
            .await
            .map_err(|trouble| shared.error("acquire", Some(election), trouble))?;
        shared.acquired(election, bid, sent, answer)
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let shared = &self.shared;
        if renewals.is_empty() {
            return Vec::new();
        }
        let calls: Vec<_> = renewals.iter().map(|renewal| shared.renew_call(renewal)).collect();
        let again = renewals.iter().any(|renewal| !renewal.open.is_empty());
        let answers = match calls.as_slice() {
            [call] => vec![shared.one(call, again).await],
            // Half of what a leader waits for by default: the other half is for a second try.
            calls => {
                let shortest = renewals.iter().map(|renewal| renewal.lease.ttl).min().unwrap_or_default();
                shared.many(calls, again, shared.config.call_timeout.min(shortest / 12)).await
            }
        };
        let each = renewals.iter().zip(answers).map(|(renewal, answer)| {
            if answer.as_ref().is_err_and(Trouble::is_corrupt) {
                // What cannot be understood is not ours.
                return Ok(Renewal::Lost(None));
            }
            let answer = answer
                .and_then(|value| Answer::new(value, &renewal.attempt.to_string()).map_err(Trouble::Reply))
                .map_err(|trouble| shared.error("renew", Some(&renewal.lease.election), trouble))?;
            shared.renewed(renewal, answer)
        });
        each.collect()
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let Release { lease, attempt, open, next, succeeded, answer } = release;
        let (successor, window, cool_down) = match next {
            Next::Anybody => ("", Duration::ZERO, None),
            Next::Successor { candidate, window } => (candidate.as_str(), *window, None),
            Next::CoolDown(window) => ("", *window, Some(*window)),
        };
        let (answer_id, answered) = answer_arguments(answer.as_ref());
        let arguments = [
            record::value_of(&lease.candidate, lease.bid),
            lease.token.to_string(),
            marks(open.iter().chain([&lease.attempt])),
            if *succeeded { "succeeded" } else { "released" }.to_owned(),
            successor.to_owned(),
            whole_ms(window).to_string(),
            cool_down.map(|window| whole_ms(window).to_string()).unwrap_or_default(),
            answer_id,
            answered,
        ];
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mark = attempt.to_string();
        let call = Script::call(
            &self.shared.keys.of(&lease.election),
            lease.election.as_str(),
            "release",
            &mark,
            &arguments,
        );
        let answer = match self.shared.answer(Request::One(&call), &mark, !open.is_empty()).await {
            Ok(answer) => answer,
            // What cannot be understood is not ours.
            Err(trouble) if trouble.is_corrupt() => return Ok(Released::NotHeld),
            Err(trouble) => return Err(self.shared.error("release", Some(&lease.election), trouble)),
        };
        match answer.name() {
            "released" => Ok(Released::Released),
            "not_held" => Ok(Released::NotHeld),
            other => Err(self.shared.unexpected("release", &lease.election, format!("it says {other:?}"))),
        }
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let mut answer = self.shared.run("read", election, &self.shared.new_mark(), &[], false).await?;
        if answer.name() == "nothing" {
            return Ok(None);
        }
        let view = answer.view().map_err(|why| self.shared.unexpected("read", election, why))?;
        self.shared.record("read", election, &view).map(Some)
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        self.shared.listen()?;
        Some(Box::pin(self.shared.watchers.watch(elections)))
    }

    fn guarantees(&self) -> Guarantees {
        let config = &self.shared.config;
        Guarantees {
            store: STORE,
            scope: format!("whoever uses {} with keys {} (prefix {})", config, config.key, config.prefix),
            linearizable: true,
            survives_restart: config.survives_restart,
            survives_failover: None,
            clock: ExpiryClock::Store(
                "the server's wall clock: set forward, it ends leases early; set back, it ends them late",
            ),
            tokens: TokenOrder::StrictWithin(Duration::ZERO),
            min_ttl: config.min_ttl,
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: assumptions(config.allow_eviction),
        }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        Some(self)
    }
}

fn assumptions(allow_eviction: bool) -> Vec<&'static str> {
    let mut assumptions = vec![
        "nobody removes the keys (DEL, FLUSHALL) while somebody leads",
        "a server that restarts with older data, or with none, waits for the longest ttl of anybody before it grants; it \
         knows the ttls of whoever bids, and longest_ttl",
        "the clock of a server that lost its data is not behind the one that its last tokens came from",
        "other software that uses a lease's key obeys the usual rules: it sets the key only if there is none, and renews \
         and removes only its own value",
    ];
    if allow_eviction {
        assumptions
            .push("the server never removes a lease to make room, although its configuration permits it");
    }
    assumptions
}

/// Names the attempts of which one may be in the record.
fn marks<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> String {
    attempts.map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn answer_arguments(answer: Option<&Answered>) -> (String, String) {
    answer.map(|answer| (answer.id.to_string(), record::json(answer))).unwrap_or_default()
}

/// Rounds up: a lease must not end before the ttl that was asked for.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

pub(crate) fn outcome(value: Option<Value>) -> Result<Value, Trouble> {
    match value {
        Some(Value::ServerError(error)) => Err(Trouble::Server(error.into())),
        Some(value) => Ok(value),
        None => Err(Trouble::Reply("there is none".to_owned())),
    }
}

fn is_unknown_script(answer: &Result<Value, Trouble>) -> bool {
    let unknown = redis::ErrorKind::Server(ServerErrorKind::NoScript);
    matches!(answer, Err(Trouble::Server(error)) if error.kind() == unknown)
}

fn corrupt(operation: &'static str, election: &ElectionName, why: &str) -> StoreError {
    let message = format!(
        "what is kept of election {:?} cannot be understood ({why}): it counts as held until somebody mends it",
        election.as_str()
    );
    StoreError::new(ErrorKind::Corrupt, STORE, operation, message)
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStore({})", self.shared.config)
    }
}
