//! From what the server keeps to what everybody sees.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tenure_core::name::MAX_NAME_BYTES;
use tenure_core::store::{
    Bid, ControlRequest, Holder, LeaseRecord, Metadata, Origin, Pause, RecordState, Term, TermEnd,
};
use tenure_core::{Attempt, BidId, CandidateId, ElectionName, FencingToken, Identity};

use crate::script::View;

/// What of a holder stays when its term has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Who {
    bid: BidId,
    candidate: CandidateId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    identity: Option<Identity>,
}

/// What of a holder goes with its term.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct About {
    #[serde(default, skip_serializing_if = "Origin::is_empty")]
    origin: Origin,
    #[serde(default, skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
}

/// A term as the script writes it.
#[derive(Debug, Serialize, Deserialize)]
struct StoredTerm {
    token: FencingToken,
    who: Who,
    acquired_at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    end: Option<TermEnd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cool_down_ms: Option<u64>,
}

/// The name of a holder that is none of ours stands under this in its metadata, as the server has it.
const FOREIGN: &str = "foreign";

/// The server counts whole milliseconds, and a lease lasts to the end of its last one: whoever bids before is refused.
pub(crate) const GRAIN: Duration = Duration::from_millis(1);

impl Who {
    pub(crate) fn of(bid: &Bid) -> String {
        let who = Self { bid: bid.id, candidate: bid.candidate.clone(), identity: bid.identity.clone() };
        json(&who)
    }
}

impl About {
    pub(crate) fn of(bid: &Bid) -> String {
        json(&Self { origin: bid.origin.clone(), metadata: bid.metadata.clone() })
    }
}

/// Maps with string keys and plain values only: there is nothing that could fail.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// What the value of a lease's key is: unique for each bid, and readable for whoever types GET.
pub(crate) fn value_of(candidate: &CandidateId, bid: BidId) -> String {
    [candidate.as_str(), ":", &bid.to_string()].concat()
}

/// Reads a term back.
pub(crate) fn term(line: &str) -> Result<Term, String> {
    let stored: StoredTerm = serde_json::from_str(line).map_err(|error| format!("a term: {error}"))?;
    Ok(Term {
        token: stored.token,
        bid: stored.who.bid,
        candidate: stored.who.candidate,
        identity: stored.who.identity,
        acquired_at_ms: stored.acquired_at_ms,
        ended_at_ms: stored.ended_at_ms,
        end: stored.end,
        cool_down_ms: stored.cool_down_ms,
    })
}

/// Writes a term as the script does.
pub(crate) fn line(term: &Term) -> String {
    json(&StoredTerm {
        token: term.token,
        who: Who { bid: term.bid, candidate: term.candidate.clone(), identity: term.identity.clone() },
        acquired_at_ms: term.acquired_at_ms,
        ended_at_ms: term.ended_at_ms,
        end: term.end,
        cool_down_ms: term.cool_down_ms,
    })
}

/// The fields of a record, read one by one.
struct Fields<'a>(&'a BTreeMap<String, String>);

impl<'a> Fields<'a> {
    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).map(String::as_str)
    }

    fn need(&self, name: &'static str) -> Result<&'a str, String> {
        self.get(name).ok_or_else(|| format!("it has no {name}"))
    }

    fn number(&self, name: &'static str) -> Result<u64, String> {
        let text = self.need(name)?;
        text.parse().map_err(|_| format!("its {name} is {text:?}"))
    }

    fn number_or_zero(&self, name: &'static str) -> Result<u64, String> {
        if self.get(name).is_some() { self.number(name) } else { Ok(0) }
    }

    fn json<T: Deserialize<'a>>(&self, name: &'static str) -> Result<T, String> {
        serde_json::from_str(self.need(name)?).map_err(|error| format!("its {name}: {error}"))
    }

    /// Returns how long it is until the moment that a field names, `None` if there is none or it has passed.
    fn until(&self, name: &'static str, now: u64) -> Result<Option<Duration>, String> {
        let left = self.number_or_zero(name)?.saturating_sub(now);
        Ok((left > 0).then(|| Duration::from_micros(left)))
    }
}

