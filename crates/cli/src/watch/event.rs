//! What happened between two looks at an election.

use std::fmt;

use serde::Serialize;
use tenure::store::{Action, Holder, LeaseRecord, RecordState, Term, TermEnd};
use tenure::{CandidateId, FencingToken, Identity};

use crate::duration;
use crate::show::{json, words};

/// Something that happened, in the past tense.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event {
    /// The state when the watch began, or when other software took or left the lease.
    Found {
        state: &'static str,
        token: Option<FencingToken>,
        #[serde(flatten)]
        leader: Option<Who>,
        #[serde(skip_serializing_if = "Option::is_none")]
        term_ms: Option<u64>,
    },
    Elected {
        token: FencingToken,
        #[serde(flatten)]
        who: Who,
    },
    Released {
        token: FencingToken,
        #[serde(flatten)]
        who: Who,
    },
    Succeeded {
        token: FencingToken,
        #[serde(flatten)]
        who: Who,
    },
    Expired {
        token: FencingToken,
        #[serde(flatten)]
        who: Who,
    },
    Superseded {
        token: FencingToken,
        #[serde(flatten)]
        who: Who,
    },
    HandedOff {
        token: FencingToken,
        #[serde(flatten)]
        who: Who,
        successor: CandidateId,
    },
    Paused {
        by: String,
        ends_in_ms: u64,
    },
    Resumed,
    Requested {
        token: FencingToken,
        by: String,
        action: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        successor: Option<CandidateId>,
    },
    Answered {
        answer: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// More terms came and went than a record keeps.
    Missed,
    /// The record is gone, or the store went back to an earlier one.
    Removed,
}

/// A candidate, by all its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Who {
    candidate: CandidateId,
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
}

impl From<&Holder> for Who {
    fn from(holder: &Holder) -> Self {
        Self { candidate: holder.candidate.clone(), identity: holder.identity.clone() }
    }
}

impl From<&Term> for Who {
    fn from(term: &Term) -> Self {
        Self { candidate: term.candidate.clone(), identity: term.identity.clone() }
    }
}

/// Tells the present state.
pub(super) fn found(record: Option<&LeaseRecord>) -> Event {
    Event::Found {
        // Whoever bids gets it, as in every election that nobody holds.
        state: record.map_or("free", |record| json::state(&record.state)),
        token: record.map(|record| record.token),
        leader: record.and_then(LeaseRecord::leader).map(Who::from),
        term_ms: record.and_then(json::term_length).map(json::ms),
    }
}

/// Tells what happened between two looks, in order. Renewals are no events.
pub(super) fn between(before: Option<&LeaseRecord>, now: Option<&LeaseRecord>) -> Vec<Event> {
    let Some(now) = now else {
        return before.map(|_| Event::Removed).into_iter().collect();
    };
    if before.is_some_and(|before| now.token < before.token) {
        return vec![Event::Removed, found(Some(now))];
    }
    let mut events = Vec::new();
    events.extend(answered(before, now));
    terms(before, now, &mut events);
    let changed = foreign(before) != foreign(Some(now));
    // Whoever leads after it is told by its election.
    if changed && leader(now).is_none() {
        events.push(found(Some(now)));
    }
    events.extend(paused(before, now));
    events.extend(requested(before, now));
    events
}

/// Returns who leads in a term, or led in the last one that has no end yet.
fn holder(record: &LeaseRecord) -> Option<&Holder> {
    record.holder.as_ref().filter(|holder| !holder.is_foreign())
}

/// Returns who leads in a term.
fn leader(record: &LeaseRecord) -> Option<&Holder> {
    record.leader().filter(|holder| !holder.is_foreign())
}

/// Returns the name of other software that holds the lease.
fn foreign(record: Option<&LeaseRecord>) -> Option<&CandidateId> {
    record?.leader().filter(|holder| holder.is_foreign()).map(|holder| &holder.candidate)
}

fn terms(before: Option<&LeaseRecord>, now: &LeaseRecord, events: &mut Vec<Event>) {
    let known = before.map_or(FencingToken::ZERO, |before| before.token);
    // The end of the last known term was told already, unless it was under way.
    let under_way = before.is_some_and(|before| leader(before).is_some());
    // A record that was repaired has a token and no terms: nothing can be missed of it.
    let had_terms = before.is_some_and(|before| holder(before).is_some() || !before.last_terms.is_empty());
    if had_terms && now.token > known && !now.last_terms.iter().any(|term| term.token == known) {
        events.push(Event::Missed);
    }
    for (index, term) in now.last_terms.iter().enumerate() {
        if term.token > known {
            events.push(Event::Elected { token: term.token, who: term.into() });
        }
        if term.token > known || (term.token == known && under_way) {
            let next = now.last_terms.get(index + 1).map(|next| &next.candidate);
            let next = next.or(now.holder.as_ref().map(|holder| &holder.candidate));
            events.push(ended(term, successor(before, now, term, next)));
        }
    }
    if let Some(before) = before.and_then(leader)
        && foreign(Some(now)).is_some()
        && now.token == known
        && now.last_terms.iter().all(|term| term.token != known)
    {
        // Nobody records its end before the next term.
        events.push(Event::Expired { token: known, who: before.into() });
    }
    let Some(holder) = holder(now) else { return };
    let new = now.token > known;
    if new {
        events.push(Event::Elected { token: now.token, who: holder.into() });
    }
    if now.leader().is_none() && (new || under_way) {
        // Its lease ran out, and whoever comes next records it.
        events.push(Event::Expired { token: now.token, who: holder.into() });
    }
}

