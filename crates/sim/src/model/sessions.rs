//! A server whose keys hang on sessions: what etcd (leases) and Consul (sessions) do, as far as elections need it.
//!
//! Every write raises one revision. A key remembers the revision that made it and the one that changed it last. A
//! session that is not kept alive for its ttl ends, by the server's clock, and takes its keys with it. A write is a
//! transaction: it happens whole, if all its conditions hold, or not at all.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::Stream;
use tenure_core::Clock;
use tenure_testkit::VirtualClock;
use tokio::sync::Notify;

use crate::network::unpoisoned;

/// The number of a session.
pub type SessionId = u64;

/// One key's value.
#[derive(Clone, Debug)]
pub struct Entry<V> {
    /// The revision that made the key.
    pub created: u64,
    /// The revision that changed it last.
    pub changed: u64,
    /// The session that it hangs on; `None` = it stays.
    pub session: Option<SessionId>,
    /// What is written there.
    pub value: V,
}

/// A condition of a transaction.
#[derive(Clone, Debug)]
pub enum If {
    /// Nothing is there.
    Absent(String),
    /// What is there was changed last by this revision.
    Unchanged(String, u64),
}

/// A part of a transaction.
#[derive(Clone, Debug)]
pub enum Then<V> {
    /// Writes a value; a key that is there keeps the revision that made it.
    Put(String, V, Option<SessionId>),
    /// Removes a key.
    Delete(String),
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It happened.
    Yes,
    /// A condition did not hold.
    No,
    /// A session that a key should hang on is gone.
    NoSession,
}

/// Everything at one revision, and how long the sessions of the keys still live.
#[derive(Clone, Debug)]
pub struct Snapshot<V> {
    /// The keys.
    pub keys: BTreeMap<String, Entry<V>>,
    /// How long each session lives without being kept alive.
    pub left: BTreeMap<SessionId, Duration>,
}

/// The server; clones are the same one.
pub struct Sessions<V> {
    shared: Arc<Shared<V>>,
}

impl<V> Clone for Sessions<V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<V> {
    clock: VirtualClock,
    state: Mutex<State<V>>,
    /// The present revision.
    revision: AtomicU64,
    /// Wakes watches, in the order in which they wait: tokio's own `watch` has a random one.
    changed: Notify,
}

struct State<V> {
    sessions: BTreeMap<SessionId, Session>,
    last_session: SessionId,
    keys: BTreeMap<String, Entry<V>>,
}

struct Session {
    ttl: Duration,
    ends: Duration,
}

impl<V: Clone + Send + 'static> Sessions<V> {
    /// Makes an empty server, whose sessions end by `clock`.
    #[must_use]
    pub fn new(clock: VirtualClock) -> Self {
        let state = State { sessions: BTreeMap::new(), last_session: 0, keys: BTreeMap::new() };
        let shared =
            Shared { clock, state: Mutex::new(state), revision: AtomicU64::new(0), changed: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the state with everything gone that has ended.
    fn state(&self) -> MutexGuard<'_, State<V>> {
        let now = self.shared.clock.now().boot();
        let mut state = unpoisoned(&self.shared.state);
        let ended: Vec<SessionId> =
            state.sessions.iter().filter(|(_, session)| session.ends <= now).map(|(id, _)| *id).collect();
        for id in ended {
            self.end(&mut state, id);
        }
        state
    }

    fn end(&self, state: &mut State<V>, id: SessionId) {
        state.sessions.remove(&id);
        let before = state.keys.len();
        state.keys.retain(|_, entry| entry.session != Some(id));
        if state.keys.len() < before {
            self.next_revision();
        }
    }

    fn next_revision(&self) -> u64 {
        let before = self.shared.revision.fetch_add(1, Ordering::Relaxed);
        self.shared.changed.notify_waiters();
        before + 1
    }

    /// Opens a session. Its end is noticed when it comes, also if nobody asks then.
    #[must_use]
    pub fn open(&self, ttl: Duration) -> SessionId {
        let mut state = self.state();
        state.last_session += 1;
        let id = state.last_session;
        let ends = self.shared.clock.now().boot().saturating_add(ttl);
        state.sessions.insert(id, Session { ttl, ends });
        drop(state);
        let server = self.clone();
        tokio::spawn(async move {
            while let Some(left) = server.left(id) {
                let clock = &server.shared.clock;
                clock.sleep_until(clock.now().plus(left)).await;
            }
        });
        id
    }

    /// Returns how long a session lives without being kept alive; `None` if it is gone.
    #[must_use]
    pub fn left(&self, id: SessionId) -> Option<Duration> {
        let now = self.shared.clock.now().boot();
        self.state().sessions.get(&id).map(|session| session.ends.saturating_sub(now))
    }

    /// Keeps a session alive for another ttl; tells whether it is there.
    #[must_use]
    pub fn keep_alive(&self, id: SessionId) -> bool {
        let now = self.shared.clock.now().boot();
        let mut state = self.state();
        let session = state.sessions.get_mut(&id);
        session.map(|session| session.ends = now.saturating_add(session.ttl)).is_some()
    }

    /// Does all of `then` if all of `conditions` hold.
    #[must_use]
    pub fn transact(&self, conditions: &[If], then: &[Then<V>]) -> Done {
        let mut state = self.state();
        let holds = |condition: &If| match condition {
            If::Absent(key) => !state.keys.contains_key(key),
            If::Unchanged(key, changed) => state.keys.get(key).is_some_and(|entry| entry.changed == *changed),
        };
        if !conditions.iter().all(holds) {
            return Done::No;
        }
        let there = |then: &Then<V>| match then {
            Then::Put(_, _, Some(session)) => state.sessions.contains_key(session),
            _ => true,
        };
        if !then.iter().all(there) {
            return Done::NoSession;
        }
        let changed = self.next_revision();
        for step in then {
            match step {
                Then::Delete(key) => drop(state.keys.remove(key)),
                Then::Put(key, value, session) => {
                    let created = state.keys.get(key).map_or(changed, |entry| entry.created);
                    let entry = Entry { created, changed, session: *session, value: value.clone() };
                    state.keys.insert(key.clone(), entry);
                }
            }
        }
        Done::Yes
    }

    /// Looks at everything.
    #[must_use]
    pub fn look(&self) -> Snapshot<V> {
        let now = self.shared.clock.now().boot();
        let state = self.state();
        let left = |(id, session): (&SessionId, &Session)| (*id, session.ends.saturating_sub(now));
        Snapshot { keys: state.keys.clone(), left: state.sessions.iter().map(left).collect() }
    }

    /// Waits for a revision after `seen`.
    async fn next_change(&self, seen: u64) -> u64 {
        loop {
            // Before the look: a change between the two would be missed.
            let changed = self.shared.changed.notified();
            let revision = self.shared.revision.load(Ordering::Relaxed);
            if revision > seen {
                return revision;
            }
            changed.await;
        }
    }

    /// Reports what everything has become after each change; changes that come together may be reported as one.
    pub fn watch(&self) -> impl Stream<Item = Snapshot<V>> + Send + use<V> {
        let seen = self.shared.revision.load(Ordering::Relaxed);
        futures_util::stream::unfold((self.clone(), seen), |(server, seen)| async move {
            let revision = server.next_change(seen).await;
            Some((server.look(), (server, revision)))
        })
    }
}
