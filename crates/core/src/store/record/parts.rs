//! A record that is kept in several entries: what each holds, and how they make one record again.
//!
//! A store whose entries end by themselves keeps the lease in an entry of its own ([`Slot`]) and the rest in one that
//! never ends ([`Kept`]). What may be written is still decided in [`record`](super) alone: the entries are put
//! together into one record, that one is judged, and the answer is taken apart again.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{
    Decision, FORMAT, Held, Record, STRETCH_PERMILLE, Sight, StoredPause, StoredRequest, Unreadable, acquire,
    empty, micros, read, release, stretched, whole_ms,
};
use crate::name::{Attempt, BidId, CandidateId, ElectionName, Identity};
use crate::store::{
    Acquisition, Answered, Bid, ControlRequest, LeaseRecord, Metadata, Next, Origin, Pause, RecordState,
    Release,
};
use crate::token::FencingToken;

/// The age of whatever has ended: above every ttl and every window.
const OVER: u64 = u64::MAX;

/// How far an entry is in its time.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) enum Progress {
    /// It has just been written.
    Fresh,
    /// It still lasts this long, as the store tells.
    Left(Duration),
    /// The store cannot tell, and the observer has seen it unchanged for this long.
    Watched(Duration),
}

impl Progress {
    /// Returns how old an entry is that lasts `lasts`; unknown counts as young, so that it ends later, never earlier.
    pub(in crate::store) fn age(self, lasts: Duration) -> Duration {
        match self {
            Self::Fresh => Duration::ZERO,
            Self::Left(left) => lasts.saturating_sub(left),
            Self::Watched(watched) => watched,
        }
    }

    /// Returns how long an entry that lasts `lasts` is to be reckoned with.
    pub(in crate::store) fn left(self, lasts: Duration) -> Duration {
        match self {
            Self::Fresh => lasts,
            Self::Left(left) => left,
            Self::Watched(watched) => longest(lasts).saturating_sub(watched),
        }
    }

    /// Returns how much longer than its ttl a lease is given, in thousandths.
    pub(in crate::store) fn stretch_permille(self) -> u32 {
        match self {
            Self::Fresh | Self::Left(_) => 0,
            Self::Watched(_) => STRETCH_PERMILLE,
        }
    }
}

/// Returns how long an observer times an entry that lasts `lasts`.
pub(in crate::store) fn longest(lasts: Duration) -> Duration {
    stretched(whole_ms(lasts), STRETCH_PERMILLE)
}

/// What stands around every entry, so that one that is not ours, or of another election, is never believed.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope<T> {
    format: u32,
    election: ElectionName,
    body: T,
}

/// Writes an entry as JSON, readable for people.
pub(in crate::store) fn encode<T: Serialize>(election: &ElectionName, body: T) -> Vec<u8> {
    let envelope = Envelope { format: FORMAT, election: election.clone(), body };
    // Maps with string keys and plain numbers only: there is nothing that could fail.
    serde_json::to_vec(&envelope).unwrap_or_default()
}

/// Reads an entry back.
pub(in crate::store) fn decode<T: DeserializeOwned>(
    election: &ElectionName,
    bytes: &[u8],
) -> Result<T, Unreadable> {
    let envelope: Envelope<T> = read(bytes)?;
    if envelope.format > FORMAT {
        return Err(Unreadable::Future(envelope.format));
    }
    if envelope.election != *election {
        return Err(Unreadable::Misplaced(envelope.election));
    }
    Ok(envelope.body)
}

/// The entry that never ends: the record without what other entries say better.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Kept {
    /// Rises with every write, so that no byte string ever comes back: a compare-and-swap that waited meanwhile fails.
    writes: u64,
    record: Record,
}

/// What the lease's entry holds; it ends by the store's own clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::store) enum Slot {
    /// A bid has the place, but no token yet: nobody leads, and nobody else may.
    Asked(Asked),
    /// The bid leads.
    Held(Led),
    /// It gave the lease back; what it said then is still to be kept, or holds others off for a while.
    GivenBack(Box<Left>),
}

/// A bid that has the place, with all that anybody needs to complete it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Asked {
    bid: BidId,
    attempt: Attempt,
    candidate: CandidateId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
    #[serde(default, skip_serializing_if = "Origin::is_empty")]
    origin: Origin,
    ttl_ms: u64,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
    floor: FencingToken,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    supersedes: Option<BidId>,
}