fn ended(term: &Term, successor: Option<CandidateId>) -> Event {
    let (token, who) = (term.token, term.into());
    match (term.end, successor) {
        (Some(TermEnd::Released), Some(successor)) => Event::HandedOff { token, who, successor },
        (Some(TermEnd::Released), None) => Event::Released { token, who },
        (Some(TermEnd::Succeeded), _) => Event::Succeeded { token, who },
        (Some(TermEnd::Superseded), _) => Event::Superseded { token, who },
        (Some(TermEnd::Expired) | None, _) => Event::Expired { token, who },
    }
}

/// Returns who was named to lead after `term`, as far as the records show it: the election is kept for it, or it was asked
/// for and has come.
fn successor(
    before: Option<&LeaseRecord>,
    now: &LeaseRecord,
    term: &Term,
    next: Option<&CandidateId>,
) -> Option<CandidateId> {
    if let RecordState::Reserved { successor: Some(successor) } = &now.state
        && now.token == term.token
    {
        return Some(successor.clone());
    }
    let asked =
        before.and_then(|before| before.request.as_ref()).filter(|request| request.token == term.token)?;
    match &asked.action {
        Action::HandOff { to } if next == Some(to) => Some(to.clone()),
        _ => None,
    }
}

fn answered(before: Option<&LeaseRecord>, now: &LeaseRecord) -> Option<Event> {
    let answered = now.answer.as_ref()?;
    if before.and_then(|before| before.answer.as_ref()) == Some(answered) {
        return None;
    }
    let (answer, reason) = json::answer(&answered.answer);
    Some(Event::Answered { answer, reason: reason.map(str::to_owned) })
}

fn paused(before: Option<&LeaseRecord>, now: &LeaseRecord) -> Option<Event> {
    let before = before.and_then(|before| before.pause.as_ref());
    match (before, &now.pause) {
        (Some(_), None) => Some(Event::Resumed),
        // A pause only gets shorter by itself.
        (Some(before), Some(now)) if before.by == now.by && now.ends_in <= before.ends_in => None,
        (_, Some(now)) => Some(Event::Paused { by: now.by.clone(), ends_in_ms: json::ms(now.ends_in) }),
        (None, None) => None,
    }
}

fn requested(before: Option<&LeaseRecord>, now: &LeaseRecord) -> Option<Event> {
    let request = now.request.as_ref()?;
    let known =
        before.and_then(|before| before.request.as_ref()).is_some_and(|before| before.id == request.id);
    let (action, successor) = json::action(&request.action);
    (!known).then(|| Event::Requested {
        token: request.token,
        by: request.by.clone(),
        action,
        successor: successor.cloned(),
    })
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.identity {
            Some(identity) => write!(f, "{} ({identity})", self.candidate),
            None => write!(f, "{}", self.candidate),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ms: u64| duration::brief(std::time::Duration::from_millis(ms));
        match self {
            Self::Found { token: Some(token), leader: Some(leader), term_ms: Some(term_ms), .. } => {
                write!(f, "{leader} leads in term {token} for {}", ms(*term_ms))
            }
            Self::Found { leader: Some(leader), .. } => {
                write!(f, "{leader} holds the lease, outside of all terms (other software)")
            }
            Self::Found { state: "held", .. } => f.write_str("held by somebody without a term yet"),
            Self::Found { state, token: Some(token), .. } if *token > FencingToken::ZERO => {
                write!(f, "nobody leads ({state}), the last term was {token}")
            }
            Self::Found { state, .. } => write!(f, "nobody leads ({state})"),
            Self::Elected { token, who } => write!(f, "{who} elected, term {token}"),
            Self::Released { token, who } => write!(f, "{who} released term {token}"),
            Self::Succeeded { token, who } => write!(f, "{who} ended term {token} with success"),
            Self::Expired { token, who } => write!(f, "term {token} of {who} expired"),
            Self::Superseded { token, who } => {
                write!(f, "term {token} of {who} superseded by a restart of the same identity")
            }
            Self::HandedOff { token, who, successor } => {
                write!(f, "{who} handed term {token} off to {successor}")
            }
            Self::Paused { by, ends_in_ms } => {
                write!(f, "paused by {} for {}", words::harmless(by), ms(*ends_in_ms))
            }
            Self::Resumed => f.write_str("resumed"),
            Self::Requested { token, by, action, successor } => {
                let by = words::harmless(by);
                match successor {
                    Some(successor) => {
                        write!(f, "{by} requested that the leader of term {token} hands off to {successor}")
                    }
                    None => write!(f, "{by} requested that the leader of term {token} does this: {action}"),
                }
            }
            Self::Answered { answer, reason: Some(reason) } => {
                write!(f, "the leader answered the request: {answer}, {}", words::harmless(reason))
            }
            Self::Answered { answer, reason: None } => write!(f, "the leader answered the request: {answer}"),
            Self::Missed => f.write_str("more terms came and went than the store keeps; these are the last"),
            Self::Removed => f.write_str("the record is gone"),
        }
    }
}

#[cfg(test)]
#[path = "event_test.rs"]
mod tests;
