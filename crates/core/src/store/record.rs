//! The record of an election and every rule about changing it, as pure functions.
//!
//! Stores that keep a whole record (memory, file, object storage …) differ in how they write it, not in what may be
//! written: they all decide here. Nothing in here reads a clock. Times are *ages*: a record says how old its parts
//! were when it was written, and the store tells how long ago that was ([`Sight`]). So no machine's clock is ever
//! compared with another's.

pub(super) mod parts;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    Acquisition, Answer, Answered, Bid, ControlRequest, Holder, Lease, LeaseRecord, Metadata, Next, Origin,
    Pause, RecordState, Release, Released, Renew, Renewal, Requested, Term, TermEnd,
};
use crate::flaw::{Flaw, flawed};
use crate::name::{Attempt, BidId, CandidateId, ElectionName, Identity};
use crate::token::FencingToken;

/// Ended terms that a record keeps: enough to refuse late duplicates and to tell a person what happened.
pub const LAST_TERMS: usize = 8;

/// The version of the stored shape; a higher one is not understood and counts as corrupt, never as free.
pub const FORMAT: u32 = 1;

/// How much longer than its ttl an observer who times a lease himself gives it, in thousandths: the kernel may slew a
/// clock by a tenth.
pub(super) const STRETCH_PERMILLE: u32 = 100;

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    format: u32,
    election: ElectionName,
    token: FencingToken,
    /// Differs in every write, so that no byte string is ever written twice (some revisions are content hashes).
    write: Attempt,
    /// How old the mark (the last grant, renewal or release) was when this was written.
    age_us: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    given_back: Option<Box<GivenBack>>,
    #[serde(default)]
    renew_total: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    last_terms: Vec<Term>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pause: Option<Box<StoredPause>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<Box<StoredRequest>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Box<Answered>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    success_age_us: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    candidate: CandidateId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    // Shared and rare: a store in memory keeps a hundred thousand of these, and copies each with every renewal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<Arc<Origin>>,
    bid: BidId,
    attempt: Attempt,
    ttl_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    metadata: Option<Arc<Metadata>>,
    acquired_at_ms: u64,
    renewed_at_ms: u64,
    #[serde(default)]
    renew_count: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<Arc<Term>>,
    /// Where a store on this machine can see whether the holder's process lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    life_sign: Option<Arc<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GivenBack {
    attempt: Attempt,
    bid: BidId,
    next: Next,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPause {
    #[serde(flatten)]
    pause: Pause,
    age_us: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredRequest {
    #[serde(flatten)]
    request: ControlRequest,
    age_us: u64,
}

/// How the caller sees a record now.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    /// At least this long ago was it written.
    pub age: Duration,
    /// At least this long has the caller seen the same mark, on its own clock.
    pub watched: Duration,
    /// How much longer than its ttl a lease is given, in thousandths: 0 where one clock judges everything, the
    /// drift where the observer times it.
    pub stretch_permille: u32,
    /// The holder's process is known to be gone.
    pub holder_dead: bool,
    /// A number that tokens must exceed, for stores that may lose data; else 0.
    pub token_base: u64,
    /// For people.
    pub wall: SystemTime,
}

impl Sight {
    /// Sees a record through one clock that judges everything.
    #[must_use]
    pub fn exact(age: Duration, wall: SystemTime) -> Self {
        Self { age, watched: Duration::ZERO, stretch_permille: 0, holder_dead: false, token_base: 0, wall }
    }
}

/// What is to be done for an answer to be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// Write this record in place of the one that was judged; the answer holds once that happened.
    Write(Box<Record>, T),
    /// Write nothing.
    Keep(T),
}

/// What a record must not be taken for.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Not a record at all, or a torn one.
    #[error("it is not a record of ours: {0}")]
    Foreign(#[from] serde_json::Error),
    /// Written by a later version.
    #[error("it has format {0}, this version understands up to {FORMAT}: upgrade this program")]
    Future(u32),
    /// It belongs to another election.
    #[error("it is the record of election {0:?}")]
    Misplaced(ElectionName),
}

impl Record {
    /// Makes the record of an election that nobody holds, whose next token shall be above `token`.
    pub(crate) fn vacant(election: &ElectionName, token: FencingToken, write: Attempt) -> Self {
        Self { token, ..empty(election, write) }
    }