impl View {
    /// Returns anybody's view of the election.
    ///
    /// # Errors
    /// What cannot be understood, in words.
    pub(crate) fn record(&self, election: &ElectionName) -> Result<LeaseRecord, String> {
        let fields = Fields(&self.fields);
        let named = fields.get("bid").is_some();
        let held = named && self.value.as_deref() == fields.get("value").map(str::as_bytes);
        let foreign = self.value.as_deref().filter(|_| !held);
        let time_left = self.value.as_ref().and(self.left_ms).map(Duration::from_millis);

        let pause = match fields.until("pause_until", self.now)? {
            Some(ends_in) => Some(Pause { by: fields.need("pause_by")?.to_owned(), ends_in }),
            None => None,
        };
        let reserved = fields.until("reserved_until", self.now)?;
        let young = (self.wait_ms > 0).then(|| Duration::from_millis(self.wait_ms));
        let paused = pause.as_ref().map(|pause| pause.ends_in);
        let (state, opens_in) = if self.value.is_some() {
            // A lease without an end opens when somebody removes it: then it is for the follower to look.
            let others = paused.unwrap_or_default().max(young.unwrap_or_default());
            let opens = |left: Duration| if held { left + GRAIN } else { left };
            (RecordState::Held, time_left.map(|left| opens(left).max(others)))
        } else if paused.is_some() {
            (RecordState::Paused, paused)
        } else if reserved.is_some() {
            let successor = fields.get("reserved_for").filter(|name| !name.is_empty());
            let successor =
                successor.map(|name| parsed("reserved_for", CandidateId::new(name))).transpose()?;
            (RecordState::Reserved { successor }, reserved)
        } else if young.is_some() {
            (RecordState::Recovering, young)
        } else {
            (RecordState::Free, Some(Duration::ZERO))
        };
        let last_terms: Vec<_> =
            fields.get("terms").unwrap_or_default().lines().map(term).collect::<Result<_, _>>()?;
        let holder = match foreign {
            Some(value) => Some(foreign_holder(value, time_left)),
            None if named => Some(holder(&fields, last_terms.last())?),
            None => None,
        };
        Ok(LeaseRecord {
            election: election.clone(),
            state,
            token: FencingToken(fields.number_or_zero("token")?),
            holder,
            time_left,
            opens_in,
            renew_total: fields.number_or_zero("renew_total")?,
            last_terms,
            pause,
            request: request(&fields, self.now)?,
            answer: fields.get("answer").map(|_| fields.json("answer")).transpose()?,
            last_success: match fields.get("succeeded_at") {
                Some(_) => {
                    let at = fields.number("succeeded_at")?;
                    Some(Duration::from_micros(self.now.saturating_sub(at)))
                }
                None => None,
            },
        })
    }
}

fn holder(fields: &Fields<'_>, last_term: Option<&Term>) -> Result<Holder, String> {
    let who: Who = fields.json("who")?;
    let about: About = fields.json("about")?;
    Ok(Holder {
        candidate: who.candidate,
        identity: who.identity,
        origin: about.origin,
        bid: parsed("bid", fields.need("bid")?.parse())?,
        attempt: parsed("attempt", fields.need("attempt")?.parse())?,
        ttl: Duration::from_millis(fields.number("ttl_ms")?),
        metadata: about.metadata,
        acquired_at: wall(fields.number("acquired_at_ms")?),
        renewed_at: wall(fields.number_or_zero("renewed_at_ms")?.max(fields.number("acquired_at_ms")?)),
        renew_count: fields.number_or_zero("renew_count")?,
        // No term is added while one lasts: the newest is the one before it, unless somebody else may have led since.
        previous: last_term.filter(|_| fields.get("gap").is_none()).cloned().map(Arc::new),
    })
}

fn request(fields: &Fields<'_>, now: u64) -> Result<Option<ControlRequest>, String> {
    let Some(expires_in) = fields.until("request_until", now)? else {
        return Ok(None);
    };
    let live = fields.get("bid").is_some() && fields.get("request_token") == fields.get("token");
    if !live {
        return Ok(None);
    }
    let request: ControlRequest = fields.json("request")?;
    Ok(Some(ControlRequest { expires_in, ..request }))
}

/// Shows whoever holds the lease without being one of ours: other software that uses the same key.
fn foreign_holder(value: &[u8], time_left: Option<Duration>) -> Holder {
    let value = String::from_utf8_lossy(value);
    let mut name: String = value.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    let blank = || CandidateId::new("(nameless)");
    // Not a blank name, no control characters, not too long: one of the two is taken.
    let candidate = CandidateId::new(&name).or_else(|_| blank());
    let nobody = "0".repeat(32);
    Holder {
        candidate: candidate.unwrap_or_else(|_| unreachable!("a fixed name is a name")),
        identity: None,
        origin: Origin::default(),
        bid: nobody.parse().unwrap_or_else(|_| unreachable!("32 digits are an id")),
        attempt: nobody.parse().unwrap_or_else(|_| unreachable!("32 digits are an id")),
        ttl: time_left.unwrap_or_default(),
        metadata: Metadata::from([(FOREIGN.to_owned(), value.into_owned())]),
        // Nobody knows: what tells such a holder from one of ours.
        acquired_at: SystemTime::UNIX_EPOCH,
        renewed_at: SystemTime::UNIX_EPOCH,
        renew_count: 0,
        previous: None,
    }
}

fn parsed<T, E: std::fmt::Display>(name: &str, value: Result<T, E>) -> Result<T, String> {
    value.map_err(|error| format!("its {name}: {error}"))
}

pub(crate) fn wall(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Reads the attempt that an answer names.
pub(crate) fn attempt(text: &str) -> Result<Attempt, String> {
    parsed("attempt", text.parse())
}
