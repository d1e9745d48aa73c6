//! The connection that all calls of a process share, and when it is replaced by a new one.
//!
//! A connection that is a black hole looks like a slow one: nothing comes back, nothing fails. So one that left a call
//! without an answer is asked for a sign of life before the next call goes over it, and is replaced if that does not come
//! either; a call that repeats one whose answer never came does not even ask. Nothing is ever sent twice: a call that failed is the caller's to repeat, who knows what repeating means.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, PushKind, RedisError, Value};
use tenure_core::clock::{ClockExt, Moment};
use tenure_core::{Clock, Random};
use tokio::sync::watch;

use crate::connect::{Connect, Connected};
use crate::error::Trouble;
use crate::wait::Waits;

/// The first wait after a connection that did not come about; it doubles up to the longest one.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The part of a call's time in which a sign of life must come: the rest is for a new connection and the call itself.
const SIGN_OF_LIFE: u32 = 4;

/// A connection of at most this age is new for whoever repeats a call: thousands that do so at once share it.
const NEW: Duration = Duration::from_millis(100);

/// So long is a connection used to a server beside which another one may serve: then it is looked whether that is over.
const UNSETTLED: Duration = Duration::from_secs(1);

/// The shared connection; clones are the same one.
#[derive(Clone)]
pub(crate) struct Links {
    shared: Arc<Shared>,
}

struct Shared {
    connect: Arc<dyn Connect>,
    clock: Arc<dyn Clock>,
    random: Random,
    /// How long connecting may take.
    limit: Duration,
    slot: Mutex<Slot>,
    last_run: Mutex<Option<Run>>,
}

/// A run of a server, from its start to its end.
#[derive(Clone)]
struct Run {
    /// What the server calls it.
    name: Arc<str>,
    /// When it was first met here, if there was another one before: until then that one may have given leases.
    met: Option<Moment>,
}

/// What becomes of a connection that is being made.
type Coming = watch::Receiver<Option<Made>>;
type Made = Result<Arc<Link>, Trouble>;

enum Slot {
    /// There is none; so often in a row did it not come about.
    None { failures: u32 },
    /// It is being made; whoever needs it waits here.
    Coming(Coming),
    /// There is one.
    Up(Arc<Link>),
}

/// One connection.
pub(crate) struct Link {
    connection: MultiplexedConnection,
    made: Moment,
    /// How long the server had been up then.
    up: Duration,
    /// How long it had been the one that serves then.
    serves: Duration,
    /// Whether no other one may have served beside it.
    settled: bool,
    run: Run,
    gone: Arc<AtomicBool>,
    /// A call was given up since the last answer.
    unanswered: AtomicBool,
    waiting: AtomicU32,
    /// What its replicas have.
    pub(crate) waits: Waits,
}

/// For how long at least a server has been what it is.
#[derive(Clone, Copy)]
pub(crate) struct Age<'a> {
    /// Up.
    pub(crate) up: Duration,
    /// The one that serves.
    pub(crate) serves: Duration,
    /// Met here; `None` if no other run was met before.
    pub(crate) met: Option<Duration>,
    /// What it calls its run.
    pub(crate) run: &'a str,
}

impl Age<'_> {
    /// Returns the age of a server that serves for so long at most.
    pub(crate) fn serving(self, since: Duration) -> Self {
        Self { serves: since.min(self.serves), ..self }
    }
}

/// What is sent in one go.
#[derive(Clone, Copy)]
pub(crate) enum Request<'a> {
    One(&'a Cmd),
    Many(&'a Pipeline),
    /// One that depends on the age of the server that answers on this connection.
    ByAge(&'a (dyn Fn(Age<'_>) -> Cmd + Sync)),
    /// Many of which some do.
    ManyByAge(&'a (dyn Fn(Age<'_>) -> Pipeline + Sync)),
}

impl Links {
    pub(crate) fn new(connect: Arc<dyn Connect>, clock: Arc<dyn Clock>, limit: Duration) -> Self {
        let slot = Mutex::new(Slot::None { failures: 0 });
        let (random, last_run) = (Random::from_os(), Mutex::default());
        Self { shared: Arc::new(Shared { connect, clock, random, limit, slot, last_run }) }
    }

