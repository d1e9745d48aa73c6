//! What this process knows of the elections that it watches, without asking for it.
//!
//! Every write of the script tells the channel of its election what has become of it; a renewal tells only its own part,
//! since all else is as it was. [`listen`](crate::listen) brings that here; answers to bids come here, too, so that a
//! renewal can be put onto what is known already, and a follower's timer moves without a single request.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::Stream;
use tenure_core::clock::Moment;
use tenure_core::store::wake::{Wake, Wakes};
use tenure_core::store::{Change, Holder, LeaseRecord};
use tenure_core::{Attempt, BidId, CandidateId, Clock, ElectionName, FencingToken};
use tokio::sync::Notify;

use crate::record::{GRAIN, wall};
use crate::script::View;
use crate::store::{TOKEN_LIMIT, whole_ms};

/// So much higher than what the server answered may a token be that only a message names: tokens are µs of its clock, and
/// whoever waits asks it more often than that.
const LEAP: u64 = 24 * 60 * 60 * 1_000_000;

/// The longest ttl that a message is believed: no elector takes a longer one.
const LONGEST_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// How a bid is written down.
const BID_DIGITS: usize = 32;

/// The elections that are watched here.
pub(crate) struct Watchers {
    clock: Arc<dyn Clock>,
    wakes: Wakes,
    elections: Mutex<BTreeMap<ElectionName, Watched>>,
    /// The longest ttl that was seen here, ms.
    longest_ttl_ms: Arc<AtomicU64>,
    /// A token, or a time of the server, above this is not believed before the server itself answers it.
    highest: AtomicU64,
    /// What may have to be subscribed to, or unsubscribed from. A process may watch a hundred thousand: nobody looks
    /// through all of them because one was added.
    changed: Mutex<Vec<ElectionName>>,
    /// There is something to subscribe to, or to unsubscribe from.
    pub(crate) work: Notify,
}

/// One election that is watched.
#[derive(Debug, Default)]
struct Watched {
    watchers: usize,
    known: Known,
    /// The bid with which this process leads. If nobody else here watches, it need not hear of itself.
    own: Option<BidId>,
    /// The server has told changes of it before.
    told: bool,
    /// Who stands by in this process.
    standing_by: BTreeSet<CandidateId>,
}

#[derive(Debug)]
enum Known {
    /// Nothing that could be relied on: whoever watches looks. What was asked for before this moment, if there is one,
    /// does not tell what happened then.
    Nothing(Option<Moment>),
    /// This.
    Record(Box<Seen>),
    /// The server tells this user nothing.
    Denied,
}

impl Default for Known {
    fn default() -> Self {
        Self::Nothing(None)
    }
}

/// A record as it came.
#[derive(Debug)]
struct Seen {
    record: LeaseRecord,
    /// When it came.
    at: Moment,
    /// The server's time when it was like this, µs.
    as_of: u64,
}

/// What a channel brings.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A write has made this of the election.
    View(View),
    /// It was given back, and as many as this are told.
    Released(View, u32),
    /// It was renewed.
    Renewed(Renewed),
    /// Somebody asks who stands by, and wants the answer on this channel.
    Call(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Renewed {
    bid: BidId,
    attempt: Attempt,
    token: FencingToken,
    ttl: Duration,
    renew_count: u64,
    renew_total: u64,
    at_ms: u64,
}

impl Message {
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ')?;
        match kind {
            "view" => View::from_json(rest).map(Self::View),
            "acquired" => View::from_grant(rest).map(Self::View),
            "released" => View::from_release(rest).map(|(view, told)| Self::Released(view, told)),
            "renewed" => Renewed::read(rest).map(Self::Renewed),
            "call" => Some(Self::Call(rest.to_owned())),
            _ => None,
        }
    }
}

impl Renewed {
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            bid: words.next()?.parse().ok()?,
            attempt: words.next()?.parse().ok()?,
            token: FencingToken(words.next()?.parse().ok()?),
            ttl: Duration::from_millis(words.next()?.parse().ok()?),
            renew_count: words.next()?.parse().ok()?,
            renew_total: words.next()?.parse().ok()?,
            at_ms: words.next()?.parse().ok()?,
        })
    }

    /// Puts the renewal onto what was known, if that is the same term.
    fn onto(&self, record: &mut LeaseRecord) -> bool {
        let Some(holder) = record.holder.as_mut().filter(|holder| holder.bid == self.bid) else {
            return false;
        };
        if record.token != self.token {
            return false;
        }
        holder.attempt = self.attempt;
        holder.renew_count = self.renew_count;
        holder.renewed_at = wall(self.at_ms);
        record.renew_total = self.renew_total;
        // Distrust starts when the message arrives: from here on the whole ttl.
        record.time_left = Some(self.ttl);
        let paused = record.pause.as_ref().map_or(Duration::ZERO, |pause| pause.ends_in);
        record.opens_in = Some((self.ttl + GRAIN).max(paused));
        true
    }
}

