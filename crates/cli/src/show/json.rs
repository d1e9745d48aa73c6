//! What programs read. Every name here stands in docs/json.md and stays.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use tenure::store::{
    Action, Answer, ExpiryClock, Guarantees, LeaseRecord, Metadata, RecordState, StoreError, TermEnd,
    TokenOrder, Wake,
};
use tenure::{CandidateId, ElectionName, FencingToken, Identity, RequestId};

use super::time;

/// An election.
#[derive(Serialize)]
pub(crate) struct Election<'a> {
    election: &'a ElectionName,
    state: &'static str,
    token: Option<FencingToken>,
    leader: Option<Leader<'a>>,
    opens_in_ms: Option<u64>,
    renew_total: Option<u64>,
    last_term: Option<Term<'a>>,
    last_success_age_ms: Option<u64>,
    pause: Option<Pause<'a>>,
    reservation: Option<Reservation<'a>>,
    request: Option<Request<'a>>,
    answer: Option<Answered<'a>>,
    error: Option<String>,
}

/// Who leads.
#[derive(Serialize)]
pub(crate) struct Leader<'a> {
    candidate: &'a CandidateId,
    identity: Option<&'a Identity>,
    token: Option<FencingToken>,
    #[serde(serialize_with = "maybe_rfc_3339")]
    acquired_at: Option<SystemTime>,
    #[serde(serialize_with = "maybe_rfc_3339")]
    renewed_at: Option<SystemTime>,
    term_ms: Option<u64>,
    ttl_ms: Option<u64>,
    time_left_ms: Option<u64>,
    renew_count: Option<u64>,
    metadata: &'a Metadata,
}

/// A term.
#[derive(Serialize)]
pub(crate) struct Term<'a> {
    pub(crate) token: FencingToken,
    pub(crate) candidate: &'a CandidateId,
    pub(crate) identity: Option<&'a Identity>,
    #[serde(rename = "acquired_at", serialize_with = "rfc_3339")]
    pub(crate) began: SystemTime,
    #[serde(rename = "ended_at", serialize_with = "maybe_rfc_3339")]
    pub(crate) ended: Option<SystemTime>,
    pub(crate) end: Option<TermEnd>,
}

/// What keeps anybody new from being elected.
#[derive(Serialize)]
pub(crate) struct Pause<'a> {
    by: &'a str,
    ends_in_ms: u64,
}

#[derive(Serialize)]
struct Reservation<'a> {
    successor: Option<&'a CandidateId>,
    ends_in_ms: Option<u64>,
}

#[derive(Serialize)]
struct Request<'a> {
    id: RequestId,
    by: &'a str,
    action: &'static str,
    successor: Option<&'a CandidateId>,
    expires_in_ms: u64,
}

#[derive(Serialize)]
struct Answered<'a> {
    id: RequestId,
    answer: &'static str,
    reason: Option<&'a str>,
}

/// What a store promises.
#[derive(Serialize)]
pub(crate) struct Store {
    name: &'static str,
    scope: String,
    linearizable: bool,
    survives_restart: bool,
    survives_failover: Option<bool>,
    clock: &'static str,
    tokens: &'static str,
    min_ttl_ms: u64,
    ttl_grain_ms: u64,
    wake: &'static str,
    assumptions: Vec<&'static str>,
}

/// Shows an election.
pub(crate) fn election(record: &LeaseRecord) -> Election<'_> {
    let reservation = match &record.state {
        RecordState::Reserved { successor } => {
            Some(Reservation { successor: successor.as_ref(), ends_in_ms: record.opens_in.map(ms) })
        }
        _ => None,
    };
    let request = record.request.as_ref().map(|request| {
        let (action, successor) = action(&request.action);
        Request { id: request.id, by: &request.by, action, successor, expires_in_ms: ms(request.expires_in) }
    });
    let answered = record.answer.as_ref().map(|answered| {
        let (answer, reason) = answer(&answered.answer);
        Answered { id: answered.id, answer, reason }
    });
    Election {
        election: &record.election,
        state: state(&record.state),
        token: Some(record.token),
        leader: leader(record),
        opens_in_ms: record.opens_in.map(ms),
        renew_total: Some(record.renew_total),
        last_term: terms(record).into_iter().rfind(|term| term.end.is_some()),
        last_success_age_ms: record.last_success.map(ms),
        pause: pause(record),
        reservation,
        request,
        answer: answered,
        error: None,
    }
}

/// Shows an election whose record could not be read.
pub(crate) fn unreadable<'a>(election: &'a ElectionName, error: &StoreError) -> Election<'a> {
    Election {
        election,
        state: "unreadable",
        token: None,
        leader: None,
        opens_in_ms: None,
        renew_total: None,
        last_term: None,
        last_success_age_ms: None,
        pause: None,
        reservation: None,
        request: None,
        answer: None,
        error: Some(error.to_string()),
    }
}