    pub(crate) fn server(&self) -> &str {
        self.shared.connect.name()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// Sends a request and waits for its answer, connecting first if need be, all within `limit`.
    ///
    /// `again`: an earlier request of the same meaning was not answered. It goes over a connection that is newer than
    /// anything that looks like a black hole.
    pub(crate) async fn send(
        &self,
        request: Request<'_>,
        again: bool,
        limit: Duration,
    ) -> Result<Vec<Value>, Trouble> {
        self.send_over(request, again, limit).await.map(|(values, _)| values)
    }

    /// Sends a request as [`send`](Self::send) does, and returns the connection that it went over, too.
    pub(crate) async fn send_over(
        &self,
        request: Request<'_>,
        again: bool,
        limit: Duration,
    ) -> Result<(Vec<Value>, Arc<Link>), Trouble> {
        let connected = AtomicBool::new(false);
        let answer = async {
            let link = self.link(again, limit).await?;
            connected.store(true, Ordering::Relaxed);
            let values = link.send(request, self.shared.clock.now()).await?;
            Ok((values, link))
        };
        match within(&self.shared.clock, limit, answer).await {
            Err(Trouble::NoAnswer(limit)) if !connected.load(Ordering::Relaxed) => {
                Err(Trouble::NoConnection(limit))
            }
            answer => answer,
        }
    }

    /// Sends a request over a certain connection.
    pub(crate) async fn send_by(
        &self,
        link: &Link,
        request: Request<'_>,
        limit: Duration,
    ) -> Result<Vec<Value>, Trouble> {
        within(&self.shared.clock, limit, link.send(request, self.shared.clock.now())).await
    }

    async fn link(&self, again: bool, limit: Duration) -> Result<Arc<Link>, Trouble> {
        loop {
            let mut coming = match self.usable_or_coming(again) {
                Ok(link) if !link.is_suspect() || self.shows_life(&link, limit).await => return Ok(link),
                // It is gone now: there is another one, or one is made.
                Ok(_) => continue,
                Err(coming) => coming,
            };
            return match coming.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(given_up())),
                // The task that connects ended with its runtime.
                Err(_) => Err(given_up()),
            };
        }
    }

    /// Asks a connection whether it still is one.
    async fn shows_life(&self, link: &Link, limit: Duration) -> bool {
        let ping = redis::cmd("PING");
        let sign = self.send_by(link, Request::One(&ping), limit / SIGN_OF_LIFE).await;
        if sign.is_err() {
            link.gone.store(true, Ordering::Release);
        }
        sign.is_ok()
    }

    fn usable_or_coming(&self, again: bool) -> Result<Arc<Link>, Coming> {
        let mut slot = self.shared.slot();
        let failures = match &*slot {
            Slot::Up(link) if link.is_usable(again, self.shared.clock.now()) => return Ok(Arc::clone(link)),
            Slot::Coming(coming) if coming.has_changed().is_ok() => return Err(coming.clone()),
            // One that is of no use any more; or a task that connects and is gone without a word, with its runtime.
            Slot::Up(_) | Slot::Coming(_) => 0,
            Slot::None { failures } => *failures,
        };
        let (told, coming) = watch::channel(None);
        *slot = Slot::Coming(coming.clone());
        tokio::spawn(connect(Arc::clone(&self.shared), failures, told));
        Err(coming)
    }
}

async fn connect(shared: Arc<Shared>, failures: u32, told: watch::Sender<Option<Made>>) {
    if failures > 0 {
        shared.clock.sleep(wait_after(failures, &shared.random)).await;
    }
    let outcome = within(&shared.clock, shared.limit, shared.connected()).await;
    let mut slot = shared.slot();
    *slot = match &outcome {
        Ok(link) => Slot::Up(Arc::clone(link)),
        Err(_) => Slot::None { failures: failures.saturating_add(1) },
    };
    // While the slot is locked: whoever looks now finds either the one that is coming, told, or the one that is up.
    told.send_replace(Some(outcome));
}

/// How long to wait after so many failures in a row: between half of the time and the whole, so that those whom one outage
/// cut off do not come back at one instant.
pub(crate) fn wait_after(failures: u32, random: &Random) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_WAIT);
    wait / 2 + random.up_to(wait / 2)
}