impl Watchers {
    pub(crate) fn new(clock: Arc<dyn Clock>, longest_ttl_ms: Arc<AtomicU64>) -> Self {
        Self {
            clock,
            wakes: Wakes::default(),
            elections: Mutex::default(),
            longest_ttl_ms,
            highest: AtomicU64::new(0),
            changed: Mutex::default(),
            work: Notify::new(),
        }
    }

    /// Notes a token, or the server's time, that stood in an answer.
    pub(crate) fn trust(&self, token: u64) {
        self.highest.fetch_max(token.saturating_add(LEAP), Ordering::Relaxed);
    }

    /// Notes a ttl that a message names: a server that forgets may forget a lease that nobody here asked about.
    fn heard_of(&self, ttl: Duration) {
        self.longest_ttl_ms.fetch_max(whole_ms(ttl.min(LONGEST_TTL)), Ordering::Relaxed);
    }

    fn elections(&self) -> MutexGuard<'_, BTreeMap<ElectionName, Watched>> {
        self.elections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to watch.
    pub(crate) fn watch(self: &Arc<Self>, names: &[ElectionName]) -> Watching {
        let wake = self.wakes.watch(names);
        let mut elections = self.elections();
        for name in names {
            let watched = elections.entry(name.clone()).or_default();
            watched.watchers += 1;
            if let Known::Denied = watched.known {
                watched.known = Known::default();
            }
        }
        drop(elections);
        self.changed(names);
        Watching { watchers: Arc::clone(self), wake, names: names.to_vec() }
    }

    /// Lets the listener look at what it listens to for these.
    fn changed(&self, names: &[ElectionName]) {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(names);
        self.work.notify_one();
    }