/// Shows the pause in force.
pub(crate) fn pause(record: &LeaseRecord) -> Option<Pause<'_>> {
    record.pause.as_ref().map(|pause| Pause { by: &pause.by, ends_in_ms: ms(pause.ends_in) })
}

/// Shows who leads.
pub(crate) fn leader(record: &LeaseRecord) -> Option<Leader<'_>> {
    let holder = record.leader()?;
    // Other software has no term: nothing is known of it but its name and the time that is left.
    let of_term = !holder.is_foreign();
    Some(Leader {
        candidate: &holder.candidate,
        identity: holder.identity.as_ref(),
        token: of_term.then_some(record.token),
        acquired_at: of_term.then_some(holder.acquired_at),
        renewed_at: of_term.then_some(holder.renewed_at),
        term_ms: term_length(record).map(ms),
        ttl_ms: of_term.then_some(ms(holder.ttl)),
        time_left_ms: record.time_left.map(ms),
        renew_count: of_term.then_some(holder.renew_count),
        metadata: &holder.metadata,
    })
}

/// Returns how long the present term has lasted, if there is one.
///
/// The time to its last renewal is of the leader's clock, the time since then of the store's: so nobody's wall clock is
/// compared with anybody else's.
pub(crate) fn term_length(record: &LeaseRecord) -> Option<Duration> {
    let holder = record.leader().filter(|holder| !holder.is_foreign())?;
    let until_renewal = holder.renewed_at.duration_since(holder.acquired_at).unwrap_or_default();
    Some(until_renewal.saturating_add(holder.ttl.saturating_sub(record.time_left?)))
}

/// Returns the terms that are known, the present or newest last.
pub(crate) fn terms(record: &LeaseRecord) -> Vec<Term<'_>> {
    let mut terms: Vec<_> = record
        .last_terms
        .iter()
        .map(|term| Term {
            token: term.token,
            candidate: &term.candidate,
            identity: term.identity.as_ref(),
            began: time::from_unix_ms(term.acquired_at_ms),
            ended: term.ended_at_ms.map(time::from_unix_ms),
            end: term.end,
        })
        .collect();
    if let Some(holder) = record.holder.as_ref().filter(|holder| !holder.is_foreign()) {
        terms.push(Term {
            token: record.token,
            candidate: &holder.candidate,
            identity: holder.identity.as_ref(),
            began: holder.acquired_at,
            ended: None,
            // Its lease ran out, and whoever comes next records it.
            end: record.leader().is_none().then_some(TermEnd::Expired),
        });
    }
    terms
}

/// Shows a store.
pub(crate) fn store(guarantees: Guarantees) -> Store {
    Store {
        name: guarantees.store,
        scope: guarantees.scope,
        linearizable: guarantees.linearizable,
        survives_restart: guarantees.survives_restart,
        survives_failover: guarantees.survives_failover,
        clock: match guarantees.clock {
            ExpiryClock::Machine => "machine",
            ExpiryClock::Store(_) => "store",
            ExpiryClock::Observer => "observer",
        },
        tokens: match guarantees.tokens {
            TokenOrder::Strict => "strict",
            TokenOrder::StrictWithin(_) => "strict_within",
            TokenOrder::None => "none",
        },
        min_ttl_ms: ms(guarantees.min_ttl),
        ttl_grain_ms: ms(guarantees.ttl_grain),
        wake: match guarantees.wake {
            Wake::Push => "push",
            Wake::Look(_) => "look",
        },
        assumptions: guarantees.assumptions,
    }
}

pub(crate) fn state(state: &RecordState) -> &'static str {
    match state {
        RecordState::Held => "held",
        RecordState::Reserved { .. } => "reserved",
        RecordState::Paused => "paused",
        RecordState::Recovering => "recovering",
        RecordState::Free => "free",
    }
}

pub(crate) fn action(action: &Action) -> (&'static str, Option<&CandidateId>) {
    match action {
        Action::Resign => ("resign", None),
        Action::HandOff { to } => ("hand_off", Some(to)),
    }
}

pub(crate) fn answer(answer: &Answer) -> (&'static str, Option<&str>) {
    match answer {
        Answer::Done => ("done", None),
        Answer::Refused(reason) => ("refused", Some(reason)),
    }
}

pub(crate) fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(crate) fn rfc_3339<S: Serializer>(at: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time::millis(*at))
}

pub(crate) fn maybe_rfc_3339<S: Serializer>(
    at: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => rfc_3339(at, serializer),
        None => serializer.serialize_none(),
    }
}
