//! The store: each verb is one call of the script.

use std::fmt::{self, Write as _};
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

use crate::cluster::Cluster;
use crate::config::{Address, InvalidConfig, RedisConfig};
use crate::connect::{ALWAYS, Connect, way_to};
use crate::error::{About, STORE, Trouble};
use crate::keys::{ElectionKeys, Keys};
use crate::link::{Age, Links, Request, within};
use crate::listen::Listener;
use crate::record::{self, Who};
use crate::script::{Answer, Script, View};
use crate::wait::{Fate, Fates, Replicated, Writes};
use crate::watch::Watchers;

/// Tokens are computed by a script whose numbers are exact up to here; at a million terms a second it is reached in the
/// year 2255.
pub(crate) const TOKEN_LIMIT: u64 = 1 << 53;

/// Lets a repeated call write once more what it wrote before, so that it can be waited for.
const AGAIN: &str = "1";

/// Whether a server decides alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Among {
    /// It does.
    One,
    /// A majority of several does: this one may have missed renewals, or the vote.
    Several,
}

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
    /// The way to the server; in a cluster each call goes by its key, and this is only its name.
    pub(crate) links: Links,
    pub(crate) cluster: Option<Arc<Cluster>>,
    writes: Writes,
    fates: Fates,
    random: Random,
    /// The longest ttl that was seen here, ms.
    pub(crate) longest_ttl_ms: Arc<AtomicU64>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) watchers: Arc<Watchers>,
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
        let longest_ttl_ms = Arc::new(AtomicU64::new(whole_ms(config.longest_ttl)));
        Self::knowing(config, clock, longest_ttl_ms)
    }

    /// Opens the store with the longest ttl that was seen, which others see, too.
    pub(crate) fn knowing(
        config: RedisConfig,
        clock: Arc<dyn Clock>,
        longest_ttl_ms: Arc<AtomicU64>,
    ) -> Result<Self, InvalidConfig> {
        let keys = config.check()?;
        if let Address::Redlock(_) = config.address {
            let rule = "names independent nodes, which are no single store: open it with RedlockStore";
            return Err(InvalidConfig(rule.to_owned()));
        }
        let cluster = Cluster::of(&config, Script::SOURCE, &clock);
        if cluster.is_some() && config.min_replicas > 0 {
            let rule = "counts replicas (min_replicas), which is not done in a cluster: leave it out";
            return Err(InvalidConfig(rule.to_owned()));
        }
        let connect: Arc<dyn Connect> = match &cluster {
            Some(cluster) => Arc::clone(cluster) as Arc<dyn Connect>,
            None => way_to(&config, Script::SOURCE, &clock),
        };
        let links = || Links::new(Arc::clone(&connect), Arc::clone(&clock), config.call_timeout);
        let shared_links = links();
        // Waiting for replicas holds up whatever else goes over a connection.
        let of_writes = if config.min_replicas > 0 { links() } else { shared_links.clone() };
        let shared = Shared {
            watchers: Arc::new(Watchers::new(Arc::clone(&clock), Arc::clone(&longest_ttl_ms))),
            listener: Mutex::default(),
            clock,
            connect,
            access: keys.access(),
            longest_ttl_ms,
            keys,
            links: shared_links,
            cluster,
            writes: Writes::new(of_writes, config.min_replicas),
            fates: Fates::default(),
            random: Random::from_os(),
            config,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// What the script must know of a server that may have forgotten something.
pub(crate) struct Forgotten<'a> {
    /// So long at least has it been up.
    up_ms: u64,
    /// So long at least has it been the one that serves, if another one did before.
    serves_ms: Option<u64>,
    /// What it calls its run; nothing if it is the same one in any.
    pub(crate) run: &'a str,
}

/// Nobody can watch any more.
impl Drop for Shared {
    fn drop(&mut self) {
        let listener = self.listener.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = listener.take() {
            task.abort();
        }
        self.watchers.denied();
    }
}

impl Shared {
    /// Lets a task listen, unless one does; `None` where there is no runtime for it.
    pub(crate) fn listen(&self) -> Option<()> {
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
        let keys = self.keys.of(election);
        let call = Script::call(&keys, election.as_str(), verb, mark, arguments);
        self.answer(&keys, Request::One(&call), mark, again)
            .await
            .map_err(|trouble| self.error(verb, Some(election), trouble))
    }

    /// Sends one request and takes the script's answer.
    pub(crate) async fn answer(
        &self,
        keys: &ElectionKeys,
        request: Request<'_>,
        mark: &str,
        again: bool,
    ) -> Result<Answer, Trouble> {
        self.answer_within(keys, request, mark, again, self.config.call_timeout).await
    }

    pub(crate) async fn answer_within(
        &self,
        keys: &ElectionKeys,
        request: Request<'_>,
        mark: &str,
        again: bool,
        limit: Duration,
    ) -> Result<Answer, Trouble> {
        let value = self.send_within(&keys.lease, request, again, limit).await?;
        Answer::new(value, mark).map_err(Trouble::Reply)
    }

    /// Sends one request about a key.
    pub(crate) async fn send(&self, key: &str, request: Request<'_>, again: bool) -> Result<Value, Trouble> {
        self.send_within(key, request, again, self.config.call_timeout).await
    }

    /// Sends one request about a key, and the script first if the server does not know it (any more).
    async fn send_within(
        &self,
        key: &str,
        request: Request<'_>,
        again: bool,
        limit: Duration,
    ) -> Result<Value, Trouble> {
        let begun = self.clock.now();
        if let Some(cluster) = &self.cluster {
            return cluster.send(key, request, again, limit).await;
        }
        let answer = outcome(self.links.send(request, again, limit).await?.pop());
        if !is_unknown_script(&answer) {
            return answer;
        }
        within(&self.clock, self.left_of(limit, begun), async {
            self.load(&self.links).await?;
            outcome(self.links.send(request, again, limit).await?.pop())
        })
        .await
    }

    /// Sends one request that writes, as [`send`](Self::send) does. Tells, too, whether as many replicas have it as must.
    async fn write(
        &self,
        key: &str,
        request: Request<'_>,
        again: bool,
    ) -> Result<(Value, Replicated), Trouble> {
        let (begun, limit) = (self.clock.now(), self.config.call_timeout);
        if let Some(cluster) = &self.cluster {
            return Ok((cluster.send(key, request, again, limit).await?, Ok(())));
        }
        let (answer, replicated) = self.writes.send(request, again, limit).await?.one();
        if !is_unknown_script(&answer) {
            return Ok((answer?, replicated));
        }
        within(&self.clock, self.left_of(limit, begun), async {
            self.load(self.writes.links()).await?;
            let (answer, replicated) = self.writes.send(request, again, limit).await?.one();
            Ok((answer?, replicated))
        })
        .await
    }

    fn left_of(&self, limit: Duration, begun: Moment) -> Duration {
        limit.saturating_sub(self.clock.now().time_since(begun))
    }

    /// Sends many renewals in one go; each has its own answer.
    async fn many(
        &self,
        renewals: &[Renew],
        commands: &[Cmd],
        again: bool,
        limit: Duration,
    ) -> Vec<Result<Value, Trouble>> {
        if let Some(cluster) = &self.cluster {
            let keys: Vec<_> =
                renewals.iter().map(|renewal| self.keys.of(&renewal.lease.election).lease).collect();
            let calls: Vec<_> = keys.iter().map(String::as_str).zip(commands).collect();
            return cluster.many(&calls, again, limit).await;
        }
        let begun = self.clock.now();
        let answers = self.many_once(commands, again, limit).await;
        if !answers.iter().any(is_unknown_script) {
            return answers;
        }
        let load = self.load(self.writes.links());
        if let Err(trouble) = within(&self.clock, self.left_of(limit, begun), load).await {
            let left = |answer| if is_unknown_script(&answer) { Err(trouble.clone()) } else { answer };
            return answers.into_iter().map(left).collect();
        }
        // Only those that the server did not know how to run: nothing is sent twice.
        let left: Vec<_> = commands
            .iter()
            .zip(&answers)
            .filter(|(_, answer)| is_unknown_script(answer))
            .map(|(command, _)| command.clone())
            .collect();
        let mut late = self.many_once(&left, again, self.left_of(limit, begun)).await.into_iter();
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
        match self.writes.send(Request::Many(&pipeline), again, limit).await {
            Ok(written) => {
                let mut answers = written.each();
                commands.iter().map(|_| answers.next().unwrap_or_else(|| outcome(None))).collect()
            }
            Err(trouble) => commands.iter().map(|_| Err(trouble.clone())).collect(),
        }
    }

    async fn load(&self, links: &Links) -> Result<(), Trouble> {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(Script::SOURCE);
        outcome(links.send(Request::One(&load), false, self.config.call_timeout).await?.pop()).map(drop)
    }

    /// Makes what everybody sees of a view, and notes the ttl and the token in it.
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
        self.watchers.trust(view.now.max(record.token.0));
        Ok(record)
    }

    pub(crate) fn new_mark(&self) -> String {
        Attempt::new(&self.random).to_string()
    }

    pub(crate) fn unexpected(
        &self,
        operation: &'static str,
        election: &ElectionName,
        why: String,
    ) -> StoreError {
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
        self.watchers.trust(lease.token.0);
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
    pub(crate) fn now_ms(&self) -> String {
        let since = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX).to_string()
    }

    /// The last arguments of what writes a lease, where another server may take this one's place: a lease lasts longer there
    /// than its holder counts with, since the clock of the other one may be ahead.
    fn spare(&self) -> impl Iterator<Item = String> {
        let fails_over = self.config.fails_over();
        let spare = fails_over.then(|| whole_ms(self.config.max_server_skew).to_string());
        spare.into_iter().chain(fails_over.then(|| AGAIN.to_owned()))
    }

    /// Tells what a server of that age may have forgotten.
    pub(crate) fn forgotten<'a>(&self, age: Age<'a>) -> Forgotten<'a> {
        let config = &self.config;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let up_ms = if config.survives_restart { u64::MAX } else { ms(age.up) };
        // Whoever keeps all over a restart is the same one in its next run; unless it is another server in the same place, of
        // which nobody tells.
        let tells = !config.fails_over() || !matches!(config.address, Address::Tcp(_) | Address::Unix(_));
        let met = age.met.filter(|_| !config.survives_restart || !tells);
        // So much longer that its tokens are higher, although its clock may be behind.
        let taken_over = (config.fails_over() && age.serves != ALWAYS)
            .then(|| age.serves.saturating_sub(config.max_server_skew));
        let run = if config.survives_restart && !config.fails_over() { "" } else { age.run };
        Forgotten { up_ms, serves_ms: met.into_iter().chain(taken_over).min().map(ms), run }
    }

    /// What a server of that age may have forgotten, as the script takes it; `longest` is the longest ttl that anybody may
    /// have, ms.
    pub(crate) fn age_arguments(&self, age: Age<'_>, longest: u64) -> [String; 4] {
        let Forgotten { up_ms, serves_ms, run } = self.forgotten(age);
        // Zero: it has forgotten nothing, or began so long ago that nothing of that lives any more, unless the record
        // names a longer ttl. Else it looks itself, since it may have become old enough meanwhile.
        let old = up_ms > longest && serves_ms.is_none_or(|serves_ms| serves_ms > longest);
        let wait_for = if old { 0 } else { longest };
        let serves_ms = serves_ms.map(|serves_ms| serves_ms.to_string()).unwrap_or_default();
        [wait_for.to_string(), up_ms.to_string(), serves_ms, run.to_owned()]
    }

    /// Gives back a lease that too few replicas have: whoever bids next may find that it was never there.
    async fn give_back(&self, lease: &Lease) {
        let release = Release {
            lease: lease.clone(),
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        };
        let (call, limit) =
            (self.release_call(&release, &self.now_ms(), Among::One), self.config.call_timeout / 2);
        if let Err(trouble) = self.writes.links().send(Request::One(&call), false, limit).await {
            let election = &lease.election;
            tracing::warn!(%election, ?trouble, "a lease that too few replicas have was not given back: it runs out");
        }
        self.watchers.stands_by(&lease.election, &lease.candidate);
    }

    fn release_call(&self, release: &Release, at_ms: &str, among: Among) -> Cmd {
        let Release { lease, attempt, open, next, succeeded, answer } = release;
        let (successor, window, cool_down) = match next {
            Next::Anybody => ("", Duration::ZERO, None),
            Next::Successor { candidate, window } => (candidate.as_str(), *window, None),
            Next::CoolDown(window) => ("", *window, Some(*window)),
        };
        let (answer_id, answered) = answer_arguments(answer.as_ref());
        let mut arguments = vec![
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
        arguments.extend(match among {
            Among::One => self.config.fails_over().then(|| AGAIN.to_owned()).into_iter().collect(),
            Among::Several => vec![String::new(), lease.renew_count.to_string(), at_ms.to_owned()],
        });
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let keys = self.keys.of(&lease.election);
        Script::call(&keys, lease.election.as_str(), "release", &attempt.to_string(), &arguments)
    }

    fn renew_call(&self, keys: &ElectionKeys, renewal: &Renew, at_ms: &str, among: Among) -> Cmd {
        let Renew { lease, attempt, open, answer } = renewal;
        let marks = marks(open.iter().chain([&lease.attempt, attempt]));
        let (answer_id, answered) = answer_arguments(answer.as_ref());
        let value = record::value_of(&lease.candidate, lease.bid);
        let token = lease.token.to_string();
        let more: Vec<_> = match among {
            Among::One => self.spare().collect(),
            Among::Several => {
                let (count, total) = (lease.renew_count.to_string(), lease.renew_total.to_string());
                vec![String::new(), String::new(), count, total]
            }
        };
        let mut arguments = Vec::with_capacity(6 + more.len());
        arguments.extend([value.as_str(), &token, &marks, at_ms, &answer_id, &answered]);
        arguments.extend(more.iter().map(String::as_str));
        Script::call(keys, lease.election.as_str(), "renew", &attempt.to_string(), &arguments)
    }

    /// Renews; `at_ms` is the holder's time, for people.
    pub(crate) async fn renew(
        &self,
        renewals: &[Renew],
        at_ms: &str,
        among: Among,
    ) -> Vec<Result<Renewal, StoreError>> {
        if renewals.is_empty() {
            return Vec::new();
        }
        let call = |renewal: &Renew| {
            let keys = self.keys.of(&renewal.lease.election);
            let call = self.renew_call(&keys, renewal, at_ms, among);
            (keys, call)
        };
        let again = renewals.iter().any(|renewal| !renewal.open.is_empty());
        let answers = match renewals {
            [renewal] => {
                let (keys, call) = call(renewal);
                let written = self.write(&keys.lease, Request::One(&call), again).await;
                vec![written.and_then(|(value, replicated)| replicated.map(|()| value))]
            }
            // Half of what a leader waits for by default: the other half is for a second try.
            renewals => {
                let calls: Vec<_> = renewals.iter().map(|renewal| call(renewal).1).collect();
                let shortest = renewals.iter().map(|renewal| renewal.lease.ttl).min().unwrap_or_default();
                self.many(renewals, &calls, again, self.config.call_timeout.min(shortest / 12)).await
            }
        };
        let each = renewals.iter().zip(answers).map(|(renewal, answer)| {
            if answer.as_ref().is_err_and(Trouble::is_corrupt) {
                // What cannot be understood is not ours.
                return Ok(Renewal::Lost(None));
            }
            let answer = answer
                .and_then(|value| Answer::new(value, &renewal.attempt.to_string()).map_err(Trouble::Reply))
                .map_err(|trouble| self.error("renew", Some(&renewal.lease.election), trouble))?;
            self.renewed(renewal, answer)
        });
        each.collect()
    }

    /// Releases; `at_ms` is the holder's time, for people.
    pub(crate) async fn release(
        &self,
        release: &Release,
        at_ms: &str,
        among: Among,
    ) -> Result<Released, StoreError> {
        self.watchers.leaves(&release.lease.election);
        let (election, mark) = (&release.lease.election, release.attempt.to_string());
        let error = |trouble| self.error("release", Some(election), trouble);
        let call = self.release_call(release, at_ms, among);
        let key = self.keys.of(election).lease;
        let written = self.write(&key, Request::One(&call), !release.open.is_empty()).await;
        let (value, replicated) = match written {
            Ok(written) => written,
            // What cannot be understood is not ours.
            Err(trouble) if trouble.is_corrupt() => return Ok(Released::NotHeld),
            Err(trouble) => return Err(error(trouble)),
        };
        let answer = Answer::new(value, &mark).map_err(|why| error(Trouble::Reply(why)))?;
        match answer.name() {
            "released" => replicated.map(|()| Released::Released).map_err(error),
            "not_held" => Ok(Released::NotHeld),
            other => Err(self.unexpected("release", election, format!("it says {other:?}"))),
        }
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
        let call = |age: Age<'_>| {
            let age = shared.age_arguments(age, longest);
            let spare: Vec<_> = shared.spare().collect();
            let mut all = Vec::with_capacity(arguments.len() + age.len() + spare.len());
            all.extend(arguments.iter().chain(&age).chain(&spare).map(String::as_str));
            Script::call(&keys, election.as_str(), "acquire", &mark, &all)
        };
        let sent = shared.clock.now();
        let error = |trouble| shared.error("acquire", Some(election), trouble);
        let (value, replicated) =
            shared.write(&keys.lease, Request::ByAge(&call), !bid.open.is_empty()).await.map_err(error)?;
        let answer = Answer::new(value, &mark).map_err(|why| error(Trouble::Reply(why)))?;
        let acquisition = shared.acquired(election, bid, sent, answer)?;
        let Acquisition::Acquired(lease) = &acquisition else { return Ok(acquisition) };
        if shared.config.min_replicas == 0 {
            return Ok(acquisition);
        }
        let now = shared.clock.now();
        // By then the lease has ended, and whatever is on its way about it has arrived or never will.
        let until = now.plus((lease.ttl + shared.config.max_server_skew + shared.config.call_timeout) * 2);
        let fate = shared.fates.settle(bid.id, replicated.is_ok(), now, until);
        if fate == Fate::GivenBack {
            // It goes on for as long as it takes; whoever bids waits for it while the call's time lasts.
            let (shared, lease) = (Arc::clone(shared), lease.clone());
            let given_back = tokio::spawn(async move { shared.give_back(&lease).await });
            let left = self.shared.left_of(self.shared.config.call_timeout, sent);
            let _ = within(&self.shared.clock, left, async { Ok(given_back.await) }).await;
        }
        match (fate, replicated) {
            (Fate::Granted, Ok(())) => Ok(acquisition),
            // Another attempt of this bid was in time.
            (_, Err(trouble)) => Err(error(trouble)),
            (Fate::GivenBack, Ok(())) => {
                let message =
                    "had this lease on too few replicas when it was granted: it was given back, bid anew";
                Err(error(Trouble::Unfit(ErrorKind::Unavailable, message.to_owned())))
            }
        }
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        self.shared.renew(renewals, &self.shared.now_ms(), Among::One).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.shared.release(release, &self.shared.now_ms(), Among::One).await
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
            // The write before the last failover may be lost.
            linearizable: !config.fails_over(),
            survives_restart: config.survives_restart,
            survives_failover: config.fails_over().then_some(false),
            clock: ExpiryClock::Store(
                "the server's wall clock: set forward, it ends leases early; set back, it ends them late",
            ),
            tokens: TokenOrder::StrictWithin(if config.fails_over() {
                config.max_server_skew
            } else {
                Duration::ZERO
            }),
            min_ttl: config.min_ttl,
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: assumptions(config),
        }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        Some(self)
    }
}

