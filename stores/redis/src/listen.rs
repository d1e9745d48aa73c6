//! The one connection on which a process hears of all the elections that it watches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tenure_core::clock::{ClockExt, Moment};
use tenure_core::{Clock, ElectionName, Random};
use tokio::sync::mpsc;

use crate::connect::{Connect, Connected};
use crate::error::Trouble;
use crate::keys::Keys;
use crate::link::{wait_after, within};
use crate::script::View;
use crate::turns::{Turns, turn_among};
use crate::watch::{Message, Watchers};

/// Names in one command: few round trips, and none that holds the server up.
const CHUNK: usize = 1000;

/// How often the server is asked whether it is still there: a watch over a black hole hears nothing, as one over a quiet
/// election does.
const PING: Duration = Duration::from_secs(5);

/// What of a key's own notifications frees a lease, in the words of the server.
const FREEING: &[&str] = &["del", "expired", "evicted", "rename_from"];

/// Listens for as long as the store lives.
pub(crate) struct Listener {
    pub(crate) connect: Arc<dyn Connect>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) keys: Keys,
    pub(crate) database: u32,
    /// How long one call may take.
    pub(crate) limit: Duration,
}

impl Listener {
    pub(crate) async fn run(self) {
        let mut failures = 0;
        loop {
            while self.watchers.is_empty() {
                self.watchers.work.notified().await;
            }
            if failures > 0 {
                self.clock.sleep(wait_after(failures, &self.random)).await;
            }
            let (told, messages) = mpsc::unbounded_channel();
            let push = Box::new(move |info: PushInfo| drop(told.send(info)));
            match within(&self.clock, self.limit, self.connect.connect(push)).await {
                Ok(Connected { connection, .. }) => {
                    let begun = self.clock.now();
                    let mut session = Session {
                        listener: &self,
                        connection,
                        channels: BTreeSet::new(),
                        of_keys: BTreeMap::new(),
                        turns: Turns::default(),
                    };
                    let ended = session.serve(messages).await;
                    // Their turn would not come any more.
                    for election in session.turns.take_all() {
                        self.watchers.wake(&election);
                    }
                    // One that served for a while was a good one; one that did not counts like one that never came.
                    let good = self.clock.now().time_since(begun) >= PING;
                    failures = if good { 1 } else { failures + 1 };
                    match ended {
                        Ok(()) => failures = 0,
                        Err(trouble) => self.report(&trouble),
                    }
                }
                Err(trouble) => {
                    failures += 1;
                    self.report(&trouble);
                }
            }
        }
    }

    fn report(&self, trouble: &Trouble) {
        tracing::warn!(server = self.connect.name(), ?trouble, "no news of elections: timers wake instead");
    }
}

/// One connection's life.
struct Session<'a> {
    listener: &'a Listener,
    connection: MultiplexedConnection,
    /// Elections whose changes the script tells.
    channels: BTreeSet<ElectionName>,
    /// Channels on which the server itself tells of the key of a lease, if it is set up to.
    of_keys: BTreeMap<String, ElectionName>,
    turns: Turns,
}

