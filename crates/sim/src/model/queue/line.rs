//! The queue of an election: what its keys hold, and what they say.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::{Holder, Lease, LeaseRecord, Metadata, Origin, RecordState, Term};
use tenure_core::{Attempt, BidId, CandidateId, ElectionName, FencingToken};

use super::super::sessions::{Done, Entry, If, SessionId, Sessions, Snapshot, Then};

/// What the keys of an election hold.
#[derive(Clone, Debug)]
pub enum Value {
    /// Somebody's place in the queue.
    Place(Place),
    /// The terms so far.
    History(History),
    /// For whom the election is kept; the key ends with the window.
    KeptFor(CandidateId),
}

/// A place in the queue, or, once it is claimed, a lease.
#[derive(Clone, Debug)]
pub struct Place {
    pub(super) bid: BidId,
    pub(super) attempt: Attempt,
    pub(super) candidate: CandidateId,
    pub(super) ttl: Duration,
    pub(super) claimed: bool,
    pub(super) renew_count: u64,
    pub(super) previous: Option<Arc<Term>>,
}

/// What stays when keys go.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The last terms, with the present one.
    pub(super) terms: Vec<Term>,
    /// The last release.
    pub(super) release: Option<Attempt>,
}

/// The server of a run.
pub type Server = Sessions<Value>;

pub(super) fn place_key(election: &ElectionName, session: SessionId) -> String {
    // Outside of what others of this layout read as the queue stand the history and who it is kept for.
    format!("queue/{election}/{session}")
}

pub(super) fn history_key(election: &ElectionName) -> String {
    format!("history/{election}")
}

pub(super) fn kept_key(election: &ElectionName) -> String {
    format!("kept/{election}")
}

/// One election at one revision.
pub(super) struct Sight<'a> {
    pub(super) election: &'a ElectionName,
    pub(super) snapshot: &'a Snapshot<Value>,
    /// The queue, the first one first.
    pub(super) places: Vec<(&'a str, &'a Entry<Value>, &'a Place)>,
    pub(super) history: History,
    pub(super) kept_for: Option<(&'a CandidateId, Duration)>,
}

impl<'a> Sight<'a> {
    pub(super) fn new(snapshot: &'a Snapshot<Value>, election: &'a ElectionName) -> Self {
        let begin = format!("queue/{election}/");
        let mut places: Vec<_> = snapshot
            .keys
            .iter()
            .filter(|(key, _)| key.starts_with(&begin))
            .filter_map(|(key, entry)| match &entry.value {
                Value::Place(place) => Some((key.as_str(), entry, place)),
                _ => None,
            })
            .collect();
        places.sort_by_key(|(_, entry, _)| entry.created);
        let history = match snapshot.keys.get(&history_key(election)).map(|entry| &entry.value) {
            Some(Value::History(history)) => history.clone(),
            _ => History::default(),
        };
        let kept_for = snapshot.keys.get(&kept_key(election)).and_then(|entry| match &entry.value {
            Value::KeptFor(candidate) => Some((candidate, left(snapshot, entry))),
            _ => None,
        });
        Self { election, snapshot, places, history, kept_for }
    }

    pub(super) fn of_token(&self, token: FencingToken) -> Option<&(&'a str, &'a Entry<Value>, &'a Place)> {
        self.places.iter().find(|(_, entry, _)| entry.created == token.0)
    }

    /// The condition that no term has begun or ended since.
    pub(super) fn no_term_since(&self) -> If {
        let key = history_key(self.election);
        match self.snapshot.keys.get(&key) {
            Some(entry) => If::Unchanged(key, entry.changed),
            None => If::Absent(key),
        }
    }

    pub(super) fn lease(&self, entry: &Entry<Value>, place: &Place) -> Lease {
        Lease {
            election: self.election.clone(),
            bid: place.bid,
            attempt: place.attempt,
            candidate: place.candidate.clone(),
            token: FencingToken(entry.created),
            ttl: place.ttl,
            renew_count: place.renew_count,
            renew_total: place.renew_count,
            previous: place.previous.clone(),
        }
    }

    /// Returns the record as `me` has to see it, or, without anybody, as it is.
    pub(super) fn view(&self, me: Option<&CandidateId>) -> LeaseRecord {
        // In a queue that is in order the first key alone can be claimed.
        let claimed = match me {
            Some(_) => self.places.first().filter(|(_, _, place)| place.claimed),
            None => self.places.iter().rfind(|(_, _, place)| place.claimed),
        };
        let first =
            self.places.first().map(|(_, entry, place)| (left(self.snapshot, entry), &place.candidate));
        let (state, opens_in) = match (claimed, self.kept_for, first) {
            (Some((_, entry, _)), _, _) => (RecordState::Held, left(self.snapshot, entry)),
            // Kept for me, but somebody before me has to line up again first.
            (None, Some((successor, window)), Some((_, first)))
                if me == Some(successor) && first != successor =>
            {
                (RecordState::Held, window)
            }
            (None, Some((successor, window)), _) => {
                (RecordState::Reserved { successor: Some(successor.clone()) }, window)
            }
            // Somebody else's turn, who has not said yet that it leads.
            (None, None, Some((left, first))) if me.is_some_and(|me| me != first) => {
                (RecordState::Held, left)
            }
            (None, None, _) => (RecordState::Free, Duration::ZERO),
        };
        let holder = claimed.map(|(_, _, place)| Holder {
            candidate: place.candidate.clone(),
            identity: None,
            origin: Origin::default(),
            bid: place.bid,
            attempt: place.attempt,
            ttl: place.ttl,
            metadata: Metadata::new(),
            acquired_at: std::time::SystemTime::UNIX_EPOCH,
            renewed_at: std::time::SystemTime::UNIX_EPOCH,
            renew_count: place.renew_count,
            previous: place.previous.clone(),
        });
        let present = claimed.map(|(_, _, place)| place.bid);
        let ended = self.history.terms.iter().filter(|term| Some(term.bid) != present);
        LeaseRecord {
            election: self.election.clone(),
            time_left: (state == RecordState::Held).then_some(opens_in),
            state,
            token: self.history.terms.last().map_or(FencingToken::ZERO, |term| term.token),
            holder,
            opens_in: Some(opens_in),
            renew_total: 0,
            last_terms: ended.cloned().collect(),
            pause: None,
            request: None,
            answer: None,
            last_success: None,
        }
    }
}

pub(super) fn left(snapshot: &Snapshot<Value>, entry: &Entry<Value>) -> Duration {
    entry.session.and_then(|session| snapshot.left.get(&session).copied()).unwrap_or_default()
}

/// Looks without going through any network.
#[must_use]
pub fn peek(server: &Server, election: &ElectionName) -> Option<LeaseRecord> {
    let snapshot = server.look();
    let record = Sight::new(&snapshot, election).view(None);
    (!snapshot.keys.is_empty()).then_some(record)
}

/// Removes the leader's key by hand, and tells whether there was one; its session lives on.
pub fn delete_leaders_entry(server: &Server, election: &ElectionName) -> bool {
    let snapshot = server.look();
    let sight = Sight::new(&snapshot, election);
    let Some((key, _, _)) = sight.places.iter().find(|(_, _, place)| place.claimed) else { return false };
    server.transact(&[], &[Then::Delete((*key).to_owned())]) == Done::Yes
}

/// Returns the candidates in the queue, the first one first.
#[must_use]
pub fn line(server: &Server, election: &ElectionName) -> Vec<CandidateId> {
    let snapshot = server.look();
    let sight = Sight::new(&snapshot, election);
    sight.places.iter().map(|(_, _, place)| place.candidate.clone()).collect()
}