impl Shared {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connected(&self) -> Result<Arc<Link>, Trouble> {
        let gone = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&gone);
        let push = move |info: redis::PushInfo| {
            if info.kind == PushKind::Disconnection {
                told.store(true, Ordering::Release);
            }
        };
        let Connected { connection, up, serves, settled, run } = self.connect.connect(Box::new(push)).await?;
        // After the server told how long it has been up: what is added to that is then never too much.
        let made = self.clock.now();
        Ok(Arc::new(Link {
            connection,
            made,
            up,
            serves,
            settled,
            run: self.run(&run, made),
            gone,
            unanswered: AtomicBool::new(false),
            waiting: AtomicU32::new(0),
            waits: Waits::default(),
        }))
    }
}

impl Shared {
    /// Compares a server's run with the last one that was met here.
    fn run(&self, name: &str, now: Moment) -> Run {
        let mut last = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some(run) if *run.name == *name => run.clone(),
            other => {
                let run = Run { name: name.into(), met: other.as_ref().map(|_| now) };
                *last = Some(run.clone());
                run
            }
        }
    }
}

impl Link {
    fn is_usable(&self, again: bool, now: Moment) -> bool {
        let gone = self.gone.load(Ordering::Acquire);
        let age = now.time_since(self.made);
        let new = age <= NEW;
        let silent = self.is_suspect() || self.waiting.load(Ordering::Acquire) > 0;
        let unsettled = !self.settled && age > UNSETTLED;
        !gone && !unsettled && (!again || !silent || new)
    }

    /// Tells whether the last call over it was given up.
    fn is_suspect(&self) -> bool {
        self.unanswered.load(Ordering::Acquire)
    }

    fn age(&self, now: Moment) -> Age<'_> {
        // What our clock says was since then, less a tenth: it may run that much faster than the server's.
        let since = |moment| now.time_since(moment) - now.time_since(moment) / 10;
        let serves = self.serves.saturating_add(since(self.made));
        Age {
            up: self.up.saturating_add(since(self.made)),
            serves: if self.settled { serves } else { Duration::ZERO },
            met: self.run.met.map(since),
            run: &self.run.name,
        }
    }

    async fn send(&self, request: Request<'_>, now: Moment) -> Result<Vec<Value>, Trouble> {
        let mut connection = self.connection.clone();
        let waiting = Waiting::new(self);
        let answer = match request {
            Request::One(command) => connection.send_packed_command(command).await.map(|value| vec![value]),
            Request::ByAge(command) => {
                let command = command(self.age(now));
                connection.send_packed_command(&command).await.map(|value| vec![value])
            }
            Request::Many(commands) => connection.send_packed_commands(commands, 0, commands.len()).await,
            Request::ManyByAge(commands) => {
                let commands = commands(self.age(now));
                connection.send_packed_commands(&commands, 0, commands.len()).await
            }
        };
        match answer {
            Ok(values) => {
                waiting.answered();
                let wrong = |value: &Value| matches!(value, Value::ServerError(error) if Trouble::is_of_the_wrong_server(&error.clone().into()));
                if values.iter().any(wrong) {
                    self.gone.store(true, Ordering::Release);
                }
                Ok(values)
            }
            Err(error) => {
                // Errors of the server are values here: this is the connection's own.
                self.gone.store(true, Ordering::Release);
                Err(Trouble::Connection(error))
            }
        }
    }
}

/// A call under way; one that is given up counts as unanswered.
struct Waiting<'a> {
    link: &'a Link,
    answered: bool,
}

impl<'a> Waiting<'a> {
    fn new(link: &'a Link) -> Self {
        link.waiting.fetch_add(1, Ordering::AcqRel);
        Self { link, answered: false }
    }

    fn answered(mut self) {
        self.answered = true;
        self.link.unanswered.store(false, Ordering::Release);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.link.waiting.fetch_sub(1, Ordering::AcqRel);
        if !self.answered {
            self.link.unanswered.store(true, Ordering::Release);
        }
    }
}

/// Waits for `future`, at most for `limit`.
pub(crate) async fn within<T>(
    clock: &Arc<dyn Clock>,
    limit: Duration,
    future: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    let mut over = clock.sleep(limit);
    tokio::select! {
        biased;
        value = future => value,
        () = &mut over => Err(Trouble::NoAnswer(limit)),
    }
}

fn given_up() -> Trouble {
    let ended = std::io::Error::other("connecting was given up");
    Trouble::Connection(RedisError::from(ended))
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Links({})", self.server())
    }
}