impl Session<'_> {
    /// Hears what there is to hear, until nobody watches any more (`Ok`) or the connection is of no use.
    async fn serve(&mut self, mut messages: mpsc::UnboundedReceiver<PushInfo>) -> Result<(), Trouble> {
        let Listener { clock, watchers, .. } = self.listener;
        self.subscribe(watchers.take_all()).await?;
        let mut ping = clock.sleep(PING);
        while !self.channels.is_empty() {
            for election in self.turns.take_due(clock.now()) {
                watchers.wake(&election);
            }
            let turn = self.turns.first();
            tokio::select! {
                biased;
                message = messages.recv() => {
                    let mut removed = BTreeSet::new();
                    let mut next = message;
                    loop {
                        let Some(message) = next else { return Err(gone()) };
                        if self.take(message, &mut removed).await.is_break() {
                            return Err(gone());
                        }
                        match messages.try_recv() {
                            Ok(message) => next = Some(message),
                            Err(_) => break,
                        }
                    }
                    // A release removes the key first and tells then; whoever heard both need not look.
                    for election in removed.into_iter().filter(|name| watchers.has_foreign_holder(name)) {
                        watchers.look(&election);
                    }
                }
                () = clock.sleep_until(turn.unwrap_or(Moment::FAR)), if turn.is_some() => {}
                () = watchers.work.notified() => self.subscribe(watchers.take_changed()).await?,
                () = &mut ping => {
                    self.send(&redis::cmd("PING")).await?;
                    ping = clock.sleep(PING);
                }
            }
        }
        Ok(())
    }

    async fn send(&mut self, command: &redis::Cmd) -> Result<Value, Trouble> {
        let Listener { clock, limit, .. } = self.listener;
        let connection = &mut self.connection;
        within(clock, *limit, async {
            match connection.send_packed_command(command).await {
                Ok(Value::ServerError(error)) => Err(Trouble::Server(error.into())),
                Ok(value) => Ok(value),
                Err(error) => Err(Trouble::Connection(error)),
            }
        })
        .await
    }

    /// Subscribes to what of these is watched and unsubscribes from what is not.
    async fn subscribe(&mut self, elections: Vec<ElectionName>) -> Result<(), Trouble> {
        let Listener { watchers, keys, database, .. } = self.listener;
        let (mut new, mut left, mut of_keys) = (Vec::new(), Vec::new(), Vec::new());
        for election in elections {
            if !watchers.has(&election) {
                left.push(election);
                continue;
            }
            if watchers.has_foreign_holder(&election) {
                of_keys.push(election.clone());
            }
            if !self.channels.contains(&election) {
                new.push(election);
            }
        }
        for elections in left.chunks(CHUNK) {
            self.unsubscribe(elections).await?;
        }
        new.sort_unstable();
        new.dedup();
        for elections in new.chunks(CHUNK) {
            let names: Vec<_> = elections.iter().map(|election| keys.of(election).channel).collect();
            if let Err(trouble) = self.change("SUBSCRIBE", &names).await {
                if let Trouble::Server(_) = trouble {
                    watchers.denied();
                }
                return Err(trouble);
            }
            self.channels.extend(elections.iter().cloned());
            watchers.told(elections);
        }
        for election in of_keys {
            let name = format!("__keyspace@{database}__:{}", keys.of(&election).lease);
            if self.of_keys.contains_key(&name) {
                continue;
            }
            match self.change("SUBSCRIBE", std::slice::from_ref(&name)).await {
                // It may have gone before anybody listened.
                Ok(()) => watchers.look(&election),
                // Whoever may not hear of keys waits for the time that a foreign lease has left.
                Err(trouble) => tracing::debug!(?trouble, "no news of keys"),
            }
            self.of_keys.insert(name, election);
        }
        Ok(())
    }

    /// Listens no more to what is told of some elections.
    async fn unsubscribe(&mut self, elections: &[ElectionName]) -> Result<(), Trouble> {
        let Listener { keys, database, .. } = self.listener;
        let mut names = Vec::new();
        for election in elections {
            let of = keys.of(election);
            if self.channels.remove(election) {
                names.push(of.channel);
            }
            let of_key = format!("__keyspace@{database}__:{}", of.lease);
            if self.of_keys.remove(&of_key).is_some() {
                names.push(of_key);
            }
        }
        if names.is_empty() { Ok(()) } else { self.change("UNSUBSCRIBE", &names).await }
    }

    async fn change(&mut self, verb: &str, names: &[String]) -> Result<(), Trouble> {
        let Listener { clock, limit, .. } = self.listener;
        let connection = &mut self.connection;
        within(clock, *limit, async {
            let changed = match verb {
                "SUBSCRIBE" => connection.subscribe(names).await,
                _ => connection.unsubscribe(names).await,
            };
            changed.map_err(|error| match error.kind() {
                redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => Trouble::Server(error),
                _ => Trouble::Connection(error),
            })
        })
        .await
    }

    /// Takes one message; notes leases whose key was removed.
    async fn take(&mut self, info: PushInfo, removed: &mut BTreeSet<ElectionName>) -> ControlFlow<()> {
        if info.kind == PushKind::Disconnection {
            return ControlFlow::Break(());
        }
        let PushInfo { kind: PushKind::Message, data } = info else {
            return ControlFlow::Continue(());
        };
        let [Value::BulkString(channel), Value::BulkString(text)] = data.as_slice() else {
            return ControlFlow::Continue(());
        };
        let Ok(channel) = std::str::from_utf8(channel) else {
            return ControlFlow::Continue(());
        };
        // What is no text is no message of ours, and makes whoever watches look.
        let text = std::str::from_utf8(text).unwrap_or_default();
        let Listener { watchers, keys, .. } = self.listener;
        if let Some(election) = self.of_keys.get(channel) {
            if FREEING.contains(&text) {
                removed.insert(election.clone());
            }
            return ControlFlow::Continue(());
        }
        let Some(election) = keys.election_of(channel).filter(|election| self.channels.contains(election))
        else {
            return ControlFlow::Continue(());
        };
        if watchers.is_own_renewal(&election, text) {
            return ControlFlow::Continue(());
        }
        match Message::read(text) {
            Some(Message::View(view)) => {
                // Whatever has become of it: it is not what this process waits for its turn at.
                self.turns.forget(&election);
                watchers.viewed(&election, &view);
            }
            Some(Message::Released(view, told)) => self.released(election, &view, told),
            Some(Message::Renewed(renewed)) => watchers.renewed(&election, &renewed),
            Some(Message::Call(reply_to)) => self.answer(&election, &reply_to).await,
            // From a later version, or from somebody who should not be here.
            None => watchers.look(&election),
        }
        ControlFlow::Continue(())
    }

    /// Lets whoever watches a lease that was given back bid: at once if few wait for it, else in turns.
    fn released(&mut self, election: ElectionName, view: &View, told: u32) {
        let Listener { watchers, clock, random, .. } = self.listener;
        if !watchers.learned(&election, view) {
            return;
        }
        // One who is named as the successor has no rivals.
        let named = view.fields.contains_key("reserved_for");
        match turn_among(told, random).filter(|_| !named) {
            Some(turn) => self.turns.add(election, clock.now().plus(turn)),
            None => watchers.wake(&election),
        }
    }

    /// Tells whoever called who stands by here.
    async fn answer(&mut self, election: &ElectionName, reply_to: &str) {
        let standing_by = self.listener.watchers.standing_by(election);
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(reply_to).arg(crate::record::json(&standing_by));
        if let Err(trouble) = self.send(&publish).await {
            tracing::debug!(?trouble, "a roll call was not answered");
        }
    }
}

fn gone() -> Trouble {
    Trouble::Connection(redis::RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset)))
}
