//! The network between a process and its server: delays, losses, duplicates, late deliveries, partitions.
//!
//! A message that has left its process is the network's: it arrives whatever becomes of the process. What comes back
//! waits at the process's gate.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{StreamExt, stream};
use tenure_core::store::{ErrorKind, StoreError};
use tenure_core::{ElectionName, Random};
use tenure_testkit::VirtualClock;
use tokio::sync::{Notify, OwnedMutexGuard, oneshot};

use crate::fault;
use crate::gate::Gate;
use crate::server::Server;
use crate::trace::{Recording, Stored, Verb, What, Who};

/// How the network treats the messages of one process. Chances are in thousandths.
#[derive(Clone, Debug)]
pub struct Weather {
    /// How long a request is under way, from and to.
    pub request: (Duration, Duration),
    /// How long a reply is under way, from and to.
    pub reply: (Duration, Duration),
    /// A request does not arrive.
    pub lose_request: u64,
    /// A reply does not arrive.
    pub lose_reply: u64,
    /// A request is held back, for up to `late_up_to`.
    pub late: u64,
    /// See `late`.
    pub late_up_to: Duration,
    /// A request arrives a second time, up to `late_up_to` later.
    pub duplicate: u64,
    /// The call fails at once, before anything has left.
    pub error: u64,
    /// The process is paused after it has stamped its request and before that leaves, for up to `pause_up_to`.
    pub pause_before_send: u64,
    /// The process is paused when the reply is there.
    pub pause_at_reply: u64,
    /// See the two before.
    pub pause_up_to: Duration,
    /// A call whose reply is lost hangs for ever instead of failing at some time.
    pub hang_for_ever: u64,
    /// Which calls all of this is for; the others have good weather.
    pub only: Option<Verb>,
}

impl Weather {
    /// A good network: a few milliseconds there and back.
    #[must_use]
    pub fn calm() -> Self {
        let millis = Duration::from_millis;
        Self {
            request: (millis(1), millis(4)),
            reply: (millis(1), millis(4)),
            lose_request: 0,
            lose_reply: 0,
            late: 0,
            late_up_to: Duration::ZERO,
            duplicate: 0,
            error: 0,
            pause_before_send: 0,
            pause_at_reply: 0,
            pause_up_to: Duration::ZERO,
            hang_for_ever: 0,
            only: None,
        }
    }
}

/// What all links of a run share.
pub struct Net {
    /// True time.
    pub time: VirtualClock,
    /// Where it is written down.
    pub trace: Recording,
    /// What is contested.
    pub election: ElectionName,
    /// The servers; most runs have one.
    pub servers: Mutex<Vec<Server>>,
    /// Nothing is held back beyond this true time.
    pub faults_end: Duration,
    /// The lock of a store that needs one (a wrong one).
    pub bottleneck: Option<Arc<tokio::sync::Mutex<()>>>,
    /// Where new links lead.
    pub route: AtomicUsize,
    /// What was last written down of each server.
    pub last: Mutex<Vec<Option<Stored>>>,
}

impl Net {
    /// Waits for true time to pass.
    pub async fn sleep(&self, d: Duration) {
        if !d.is_zero() {
            self.time.sleep_true(d).await;
        }
    }

    /// What is left until faults stop.
    #[must_use]
    pub fn time_for_faults(&self) -> Duration {
        self.faults_end.saturating_sub(self.time.true_now())
    }

    /// Returns one of the servers.
    #[must_use]
    pub fn server(&self, index: usize) -> Server {
        unpoisoned(&self.servers)[index].clone()
    }

    /// Writes down what a server's record has become.
    pub fn look(&self, index: usize) {
        let number = u8::try_from(index).unwrap_or(u8::MAX);
        let Some(stored) = self.server(index).stored(&self.election, number) else { return };
        let mut last = unpoisoned(&self.last);
        let servers = last.len().max(index + 1);
        last.resize(servers, None);
        let same = last[index]
            .as_ref()
            .is_some_and(|before| Stored { left: stored.left, ..before.clone() } == stored);
        if !same {
            last[index] = Some(stored.clone());
            self.trace.add(Who::WORLD, What::Stored(stored));
        }
    }
}

/// One message of a call.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Which call it belongs to.
    pub verb: Verb,
    /// It is not the first of one change.
    pub inside: bool,
    /// To which machine, where the server has several.
    pub machine: usize,
    /// The client takes care that it has its effect once at most.
    pub once: bool,
}

/// What the network does to one call.
struct Fate {
    error: bool,
    lose_request: bool,
    request: Duration,
    duplicate: Option<Duration>,
    lose_reply: bool,
    reply: Duration,
    /// How long a call without reply hangs before it fails; `None` = for ever.
    hang: Option<Duration>,
}

/// An answer, and the lock of a store that needs one.
type Served<T> = (T, Option<OwnedMutexGuard<()>>);

