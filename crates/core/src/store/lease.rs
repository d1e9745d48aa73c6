//! Bids, leases and records: what candidates ask for, what the holder has, what anybody sees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::control::{Answered, ControlRequest, Pause};
use crate::name::{Attempt, BidId, CandidateId, ElectionName, Identity};
use crate::token::FencingToken;

/// What a candidate tells about itself to everybody, such as its address. Never put secrets here.
pub type Metadata = BTreeMap<String, String>;

/// Where a candidate runs: what a restarted process needs to prove that a lease was its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The kernel's boot id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The platform's id of this machine, where the platform gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// The file whose lock proves that a process with a stable identity lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_id: Option<String>,
}

impl Origin {
    /// Tells whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self == &Self::default()
    }
}

/// One wish to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bid {
    /// The wish; repeating it is harmless.
    pub id: BidId,
    /// This request on its behalf.
    pub attempt: Attempt,
    /// Earlier requests on its behalf that were not answered. A store with connections sends a bid that has some
    /// over a fresh one, since the old one may be a black hole.
    pub open: Vec<Attempt>,
    /// Who wishes.
    pub candidate: CandidateId,
    /// Its name over restarts, if it has one.
    pub identity: Option<Identity>,
    /// Where it runs.
    pub origin: Origin,
    /// How long the lease shall last without renewal.
    pub ttl: Duration,
    /// What it tells everybody about itself.
    pub metadata: Metadata,
    /// The highest token that the candidate has ever seen: the granted one must be above it.
    pub floor: FencingToken,
    /// The live bid that this one may replace, for a restarted process with a stable identity; it must be exactly
    /// the one in the record.
    pub supersedes: Option<BidId>,
}

/// A term in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The term's number.
    pub token: FencingToken,
    /// The bid that won it.
    pub bid: BidId,
    /// Who led.
    pub candidate: CandidateId,
    /// Its name over restarts, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<Identity>,
    /// When it began, by the clock of whoever wrote it; for people, no code compares it.
    pub acquired_at_ms: u64,
    /// When its end was recorded, likewise; `None` while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// How it ended; `None` while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<TermEnd>,
    /// How long its holder asked everybody to wait after it; whoever leads next can ask for longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cool_down_ms: Option<u64>,
}

/// How a term ended, as the store saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TermEnd {
    /// The holder gave the lease back.
    Released,
    /// The holder gave it back and said that its work had succeeded.
    Succeeded,
    /// The lease ran out, or its holder was seen dead.
    Expired,
    /// A restarted process of the same identity replaced it.
    Superseded,
}

/// The right to lead, as its holder has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// What is led.
    pub election: ElectionName,
    /// The bid that won it.
    pub bid: BidId,
    /// The attempt that the store applied last: the deadline counts from its send.
    pub attempt: Attempt,
    /// Who holds it.
    pub candidate: CandidateId,
    /// The term's number.
    pub token: FencingToken,
    /// How long it lasts without renewal, as the store granted it.
    pub ttl: Duration,
    /// Renewals of this term.
    pub renew_count: u64,
    /// Renewals over the record's life.
    pub renew_total: u64,
    /// The term before this one. `None`: somebody may have led that the store does not know of.
    pub previous: Option<Arc<Term>>,
}

/// A renewal of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renew {
    /// The lease as the last answer showed it.
    pub lease: Lease,
    /// This request.
    pub attempt: Attempt,
    /// Earlier renewals of this lease that were not answered; one of them may be in the record.
    pub open: Vec<Attempt>,
    /// What became of a request that an earlier renewal brought.
    pub answer: Option<Answered>,
}

/// A release of one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The lease as the last answer showed it.
    pub lease: Lease,
    /// This release; repeating it after a lost answer says `Released` again.
    pub attempt: Attempt,
    /// Renewals of this lease that were not answered; one of them may be in the record.
    pub open: Vec<Attempt>,
    /// Who may have the election next.
    pub next: Next,
    /// The work of the term succeeded.
    pub succeeded: bool,
    /// What became of a request that an earlier renewal brought.
    pub answer: Option<Answered>,
}