    /// Reads a record back.
    ///
    /// # Errors
    /// Whatever cannot be understood: the election then counts as corrupt, never as free.
    pub fn decode(election: &ElectionName, bytes: &[u8]) -> Result<Self, Unreadable> {
        let record: Self = read(bytes)?;
        if record.format > FORMAT {
            return Err(Unreadable::Future(record.format));
        }
        if record.election != *election {
            return Err(Unreadable::Misplaced(record.election));
        }
        Ok(record)
    }

    /// Writes the record as JSON, readable for people.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        // Maps with string keys and plain numbers only: there is nothing that could fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn election(&self) -> &ElectionName {
        &self.election
    }

    /// Returns the mark that observers time: it changes with every grant, renewal and release, and with nothing else.
    #[must_use]
    pub fn mark(&self) -> Option<Attempt> {
        self.held
            .as_ref()
            .map(|held| held.attempt)
            .or(self.given_back.as_ref().map(|given_back| given_back.attempt))
    }

    /// Returns the mark of this very write.
    #[must_use]
    pub fn write_mark(&self) -> Attempt {
        self.write
    }

    /// Returns the highest token granted.
    #[must_use]
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns where to look whether the holder's process lives.
    #[must_use]
    pub fn life_sign(&self) -> Option<&str> {
        self.held.as_ref().and_then(|held| held.life_sign.as_deref().map(String::as_str))
    }

    /// Notes where to look whether the holder's process lives.
    #[must_use]
    pub fn with_life_sign(mut self: Box<Self>, life_sign: Option<String>) -> Box<Self> {
        if let Some(held) = &mut self.held {
            held.life_sign = life_sign.map(Arc::new);
        }
        self
    }

    /// Returns how old the mark was when this was written.
    pub(super) fn mark_age_when_written(&self) -> Duration {
        Duration::from_micros(self.age_us)
    }

    /// Returns the longest time that anybody may wait for something in here.
    pub(super) fn longest_wait(&self) -> Duration {
        let held = self.held.as_ref().map(|held| stretched(held.ttl_ms, STRETCH_PERMILLE));
        let window = self.given_back.as_ref().map(|given_back| given_back.next.window());
        let pause = self.pause.as_ref().map(|stored| stored.pause.ends_in);
        let request = self.request.as_ref().map(|stored| stored.request.expires_in);
        [held, window, pause, request].into_iter().flatten().max().unwrap_or_default()
    }

    fn mark_age(&self, sight: &Sight) -> Duration {
        since(self.age_us, sight).max(sight.watched)
    }

    fn time_left(&self, sight: &Sight) -> Option<Duration> {
        let held = self.held.as_ref()?;
        let left = stretched(held.ttl_ms, sight.stretch_permille).saturating_sub(self.mark_age(sight));
        (!sight.holder_dead && !left.is_zero()).then_some(left)
    }

    fn pause_left(&self, sight: &Sight) -> Option<Pause> {
        let stored = self.pause.as_ref()?;
        let ends_in = stored.pause.ends_in.saturating_sub(since(stored.age_us, sight));
        (!ends_in.is_zero()).then(|| Pause { by: stored.pause.by.clone(), ends_in })
    }

    fn request_left(&self, sight: &Sight) -> Option<ControlRequest> {
        let stored = self.request.as_ref()?;
        let expires_in = stored.request.expires_in.saturating_sub(since(stored.age_us, sight));
        let live = self.held.is_some() && stored.request.token == self.token && !expires_in.is_zero();
        live.then(|| ControlRequest { expires_in, ..stored.request.clone() })
    }

    /// How long the last release keeps others out, and for whom.
    fn reserved(&self, sight: &Sight) -> Option<(Option<&CandidateId>, Duration)> {
        let next = &self.given_back.as_ref()?.next;
        let successor = match next {
            Next::Successor { candidate, .. } => Some(candidate),
            Next::Anybody | Next::CoolDown(_) => None,
        };
        let left = next.window().saturating_sub(self.mark_age(sight));
        (!left.is_zero()).then_some((successor, left))
    }

    fn present_term(&self) -> Option<Term> {
        let held = self.held.as_ref()?;
        Some(Term {
            token: self.token,
            bid: held.bid,
            candidate: held.candidate.clone(),
            identity: held.identity.clone(),
            acquired_at_ms: held.acquired_at_ms,
            ended_at_ms: None,
            end: None,
            cool_down_ms: None,
        })
    }

    fn end_present_term(&mut self, end: TermEnd, sight: &Sight) {
        let Some(mut term) = self.present_term() else {
            return;
        };
        term.ended_at_ms = Some(unix_ms(sight.wall));
        term.end = Some(end);
        term.cool_down_ms = match self.given_back.as_ref().map(|given_back| &given_back.next) {
            Some(Next::CoolDown(window)) => Some(whole_ms(*window)),
            _ => None,
        };
        self.held = None;
        if self.last_terms.len() >= LAST_TERMS {
            self.last_terms.remove(0);
        }
        self.last_terms.push(term);
    }

    /// Ages every part by the time since the record was written, for a write that follows.
    fn carry(&mut self, write: Attempt, sight: &Sight) {
        let age = micros(sight.age);
        self.write = write;
        self.age_us = micros(self.mark_age(sight));
        if self.pause_left(sight).is_none() {
            self.pause = None;
        }
        if self.request_left(sight).is_none() {
            self.request = None;
        }
        if let Some(pause) = &mut self.pause {
            pause.age_us = pause.age_us.saturating_add(age);
        }
        if let Some(request) = &mut self.request {
            request.age_us = request.age_us.saturating_add(age);
        }
        if let Some(success) = &mut self.success_age_us {
            *success = success.saturating_add(age);
        }
    }

    fn answer(&mut self, answer: Option<&Answered>) {
        let Some(answer) = answer else { return };
        // Only the request that stands here is answered, and once: a late answer to an earlier one says nothing.
        if self.request.as_ref().is_some_and(|stored| stored.request.id == answer.id) {
            self.request = None;
            self.answer = Some(Box::new(answer.clone()));
        }
    }

    fn lease(&self, held: &Held) -> Lease {
        Lease {
            election: self.election.clone(),
            bid: held.bid,
            attempt: held.attempt,
            candidate: held.candidate.clone(),
            token: self.token,
            ttl: Duration::from_millis(held.ttl_ms),
            renew_count: held.renew_count,
            renew_total: self.renew_total,
            previous: held.previous.clone(),
        }
    }

    /// Returns anybody's view of the record.
    #[must_use]
    pub fn view(&self, sight: &Sight) -> LeaseRecord {
        let time_left = self.time_left(sight);
        let pause = self.pause_left(sight);
        let reserved = self.reserved(sight);
        let (state, mut opens_in) = match (time_left, &reserved, &pause) {
            (Some(left), _, _) => (RecordState::Held, left),
            (None, _, Some(pause)) => (RecordState::Paused, pause.ends_in),
            (None, Some((successor, left)), None) => {
                (RecordState::Reserved { successor: successor.cloned() }, *left)
            }
            (None, None, None) => (RecordState::Free, Duration::ZERO),
        };
        if let Some(pause) = &pause {
            opens_in = opens_in.max(pause.ends_in);
        }
        LeaseRecord {
            election: self.election.clone(),
            state,
            token: self.token,
            holder: self.held.as_ref().map(|held| Holder {
                candidate: held.candidate.clone(),
                identity: held.identity.clone(),
                origin: held.origin.as_deref().cloned().unwrap_or_default(),
                bid: held.bid,
                attempt: held.attempt,
                ttl: Duration::from_millis(held.ttl_ms),
                metadata: held.metadata.as_deref().cloned().unwrap_or_default(),
                acquired_at: from_unix_ms(held.acquired_at_ms),
                renewed_at: from_unix_ms(held.renewed_at_ms),
                renew_count: held.renew_count,
                previous: held.previous.clone(),
            }),
            time_left,
            opens_in: Some(opens_in),
            renew_total: self.renew_total,
            last_terms: self.last_terms.clone(),
            pause,
            request: self.request_left(sight),
            answer: self.answer.as_deref().cloned(),
            last_success: self.success_age_us.map(|age| since(age, sight)),
        }
    }
}