/// A lease with its token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Led {
    token: FencingToken,
    held: Held,
}

/// A lease that was given back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Left {
    #[serde(flatten)]
    led: Led,
    /// The release's attempt: the same one again finds itself here.
    pub(in crate::store) release: Attempt,
    next: Next,
    pub(in crate::store) succeeded: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Answered>,
}

/// A pause; its entry ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Paused {
    pub(in crate::store) write: Attempt,
    pub(in crate::store) pause: Pause,
}

/// A request of an operator; its entry ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Asking {
    pub(in crate::store) write: Attempt,
    pub(in crate::store) request: ControlRequest,
}

/// A successful end of a term; how long its entry has lived tells how long ago that was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::store) struct Success {
    pub(in crate::store) token: FencingToken,
    pub(in crate::store) release: Attempt,
}

impl Kept {
    /// Makes the version after `present`, or the first one.
    pub(in crate::store) fn after(present: Option<&Self>, record: Record) -> Self {
        let record = Record { age_us: 0, pause: None, request: None, success_age_us: None, ..record };
        Self { writes: present.map_or(1, |kept| kept.writes.saturating_add(1)), record }
    }

    /// Makes a version that says the same, so that whoever decided on this one has to look again.
    pub(in crate::store) fn touched(present: Option<&Self>, election: &ElectionName, write: Attempt) -> Self {
        let mut record = present.map_or_else(|| empty(election, write), |kept| kept.record.clone());
        record.write = write;
        Self::after(present, record)
    }

    /// Tells whether the release of `left` is recorded.
    pub(in crate::store) fn knows_release(&self, left: &Left) -> bool {
        self.record.given_back.as_ref().is_some_and(|given_back| given_back.attempt == left.release)
    }

    /// Makes the version that follows a renewal, or `None` if another term rules here by now.
    pub(in crate::store) fn renewed(&self, next: &Record) -> Option<Self> {
        let bid = |record: &Record| record.held.as_ref().map(|held| held.bid);
        let same_term = self.record.token == next.token && bid(&self.record) == bid(next);
        same_term.then(|| {
            let record = Record {
                write: next.write,
                held: next.held.clone(),
                renew_total: next.renew_total,
                answer: next.answer.clone(),
                ..self.record.clone()
            };
            Self::after(Some(self), record)
        })
    }

    /// Returns the lease that was drawn for `asked`, if it was.
    ///
    /// Bid *and* attempt: a bid whose lease ended may have a second one, written by a late request of its own, and
    /// the token of the first must not come back to life in it.
    pub(in crate::store) fn drawn(&self, asked: &Asked) -> Option<Slot> {
        let held = self.record.held.as_ref()?;
        (held.bid == asked.bid && held.attempt == asked.attempt)
            .then(|| Slot::Held(Led { token: self.record.token, held: held.clone() }))
    }

    fn is_of(&self, led: &Led) -> bool {
        let bid = self.record.held.as_ref().map(|held| held.bid);
        self.record.token == led.token && bid == Some(led.held.bid)
    }
}

impl Asked {
    /// Takes down a bid.
    pub(in crate::store) fn new(bid: &Bid) -> Self {
        Self {
            bid: bid.id,
            attempt: bid.attempt,
            candidate: bid.candidate.clone(),
            identity: bid.identity.clone(),
            origin: bid.origin.clone(),
            ttl_ms: whole_ms(bid.ttl),
            metadata: bid.metadata.clone(),
            floor: bid.floor,
            supersedes: bid.supersedes,
        }
    }

    fn bid(&self) -> Bid {
        Bid {
            id: self.bid,
            attempt: self.attempt,
            open: Vec::new(),
            candidate: self.candidate.clone(),
            identity: self.identity.clone(),
            origin: self.origin.clone(),
            ttl: self.ttl(),
            metadata: self.metadata.clone(),
            floor: self.floor,
            supersedes: self.supersedes,
        }
    }

    /// Returns how long the lease lasts without renewal.
    pub(in crate::store) fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }
}

impl Left {
    /// Returns the term's number.
    pub(in crate::store) fn token(&self) -> FencingToken {
        self.led.token
    }