/// Who may have an election after its release.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Whoever comes first.
    #[default]
    Anybody,
    /// This candidate at once; the others when the window is over.
    Successor {
        /// Who is named.
        candidate: CandidateId,
        /// How long the others wait.
        #[serde(with = "super::serde_ms", rename = "window_ms")]
        window: Duration,
    },
    /// Nobody until this long after the release.
    #[serde(rename = "cool_down_ms", with = "super::serde_ms")]
    CoolDown(Duration),
}

impl Next {
    /// Returns how long a release keeps others out.
    pub(super) fn window(&self) -> Duration {
        match self {
            Self::Anybody => Duration::ZERO,
            Self::Successor { window, .. } | Self::CoolDown(window) => *window,
        }
    }
}

/// What an election's record says about who may lead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordState {
    /// Somebody leads.
    Held,
    /// Released, and kept for a successor (or, without one, for nobody) for a while.
    Reserved {
        /// Who may take it now.
        successor: Option<CandidateId>,
    },
    /// An operator paused the election and nobody holds it.
    Paused,
    /// The store began lately and may have forgotten a lease that still lives: nobody is elected before that must have
    /// ended.
    Recovering,
    /// Whoever bids gets it.
    Free,
}

/// Anybody's view of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    /// What is contested.
    pub election: ElectionName,
    /// Who may lead.
    pub state: RecordState,
    /// The highest token granted so far.
    pub token: FencingToken,
    /// The present holder, or the last one if its lease ran out and nobody came since.
    pub holder: Option<Holder>,
    /// How long the lease still lives, by the store's judgement; `None` when nobody holds it.
    pub time_left: Option<Duration>,
    /// When a follower that was refused should bid again, if nothing wakes it earlier.
    pub opens_in: Option<Duration>,
    /// Renewals over the record's life.
    pub renew_total: u64,
    /// Ended terms, the newest last; a bounded number.
    pub last_terms: Vec<Term>,
    /// The pause in force, if any; it does not end a running term.
    pub pause: Option<Pause>,
    /// An operator's request that waits for the leader.
    pub request: Option<ControlRequest>,
    /// What became of the last request.
    pub answer: Option<Answered>,
    /// How long ago a term ended with success, by the store's judgement.
    pub last_success: Option<Duration>,
}

/// Who holds a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who it is.
    pub candidate: CandidateId,
    /// Its name over restarts, if it has one.
    pub identity: Option<Identity>,
    /// Where it runs.
    pub origin: Origin,
    /// The bid that won the term.
    pub bid: BidId,
    /// The attempt that was applied last.
    pub attempt: Attempt,
    /// How long the lease lasts without renewal.
    pub ttl: Duration,
    /// What the holder tells about itself.
    pub metadata: Metadata,
    /// When the term began, by the holder's wall clock; for people. [`UNIX_EPOCH`](SystemTime::UNIX_EPOCH) if
    /// [other software](Self::is_foreign) holds the lease.
    pub acquired_at: SystemTime,
    /// When it was renewed last, likewise.
    pub renewed_at: SystemTime,
    /// Renewals of this term.
    pub renew_count: u64,
    /// The term before this one.
    pub previous: Option<Arc<Term>>,
}

impl Holder {
    /// Tells whether it is other software that holds the lease, by the same place in the store: then there is no term, no
    /// token, and nobody knows since when.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.acquired_at == SystemTime::UNIX_EPOCH
    }
}

impl LeaseRecord {
    /// Returns who leads now.
    #[must_use]
    pub fn leader(&self) -> Option<&Holder> {
        self.holder.as_ref().filter(|_| self.state == RecordState::Held)
    }

    /// Returns the lease that `bid` has, if the record shows it; for resolving a bid whose answer was lost.
    #[must_use]
    pub fn lease_of(&self, bid: BidId) -> Option<Lease> {
        let holder = self.leader().filter(|holder| holder.bid == bid)?;
        Some(Lease {
            election: self.election.clone(),
            bid,
            attempt: holder.attempt,
            candidate: holder.candidate.clone(),
            token: self.token,
            ttl: holder.ttl,
            renew_count: holder.renew_count,
            renew_total: self.renew_total,
            previous: holder.previous.clone(),
        })
    }
}