/// The way of one process to the servers.
pub struct Link {
    /// Whose it is.
    pub who: Who,
    gate: Arc<Gate>,
    /// What all links share.
    pub net: Arc<Net>,
    weather: Mutex<Weather>,
    cut_until: Mutex<Duration>,
    /// Of several machines of one server: until when each is out of reach.
    away_until: Mutex<BTreeMap<usize, Duration>>,
    route: AtomicUsize,
    /// Ends the watches on the server before.
    rerouted: Notify,
    random: Random,
}

impl Link {
    /// Makes a link to the server that serves at present.
    #[must_use]
    pub fn new(who: Who, gate: Arc<Gate>, net: Arc<Net>, weather: Weather, random: Random) -> Self {
        let route = AtomicUsize::new(net.route.load(Ordering::Relaxed));
        Self {
            who,
            gate,
            net,
            weather: Mutex::new(weather),
            cut_until: Mutex::default(),
            away_until: Mutex::default(),
            route,
            rerouted: Notify::new(),
            random,
        }
    }

    /// Changes the weather from now on.
    pub fn set_weather(&self, weather: Weather) {
        *unpoisoned(&self.weather) = weather;
    }

    /// Loses everything, both ways, for `d` from now on.
    pub fn cut_for(&self, d: Duration) {
        *unpoisoned(&self.cut_until) =
            self.net.time.true_now().saturating_add(d.min(self.net.time_for_faults()));
        self.net.trace.add(self.who, What::Fault(fault::PARTITION));
    }

    /// Loses everything from and to one machine of the server, for `d` from now on.
    pub fn cut_from(&self, machine: usize, d: Duration) {
        let until = self.net.time.true_now().saturating_add(d.min(self.net.time_for_faults()));
        unpoisoned(&self.away_until).insert(machine, until);
    }

    /// Ends all cuts.
    pub fn mend(&self) {
        *unpoisoned(&self.cut_until) = Duration::ZERO;
        unpoisoned(&self.away_until).clear();
    }

    /// Leads to another server from now on.
    pub fn set_route(&self, server: usize) {
        self.route.store(server, Ordering::Relaxed);
        self.rerouted.notify_waiters();
    }

    /// Returns the server that it leads to.
    #[must_use]
    pub fn server(&self) -> Server {
        self.net.server(self.route.load(Ordering::Relaxed))
    }