    /// Returns how long the entry lasts.
    ///
    /// At least as long as it holds others off; and at least the lease's ttl, so that a release whose answer was lost
    /// finds it as long as its holder asks.
    pub(in crate::store) fn lasts(&self) -> Duration {
        self.next.window().max(self.led.lasts())
    }

    /// Records the release, or `None` if another term rules in `kept`.
    pub(in crate::store) fn record(
        &self,
        kept: Option<&Kept>,
        election: &ElectionName,
        request: Option<&ControlRequest>,
        sight: &Sight,
    ) -> Option<Kept> {
        let mut record = self.led.over(kept, election)?;
        put_request(&mut record, request);
        let lease = record.lease(&self.led.held);
        let again = Release {
            lease,
            attempt: self.release,
            open: Vec::new(),
            next: self.next.clone(),
            succeeded: self.succeeded,
            answer: self.answer.clone(),
        };
        match release(Some(&record), &again, sight) {
            Decision::Write(next, _) => Some(Kept::after(kept, *next)),
            Decision::Keep(_) => None,
        }
    }
}

impl Led {
    fn lasts(&self) -> Duration {
        Duration::from_millis(self.held.ttl_ms)
    }

    /// Puts the lease over what is kept: its entry knows the last renewal. `None` if another term rules there.
    fn over(&self, kept: Option<&Kept>, election: &ElectionName) -> Option<Record> {
        let mut record = match kept {
            Some(kept) if kept.is_of(self) => {
                let mut record = kept.record.clone();
                let before = kept.record.held.as_ref().map_or(0, |held| held.renew_count);
                let since = self.held.renew_count.saturating_sub(before);
                record.renew_total = record.renew_total.saturating_add(since);
                record
            }
            // The counter is always advanced before a lease gets its token: this one was read before, or was lost.
            Some(kept) if kept.record.token < self.token => kept.record.clone(),
            Some(_) => return None,
            None => empty(election, self.held.attempt),
        };
        record.token = self.token;
        record.held = Some(self.held.clone());
        record.given_back = None;
        record.age_us = 0;
        Some(record)
    }
}

impl Slot {
    /// Makes the lease's entry from a record that names a holder.
    pub(in crate::store) fn held(record: &Record) -> Option<Self> {
        let held = record.held.clone()?;
        Some(Self::Held(Led { token: record.token, held }))
    }

    /// Tells whether it is the lease of this term.
    pub(in crate::store) fn is_lease_of(&self, bid: BidId, token: FencingToken) -> bool {
        matches!(self, Self::Held(led) if led.held.bid == bid && led.token == token)
    }

    /// Makes the entry that stands in the lease's place after `release`.
    pub(in crate::store) fn given_back(record: &Record, release: &Release) -> Option<Self> {
        let held = record.held.clone()?;
        Some(Self::GivenBack(Box::new(Left {
            led: Led { token: record.token, held },
            release: release.attempt,
            next: release.next.clone(),
            succeeded: release.succeeded,
            answer: release.answer.clone(),
        })))
    }

    /// Returns the ttl that the entry is written with.
    pub(in crate::store) fn lasts(&self) -> Duration {
        match self {
            Self::Asked(asked) => asked.ttl(),
            Self::Held(led) => led.lasts(),
            Self::GivenBack(left) => left.lasts(),
        }
    }
}

/// The entries of one election, as they were found.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct Parts<'a> {
    /// The election.
    pub(in crate::store) election: &'a ElectionName,
    /// The entry that never ends.
    pub(in crate::store) kept: Option<&'a Kept>,
    /// The lease's entry and how far it is.
    pub(in crate::store) slot: Option<(&'a Slot, Progress)>,
    /// The pause; its `ends_in` is what is left of it.
    pub(in crate::store) pause: Option<&'a Paused>,
    /// The request; its `expires_in` is what is left of it.
    pub(in crate::store) request: Option<&'a ControlRequest>,
    /// How long ago a term ended with success.
    pub(in crate::store) success: Option<Duration>,
}