/// Reads JSON. If that fails, the format is looked at first: a later one may have changed anything else.
fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    #[derive(Deserialize)]
    struct Head {
        format: u32,
    }
    serde_json::from_slice(bytes).map_err(|error| match serde_json::from_slice(bytes) {
        Ok(Head { format }) if format > FORMAT => Unreadable::Future(format),
        _ => Unreadable::Foreign(error),
    })
}

/// Decides a bid.
#[must_use]
pub fn acquire(
    present: Option<&Record>,
    election: &ElectionName,
    bid: &Bid,
    sight: &Sight,
) -> Decision<Acquisition> {
    let Some(record) = present else {
        return grant(empty(election, bid.attempt), bid, None, sight);
    };
    let refused = || Decision::Keep(Acquisition::Refused(Box::new(record.view(sight))));
    let mut ended_as = TermEnd::Expired;
    if let Some(held) = &record.held {
        let alive = record.time_left(sight).is_some();
        if held.bid == bid.id {
            // The same bid again: the same term while it lives, nothing afterwards.
            return if alive { Decision::Keep(Acquisition::Acquired(record.lease(held))) } else { refused() };
        }
        if bid.supersedes == Some(held.bid) {
            ended_as = TermEnd::Superseded;
        } else if alive {
            return refused();
        }
    }
    let spent = record.last_terms.iter().any(|term| term.bid == bid.id);
    let reserved = record.reserved(sight).is_some_and(|(successor, _)| successor != Some(&bid.candidate));
    if spent || reserved || record.pause_left(sight).is_some() {
        return refused();
    }
    let mut next = record.clone();
    next.carry(bid.attempt, sight);
    next.end_present_term(ended_as, sight);
    // A candidate that has seen a higher token than the record's knows that the store lost terms.
    let previous = next.last_terms.last().filter(|_| bid.floor <= record.token).cloned().map(Arc::new);
    grant(next, bid, previous, sight)
}