    /// Tells whether nothing gets through at present.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        *unpoisoned(&self.cut_until) > self.net.time.true_now()
    }

    fn is_cut_from(&self, machine: usize) -> bool {
        let away_until = unpoisoned(&self.away_until).get(&machine).copied();
        self.is_cut() || away_until.is_some_and(|until| until > self.net.time.true_now())
    }

    fn chance(&self, permille: u64) -> bool {
        permille > 0 && self.random.below(1000) < permille
    }

    fn between(&self, (from, to): (Duration, Duration)) -> Duration {
        from + self.random.up_to(to.saturating_sub(from))
    }

    /// Counts a fault of this process.
    pub fn fault(&self, name: &'static str) {
        self.net.trace.add(self.who, What::Fault(name));
    }

    fn draw(&self, weather: &Weather, verb: Verb) -> Fate {
        let bad = weather.only.is_none_or(|only| only == verb);
        let chance = |permille| bad && self.chance(permille);
        let calm = Weather::calm();
        let (request, reply) =
            if bad { (weather.request, weather.reply) } else { (calm.request, calm.reply) };
        let mut fate = Fate {
            error: chance(weather.error),
            lose_request: chance(weather.lose_request),
            request: self.between(request),
            duplicate: None,
            lose_reply: chance(weather.lose_reply),
            reply: self.between(reply),
            hang: None,
        };
        if chance(weather.late) {
            self.fault(fault::LATE);
            fate.request += self.random.up_to(weather.late_up_to).min(self.net.time_for_faults());
        }
        if chance(weather.duplicate) {
            fate.duplicate = Some(self.random.up_to(weather.late_up_to).min(self.net.time_for_faults()));
        }
        if !self.chance(weather.hang_for_ever) {
            fate.hang = Some(self.random.up_to(weather.late_up_to.max(Duration::from_secs(2))));
        }
        fate
    }

    fn pause_process(&self, up_to: Duration) {
        let d = self.random.up_to(up_to).min(self.net.time_for_faults());
        self.net.trace.add(self.who, What::Paused(d));
        self.gate.shut_for(d);
    }

    /// Sends a request, has it served, and waits for the reply. `inside`: it is the second step of one change.
    ///
    /// # Errors
    /// If the request or the reply does not arrive.
    pub async fn call<T, Fut>(
        self: &Arc<Self>,
        verb: Verb,
        inside: bool,
        serve: impl Fn(Server) -> Fut + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        self.call_at(Step { verb, inside, machine: 0, once: false }, serve).await
    }

    /// Does the same with one of several machines of the server.
    ///
    /// # Errors
    /// If the request or the reply does not arrive.
    pub async fn call_at<T, Fut>(
        self: &Arc<Self>,
        step: Step,
        serve: impl Fn(Server) -> Fut + Send + Sync + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let Step { verb, inside, .. } = step;
        let weather = unpoisoned(&self.weather).clone();
        if self.chance(weather.pause_before_send) {
            self.fault(if inside { fault::STOPPED_INSIDE } else { fault::PAUSED_BEFORE_SEND });
            self.pause_process(weather.pause_up_to);
        }
        self.gate.pass().await;
        let fate = self.draw(&weather, verb);
        if fate.error {
            self.fault(fault::ERROR);
            return Err(failed(ErrorKind::Unavailable));
        }
        let (sender, receiver) = oneshot::channel();
        tokio::spawn(Arc::clone(self).deliver(step, serve, fate, sender));
        let answer = receiver.await;
        if self.chance(weather.pause_at_reply) {
            self.fault(fault::PAUSED_AT_REPLY);
            self.pause_process(weather.pause_up_to);
        }
        self.gate.pass().await;
        // The lock of a wrong store is kept until here: the process has read the answer.
        answer.unwrap_or_else(|_| Err(failed(ErrorKind::Unavailable))).map(|(answer, _lock)| answer)
    }

    async fn deliver<T, Fut>(
        self: Arc<Self>,
        step: Step,
        serve: impl Fn(Server) -> Fut + Send + Sync + 'static,
        fate: Fate,
        reply: oneshot::Sender<Result<Served<T>, StoreError>>,
    ) where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let net = &self.net;
        if fate.lose_request || self.is_cut_from(step.machine) {
            self.fault(fault::REQUEST_LOST);
            return hang(net, fate.hang, reply).await;
        }
        net.sleep(fate.request).await;
        let (answer, lock) = self.serve(step, &serve).await;
        if let Some(again_after) = fate.duplicate.filter(|_| !step.once) {
            self.fault(fault::DUPLICATE);
            let link = Arc::clone(&self);
            tokio::spawn(async move {
                link.net.sleep(again_after.min(link.net.time_for_faults())).await;
                drop(link.serve(step, &serve).await);
            });
        }
        if fate.lose_reply || self.is_cut_from(step.machine) {
            self.fault(fault::REPLY_LOST);
            return hang(net, fate.hang, reply).await;
        }
        net.sleep(fate.reply).await;
        // Nobody waits for the reply of a process that is gone.
        drop(reply.send(Ok((answer, lock))));
    }

    async fn serve<T, Fut: Future<Output = T>>(
        &self,
        step: Step,
        serve: &impl Fn(Server) -> Fut,
    ) -> Served<T> {
        let arrived = self.net.time.true_now();
        let lock = match &self.net.bottleneck {
            Some(lock) => Some(Arc::clone(lock).lock_owned().await),
            None => None,
        };
        let index = self.route.load(Ordering::Relaxed);
        let server = self.net.server(index);
        // A look changes nothing; where the process decides, its first step is a look.
        let writes = if server.decides() { step.verb != Verb::Read } else { step.inside };
        let answer = serve(server).await;
        let waited = self.net.time.true_now().saturating_sub(arrived);
        if !waited.is_zero() {
            self.net.trace.add(self.who, What::Waited(step.verb, waited));
        }
        if writes {
            self.net.look(index);
        }
        (answer, lock)
    }

    /// Brings what a watch reports, or `gap` instead, late or never.
    pub fn watch<T: Send + 'static>(
        self: &Arc<Self>,
        inner: BoxStream<'static, T>,
        gap: fn() -> T,
    ) -> BoxStream<'static, T> {
        let link = Arc::clone(self);
        Box::pin(stream::unfold((link, inner), move |(link, mut inner)| async move {
            loop {
                let change = tokio::select! {
                    biased;
                    change = inner.next() => change?,
                    () = link.rerouted.notified() => {
                        link.gate.pass().await;
                        return None;
                    }
                };
                let weather = unpoisoned(&link.weather).clone();
                link.net.sleep(link.between(weather.reply)).await;
                let lost = link.is_cut() || link.chance(weather.lose_reply);
                if lost && link.chance(500) {
                    link.fault(fault::WATCH_LOST);
                    continue;
                }
                link.gate.pass().await;
                return Some((if lost { gap() } else { change }, (link, inner)));
            }
        }))
    }
}

/// A call without reply: it fails at some time, or hangs for ever.
async fn hang<T>(net: &Net, limit: Option<Duration>, reply: oneshot::Sender<Result<T, StoreError>>) {
    match limit {
        Some(limit) => {
            net.sleep(limit).await;
            drop(reply.send(Err(failed(ErrorKind::Timeout))));
        }
        None => {
            std::future::pending::<()>().await;
            drop(reply);
        }
    }
}

fn failed(kind: ErrorKind) -> StoreError {
    StoreError::new(kind, "simulated", "call", "lost in the simulated network")
}

/// A thread that panicked left only whole values behind here.
pub(crate) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