impl<'a> Parts<'a> {
    /// Puts the entries together; `None` if there are none.
    ///
    /// A lease without token, or one that does not belong to the kept record, is not in it: see [`Self::blocked`].
    pub(in crate::store) fn record(&self, sight: &Sight) -> Option<Record> {
        let mut record = match self.slot {
            None | Some((Slot::Asked(_), _)) => self.ended(),
            Some((Slot::Held(led), progress)) => led.over(self.kept, self.election).map(|mut record| {
                record.age_us = micros(progress.age(led.lasts()));
                record
            }),
            Some((Slot::GivenBack(gone), progress)) => self.given_back(gone, sight).map(|mut record| {
                record.age_us = micros(progress.age(gone.lasts()));
                record
            }),
        }
        .or_else(|| self.ended())
        .or_else(|| Some(empty(self.election, self.first_write()?)))?;
        if self.blocked().is_some() {
            // Whom the kept record names last does not lead any more, and whoever has the place does not lead yet.
            record.held = None;
            record.given_back = None;
        }
        record.pause =
            self.pause.map(|paused| Box::new(StoredPause { pause: paused.pause.clone(), age_us: 0 }));
        put_request(&mut record, self.request);
        record.success_age_us = self.success.map(micros);
        Some(record)
    }

    /// Returns the mark of whoever wrote first, before there was a record to keep.
    fn first_write(&self) -> Option<Attempt> {
        let asked = match self.slot {
            Some((Slot::Asked(asked), _)) => Some(asked.attempt),
            _ => None,
        };
        asked.or(self.pause.map(|paused| paused.write))
    }

    /// The kept record when its lease, or the window after it, is over.
    fn ended(&self) -> Option<Record> {
        self.kept.map(|kept| Record { age_us: OVER, ..kept.record.clone() })
    }

    fn given_back(&self, left: &Left, sight: &Sight) -> Option<Record> {
        if let Some(kept) = self.kept.filter(|kept| kept.knows_release(left)) {
            return Some(kept.record.clone());
        }
        // Without the request: whether it came too late is said when the release is recorded, and not taken back.
        let recorded = left.record(self.kept, self.election, None, sight)?;
        Some(recorded.record)
    }

    /// Returns a release that is in the lease's entry only, and still to be recorded.
    pub(in crate::store) fn unrecorded(&self) -> Option<&'a Left> {
        let (Slot::GivenBack(left), _) = self.slot? else {
            return None;
        };
        let known = self.kept.is_some_and(|kept| kept.knows_release(left));
        let awaited = || left.led.over(self.kept, self.election).is_some();
        (!known && awaited()).then_some(left)
    }

    /// Returns how long a lease still blocks the election that nobody leads by: it has no token yet, or it does not
    /// belong to the kept record (somebody wrote by hand, or the store lost data).
    pub(in crate::store) fn blocked(&self) -> Option<Duration> {
        let (slot, progress) = self.slot?;
        let foreign = match slot {
            Slot::Asked(_) => true,
            Slot::Held(led) => led.over(self.kept, self.election).is_none(),
            // Whatever else it says, it says that nobody holds the lease.
            Slot::GivenBack(_) => false,
        };
        // An observer who has timed it to its end need not wait for the store to take it away.
        Some(progress.left(slot.lasts())).filter(|left| foreign && !left.is_zero())
    }

    /// Returns anybody's view of the election.
    pub(in crate::store) fn view(&self, sight: &Sight) -> Option<LeaseRecord> {
        let mut view = self.record(sight)?.view(sight);
        if let Some(left) = self.blocked() {
            // Without a holder, since nobody may take it for a lease that somebody leads by: its token is not
            // known. But not free, and not for longer than the entry lasts.
            view.state = RecordState::Held;
            view.time_left = Some(left);
            view.opens_in = Some(view.opens_in.unwrap_or_default().max(left));
        }
        Some(view)
    }

    /// Decides which token a bid that has the place gets.
    pub(in crate::store) fn draw(&self, asked: &Asked, sight: &Sight) -> Decision<Acquisition> {
        // The place is the bid's: whatever lease or window is kept has ended, whether by itself or by being replaced.
        let without_lease = Self { slot: None, ..*self };
        acquire(without_lease.record(sight).as_ref(), self.election, &asked.bid(), sight)
    }
}

fn put_request(record: &mut Record, request: Option<&ControlRequest>) {
    // The answer is kept elsewhere than the request; a request that was answered does not stand any more.
    let answered = record.answer.as_ref().map(|answered| answered.id);
    record.request = request
        .filter(|request| answered != Some(request.id))
        .map(|request| Box::new(StoredRequest { request: request.clone(), age_us: 0 }));
}