fn empty(election: &ElectionName, write: Attempt) -> Record {
    Record {
        format: FORMAT,
        election: election.clone(),
        token: FencingToken::ZERO,
        write,
        age_us: 0,
        held: None,
        given_back: None,
        renew_total: 0,
        last_terms: Vec::new(),
        pause: None,
        request: None,
        answer: None,
        success_age_us: None,
    }
}

fn grant(mut record: Record, bid: &Bid, previous: Option<Arc<Term>>, sight: &Sight) -> Decision<Acquisition> {
    let below = record.token.0.max(bid.floor.0).max(sight.token_base);
    let Some(token) = FencingToken(below).next() else {
        // The number range has an end; nobody gets there, but nobody may wrap around either.
        return Decision::Keep(Acquisition::Refused(Box::new(record.view(sight))));
    };
    let held = Held {
        candidate: bid.candidate.clone(),
        identity: bid.identity.clone(),
        origin: (!bid.origin.is_empty()).then(|| Arc::new(bid.origin.clone())),
        bid: bid.id,
        attempt: bid.attempt,
        ttl_ms: whole_ms(bid.ttl),
        metadata: (!bid.metadata.is_empty()).then(|| Arc::new(bid.metadata.clone())),
        acquired_at_ms: unix_ms(sight.wall),
        renewed_at_ms: unix_ms(sight.wall),
        renew_count: 0,
        previous,
        life_sign: None,
    };
    record.token = token;
    record.age_us = 0;
    record.given_back = None;
    record.request = None;
    let lease = record.lease(&held);
    record.held = Some(held);
    Decision::Write(Box::new(record), Acquisition::Acquired(lease))
}

/// Decides a renewal.
#[must_use]
pub fn renew(present: Option<&Record>, renewal: &Renew, sight: &Sight) -> Decision<Renewal> {
    let Some(record) = present else {
        return Decision::Keep(Renewal::Lost(None));
    };
    let Some(held) = own(record, &renewal.lease, &renewal.open, Some(renewal.attempt), sight) else {
        return Decision::Keep(Renewal::Lost(Some(Box::new(record.view(sight)))));
    };
    if held.attempt == renewal.attempt {
        // This very attempt was applied before: repeating it extends nothing.
        return Decision::Keep(Renewal::Renewed(
            record.lease(held),
            record.request_left(sight).map(Box::new),
        ));
    }
    let mut next = record.clone();
    next.carry(renewal.attempt, sight);
    next.answer(renewal.answer.as_ref());
    next.age_us = 0;
    next.renew_total = next.renew_total.saturating_add(1);
    let mut held = held.clone();
    held.attempt = renewal.attempt;
    held.renew_count = held.renew_count.saturating_add(1);
    held.renewed_at_ms = unix_ms(sight.wall);
    if flawed(Flaw::SameBytesTwice) {
        next = Record { age_us: 0, ..record.clone() };
        held = record.held.clone().unwrap_or(held);
    }
    let lease = next.lease(&held);
    next.held = Some(held);
    let request = next.request_left(&Sight { age: Duration::ZERO, watched: Duration::ZERO, ..*sight });
    Decision::Write(Box::new(next), Renewal::Renewed(lease, request.map(Box::new)))
}

/// Returns the holder's part if it is the caller's: same bid, same token, alive, and last written by the caller. A
/// foreign nonce under our own bid is a cloned process: at most one of the two may go on.
fn own<'a>(
    record: &'a Record,
    lease: &Lease,
    open: &[Attempt],
    attempt: Option<Attempt>,
    sight: &Sight,
) -> Option<&'a Held> {
    let held = record.held.as_ref()?;
    let last = held.attempt;
    let written_by_us = last == lease.attempt || open.contains(&last) || attempt == Some(last);
    // Whether the holder's process lives is for others to ask: whoever renews is alive.
    let alive = record.time_left(&Sight { holder_dead: false, ..*sight }).is_some();
    (held.bid == lease.bid && record.token == lease.token && written_by_us && alive).then_some(held)
}