    /// Returns what may have to be subscribed to or unsubscribed from since the last time.
    pub(crate) fn take_changed(&self) -> Vec<ElectionName> {
        std::mem::take(&mut *self.changed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns all that is watched; what has changed before is in it.
    pub(crate) fn take_all(&self) -> Vec<ElectionName> {
        // First: whatever is watched after this is told again.
        drop(self.take_changed());
        self.elections().keys().cloned().collect()
    }

    /// Tells whether nobody watches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.elections().is_empty()
    }

    /// Tells whether anybody watches `name`.
    pub(crate) fn has(&self, name: &ElectionName) -> bool {
        self.elections().contains_key(name)
    }

    /// Tells whether somebody who watches `name` waits for software that tells us nothing.
    pub(crate) fn has_foreign_holder(&self, name: &ElectionName) -> bool {
        let elections = self.elections();
        let known = elections.get(name).map(|watched| &watched.known);
        matches!(known, Some(Known::Record(seen)) if is_foreign(&seen.record))
    }

    /// Takes the answer to a call that was sent at `sent`.
    pub(crate) fn answered(&self, sent: Moment, as_of: u64, record: &LeaseRecord) {
        let mut elections = self.elections();
        let Some(watched) = elections.get_mut(&record.election) else { return };
        watched.own = None;
        match &watched.known {
            // A message of what happened later was faster.
            Known::Record(seen) if seen.as_of > as_of => return,
            // It may be older than what was missed.
            Known::Nothing(Some(since)) if sent.time_since(*since).is_zero() => {
                return self.wakes.wake(&record.election);
            }
            Known::Denied => return,
            Known::Record(_) | Known::Nothing(_) => {}
        }
        watched.known = self.seen(as_of, record.clone());
        if is_foreign(record) {
            // There may be one more channel to listen to.
            self.changed(std::slice::from_ref(&record.election));
        }
    }

    fn seen(&self, as_of: u64, record: LeaseRecord) -> Known {
        Known::Record(Box::new(Seen { record, at: self.clock.now(), as_of }))
    }

    fn nothing(&self) -> Known {
        Known::Nothing(Some(self.clock.now()))
    }

    /// Notes who stands by here.
    pub(crate) fn stands_by(&self, election: &ElectionName, candidate: &CandidateId) {
        if let Some(watched) = self.elections().get_mut(election) {
            watched.standing_by.insert(candidate.clone());
        }
    }

    /// Notes that this process leads an election.
    pub(crate) fn leads(&self, election: &ElectionName, candidate: &CandidateId, bid: BidId) {
        if let Some(watched) = self.elections().get_mut(election) {
            watched.standing_by.remove(candidate);
            watched.own = Some(bid);
            if watched.watchers == 1 {
                // Thousands of leaders in one process: what each knows of itself need not lie here as well.
                watched.known = Known::default();
            }
        }
    }

    /// Notes that this process gives an election back.
    pub(crate) fn leaves(&self, election: &ElectionName) {
        if let Some(watched) = self.elections().get_mut(election) {
            watched.own = None;
        }
    }

    /// Returns who stands by in this process.
    pub(crate) fn standing_by(&self, election: &ElectionName) -> BTreeSet<CandidateId> {
        self.elections().get(election).map(|watched| watched.standing_by.clone()).unwrap_or_default()
    }

    /// Takes what a write has made of an election, and wakes whoever watches it.
    pub(crate) fn viewed(&self, election: &ElectionName, view: &View) {
        if self.learned(election, view) {
            self.wake(election);
        }
    }

    /// Takes what a write has made of an election; answers whether whoever watches it is still to be woken.
    pub(crate) fn learned(&self, election: &ElectionName, view: &View) -> bool {
        let record = view.record(election).ok();
        if let Some(holder) = record.as_ref().and_then(|record| record.holder.as_ref()) {
            self.heard_of(holder.ttl);
        }
        // Whoever may publish can say anything. A forged token would be a floor for ever, a forged time would be later than
        // every answer.
        let believed = self.highest.load(Ordering::Relaxed).min(TOKEN_LIMIT - 1);
        let record = record.filter(|record| record.token.0.max(view.now) <= believed);
        let mut elections = self.elections();
        let Some(watched) = elections.get_mut(election) else { return false };
        let Some(record) = record else {
            watched.known = self.nothing();
            return true;
        };
        let ours = record.leader().map(|holder| holder.bid) == watched.own;
        if watched.own.is_some() && ours && record.request.is_none() && watched.watchers == 1 {
            return false;
        }
        if watched.own.is_some() && !ours {
            // No term ends by a message: the leader looks, and the server decides.
            watched.known = self.nothing();
            self.wakes.wake(election);
            return false;
        }
        watched.known = self.seen(view.now, record);
        true
    }

    /// Wakes whoever watches an election.
    pub(crate) fn wake(&self, election: &ElectionName) {
        self.wakes.wake(election);
    }

    /// Tells whether a message is one of this process's own renewals, which nobody else here needs to hear of.
    pub(crate) fn is_own_renewal(&self, election: &ElectionName, text: &str) -> bool {
        let Some(bid) = text.strip_prefix("renewed ").and_then(|rest| rest.get(..BID_DIGITS)) else {
            return false;
        };
        let elections = self.elections();
        let alone = elections.get(election).filter(|watched| watched.watchers == 1);
        let own = alone.and_then(|watched| watched.own);
        own.is_some() && own == bid.parse().ok()
    }

    /// Takes a renewal.
    pub(crate) fn renewed(&self, election: &ElectionName, renewed: &Renewed) {
        self.heard_of(renewed.ttl);
        let mut elections = self.elections();
        let Some(watched) = elections.get_mut(election) else { return };
        match &mut watched.known {
            Known::Record(seen) => {
                if renewed.onto(&mut seen.record) {
                    seen.at = self.clock.now();
                } else {
                    // Another term than the one that is known: something was missed.
                    watched.known = self.nothing();
                }
            }
            // Whoever looks learns it.
            Known::Nothing(_) | Known::Denied => return,
        }
        self.wakes.wake(election);
    }

    /// Lets whoever watches `election` look: something happened that is not known in full.
    pub(crate) fn look(&self, election: &ElectionName) {
        if let Some(watched) = self.elections().get_mut(election) {
            watched.known = self.nothing();
            self.wakes.wake(election);
        }
    }

    /// The server tells changes of these from now on; what happened before, nobody has told.
    pub(crate) fn told(&self, names: &[ElectionName]) {
        let mut elections = self.elections();
        for name in names {
            let Some(watched) = elections.get_mut(name) else { continue };
            let knew = matches!(watched.known, Known::Record(_));
            watched.known = self.nothing();
            // Whoever knows nothing is about to ask; a leader asks if something may have been missed.
            if knew || (watched.own.is_some() && watched.told) {
                self.wakes.wake(name);
            }
            watched.told = true;
        }
    }

    /// The server refuses to tell this user anything: whoever watches is told so, and looks instead.
    pub(crate) fn denied(&self) {
        for watched in self.elections().values_mut() {
            watched.known = Known::Denied;
        }
        self.wakes.wake_all();
    }

    fn change(&self, election: &ElectionName) -> Option<Change> {
        let elections = self.elections();
        match elections.get(election).map(|watched| &watched.known) {
            Some(Known::Record(seen)) => {
                let age = self.clock.now().time_since(seen.at);
                Some(Change::Record(Box::new(aged(&seen.record, age))))
            }
            Some(Known::Denied) => None,
            Some(Known::Nothing(_)) | None => Some(Change::Gap),
        }
    }
}

/// Tells whether software that tells us nothing holds the lease.
pub(crate) fn is_foreign(record: &LeaseRecord) -> bool {
    record.holder.as_ref().is_some_and(Holder::is_foreign)
}

/// Makes of what was known `age` ago what is known now.
fn aged(record: &LeaseRecord, age: Duration) -> LeaseRecord {
    let mut record = record.clone();
    let less = |left: &mut Option<Duration>| {
        if let Some(left) = left {
            *left = left.saturating_sub(age);
        }
    };
    less(&mut record.time_left);
    less(&mut record.opens_in);
    if let Some(pause) = &mut record.pause {
        pause.ends_in = pause.ends_in.saturating_sub(age);
    }
    if let Some(request) = &mut record.request {
        request.expires_in = request.expires_in.saturating_sub(age);
    }
    record.last_success = record.last_success.map(|ago| ago.saturating_add(age));
    record
}

/// The changes of some elections, as they are when they are asked for.
pub(crate) struct Watching {
    watchers: Arc<Watchers>,
    wake: Wake,
    names: Vec<ElectionName>,
}

impl Watching {
    /// Answers the next election of which there is news.
    pub(crate) fn poll_changed(&self, context: &mut Context<'_>) -> Poll<ElectionName> {
        self.wake.poll_next(context)
    }