fn assumptions(config: &RedisConfig) -> Vec<&'static str> {
    let mut assumptions = vec![
        "nobody removes the keys (DEL, FLUSHALL) while somebody leads",
        "a server that restarts with older data, or with none, waits for the longest ttl of anybody before it grants; it \
         knows the ttls of whoever bids, and longest_ttl",
        "no other server takes this one's place with less than all of its data, unless every candidate was connected to this \
         one before: then they wait for the longest ttl of anybody",
        "the clock of a server that lost its data is not behind the one that its last tokens came from",
        "other software that uses a lease's key obeys the usual rules: it sets the key only if there is none, and renews \
         and removes only its own value",
    ];
    if config.fails_over() {
        assumptions.push(
            "a server whose place another one has taken serves nobody any more: whoever still reaches it may lead there, \
             unless min_replicas is the number of all replicas",
        );
        assumptions
            .push("the clocks of servers that take each other's place differ by less than max_server_skew");
        if matches!(config.address, Address::Sentinel { .. }) {
            assumptions.push(
                "a lease that a failover lost has ended when the longest ttl of anybody has passed since; nobody is elected \
                 before",
            );
        }
        if matches!(config.address, Address::Cluster(_)) {
            assumptions.push(
                "a replica that takes its master's place has what the master answered last: what it has not, is lost, and \
                 two may lead until the first one renews; fencing tokens protect what they write",
            );
        }
        if config.min_replicas > 0 {
            assumptions.push(
                "the replica that takes over is one of the min_replicas that have the lease, which is certain only if that \
                 is all of them",
            );
        }
    }
    if config.allow_eviction {
        assumptions
            .push("the server never removes a lease to make room, although its configuration permits it");
    }
    assumptions
}

/// Names the attempts of which one may be in the record.
fn marks<'a>(attempts: impl Iterator<Item = &'a Attempt>) -> String {
    let mut marks = String::with_capacity(66);
    for attempt in attempts {
        if !marks.is_empty() {
            marks.push(',');
        }
        // Nothing that is written into a text can fail.
        let _ = write!(marks, "{attempt}");
    }
    marks
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