/// Decides a release.
#[must_use]
pub fn release(present: Option<&Record>, release: &Release, sight: &Sight) -> Decision<Released> {
    let Some(record) = present else {
        return Decision::Keep(Released::NotHeld);
    };
    if record.given_back.as_ref().is_some_and(|given_back| given_back.attempt == release.attempt) {
        return Decision::Keep(Released::Released);
    }
    let Some(held) = own(record, &release.lease, &release.open, None, sight) else {
        return Decision::Keep(Released::NotHeld);
    };
    let mut next = record.clone();
    next.carry(release.attempt, sight);
    next.answer(release.answer.as_ref());
    if next.request.is_none()
        && let Some(answer) = &release.answer
    {
        // The request may have run out since the holder took it up; what became of it is told all the same.
        next.answer = Some(Box::new(answer.clone()));
    }
    if let Some(missed) = next.request.take() {
        // Whoever asked hears that it came too late, instead of nothing.
        let why = "the term ended before it was done".to_owned();
        next.answer = Some(Box::new(Answered { id: missed.request.id, answer: Answer::Refused(why) }));
    }
    let given_back = GivenBack { attempt: release.attempt, bid: held.bid, next: release.next.clone() };
    next.given_back = Some(Box::new(given_back));
    next.end_present_term(if release.succeeded { TermEnd::Succeeded } else { TermEnd::Released }, sight);
    next.age_us = 0;
    if release.succeeded {
        next.success_age_us = Some(0);
    }
    Decision::Write(Box::new(next), Released::Released)
}

/// Decides where an operator's request goes.
#[must_use]
pub fn request(
    present: Option<&Record>,
    request: &ControlRequest,
    write: Attempt,
    sight: &Sight,
) -> Decision<Requested> {
    let Some(record) = present.filter(|record| record.time_left(sight).is_some()) else {
        return Decision::Keep(Requested::NoHolder);
    };
    if record.token != request.token {
        return Decision::Keep(Requested::WrongTerm(record.token));
    }
    match record.request_left(sight) {
        Some(waiting) if waiting.id == request.id => {
            return Decision::Keep(Requested::Accepted(record.token));
        }
        Some(waiting) => return Decision::Keep(Requested::Busy(waiting.id)),
        None => {}
    }
    if record.answer.as_ref().is_some_and(|answered| answered.id == request.id) {
        return Decision::Keep(Requested::Accepted(record.token));
    }
    let mut next = record.clone();
    next.carry(write, sight);
    next.request = Some(Box::new(StoredRequest { request: request.clone(), age_us: 0 }));
    Decision::Write(Box::new(next), Requested::Accepted(record.token))
}

/// Decides a pause.
#[must_use]
pub fn pause(
    present: Option<&Record>,
    election: &ElectionName,
    pause: &Pause,
    write: Attempt,
    sight: &Sight,
) -> Decision<()> {
    let mut next = present.cloned().unwrap_or_else(|| empty(election, write));
    if present.is_some() {
        next.carry(write, sight);
    }
    next.pause = Some(Box::new(StoredPause { pause: pause.clone(), age_us: 0 }));
    Decision::Write(Box::new(next), ())
}

/// Decides the end of a pause.
#[must_use]
pub fn resume(present: Option<&Record>, write: Attempt, sight: &Sight) -> Decision<()> {
    let Some(record) = present.filter(|record| record.pause_left(sight).is_some()) else {
        return Decision::Keep(());
    };
    let mut next = record.clone();
    next.carry(write, sight);
    next.pause = None;
    Decision::Write(Box::new(next), ())
}

/// How old a part is now that was `age_us` old when the record was written.
fn since(age_us: u64, sight: &Sight) -> Duration {
    Duration::from_micros(age_us).saturating_add(sight.age)
}

fn stretched(ttl_ms: u64, permille: u32) -> Duration {
    Duration::from_millis(ttl_ms.saturating_mul(u64::from(1000 + permille)).div_ceil(1000))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Rounds up: a lease must not end before the ttl that was asked for.
pub(super) fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn unix_ms(wall: SystemTime) -> u64 {
    let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn from_unix_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(SystemTime::UNIX_EPOCH)
}