    /// Returns what is known of an election; `None` if the server tells this user nothing.
    pub(crate) fn known(&self, election: &ElectionName) -> Option<Change> {
        self.watchers.change(election)
    }
}

impl Stream for Watching {
    type Item = Change;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        let election = ready!(self.poll_changed(context));
        Poll::Ready(self.known(&election))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let mut elections = self.watchers.elections();
        for name in &self.names {
            if let Some(watched) = elections.get_mut(name) {
                watched.watchers -= 1;
                if watched.watchers == 0 {
                    elections.remove(name);
                }
            }
        }
        drop(elections);
        self.watchers.changed(&self.names);
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::clock::SystemClock;
    use tenure_core::store::RecordState;

    use super::*;

    #[test]
    fn an_answer_counts_whatever_the_leaders_wall_clock_says() {
        let election = ElectionName::new("a").unwrap();
        let watchers = Arc::new(Watchers::new(Arc::new(SystemClock), Arc::default()));
        let _watching = watchers.watch(std::slice::from_ref(&election));
        watchers.trust(5);
        let id = "ab".repeat(16);
        let who = format!(r#"{{"bid":"{id}","candidate":"c"}}"#);
        let grant = format!("1000000\nc:{id}\n{id}\n{id}\n5\n60000\n0\n0\n{who}\n{{}}\n");
        watchers.viewed(&election, &View::from_grant(&grant).unwrap());
        // A leader whose clock is years ahead of the server's.
        let renewed = Renewed::read(&format!("{id} {id} 5 60000 1 1 9999999999999")).unwrap();
        watchers.renewed(&election, &renewed);
        let free = View { now: 2_000_000, value: None, left_ms: None, wait_ms: 0, fields: BTreeMap::new() };
        watchers.answered(watchers.clock.now(), free.now, &free.record(&election).unwrap());
        let Some(Change::Record(record)) = watchers.change(&election) else { panic!("nothing is known") };
        assert_eq!(record.state, RecordState::Free);
    }
}
