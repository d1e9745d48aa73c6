//! What is asked of one node.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::store::{Bid, ErrorKind, LeaseRecord, StoreError, Term};
use tenure_core::{ElectionName, FencingToken};

use super::STORE;
use crate::link::{self, Request};
use crate::record::{self, About, Who};
use crate::script::{Answer, Script, View};
use crate::store::{Shared, whole_ms};

/// What a look at a node finds.
#[derive(Clone, Debug)]
pub(super) struct Look {
    /// The node's time, µs.
    pub(super) now: u64,
    pub(super) view: Option<View>,
    pub(super) record: Option<LeaseRecord>,
    /// What the node calls its run; nothing if it is the same one in any.
    pub(super) run: String,
}

impl Look {
    /// Tells whether the node has run since its record was written: it knows all that it has ever voted for.
    pub(super) fn is_whole(&self) -> bool {
        self.run.is_empty() || field(self, "run") == Some(&self.run)
    }
}

/// What a node says to a proposal.
#[derive(Clone, Debug)]
pub(super) enum Vote {
    For,
    /// The node's reason stands in its record, unless it is that it began lately.
    Against(Box<LeaseRecord>, Age),
}

/// Whether a node began so lately that it may have forgotten a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    Young,
    Grown,
}

/// What a bidder proposes: a token, and what a majority knew of the terms before.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub(super) bid: Bid,
    pub(super) token: FencingToken,
    /// The token of the last term that the bidder knows of.
    pub(super) last: FencingToken,
    pub(super) terms: Vec<Term>,
    /// Somebody may have led of whom nobody knows.
    pub(super) gap: bool,
    pub(super) renew_total: u64,
    pub(super) last_success: Option<Duration>,
    /// What became of the last request: its id, and the answer.
    pub(super) answer: Option<(String, String)>,
    /// The nodes' time, for people; never zero, by which a holder shows that is none of ours.
    pub(super) at_ms: u64,
}

/// Says when nobody waits for votes any more: what was not sent by then, because there was no connection, is not sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Closed(Arc<AtomicBool>);

impl Closed {
    pub(super) fn close(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn is_closed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Proposal {
    /// Returns the fields of the record that a node shall keep.
    fn fields(&self) -> String {
        let Self { bid, terms, gap, renew_total, answer, at_ms, .. } = self;
        let terms: Vec<_> = terms.iter().map(record::line).collect();
        let mut fields = BTreeMap::from([
            ("attempt", bid.attempt.to_string()),
            ("ttl_ms", whole_ms(bid.ttl).to_string()),
            ("who", Who::of(bid)),
            ("about", About::of(bid)),
            ("acquired_at_ms", at_ms.to_string()),
            ("terms", terms.join("\n")),
            ("renew_total", renew_total.to_string()),
        ]);
        if *gap {
            fields.insert("gap", "1".to_owned());
        }
        if let Some((id, answer)) = answer {
            fields.insert("answer_id", id.clone());
            fields.insert("answer", answer.clone());
        }
        record::json(&fields)
    }
}

impl Shared {
    /// Looks at what this node has of an election.
    pub(super) async fn look(
        &self,
        operation: &'static str,
        election: &ElectionName,
        again: bool,
        limit: Duration,
    ) -> Result<Look, StoreError> {
        let mark = self.new_mark();
        let keys = self.keys.of(election);
        let run = Mutex::new(String::new());
        let call = |age: link::Age<'_>| {
            self.forgotten(age).run.clone_into(&mut run.lock().unwrap_or_else(PoisonError::into_inner));
            Script::call(&keys, election.as_str(), "read", &mark, &[])
        };
        let answer = self.answer_within(&keys, Request::ByAge(&call), &mark, again, limit).await;
        let run = run.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut answer = answer.map_err(|trouble| self.error(operation, Some(election), trouble))?;
        let unexpected = |why| self.unexpected(operation, election, why);
        if answer.name() == "nothing" {
            return Ok(Look { now: answer.number().map_err(unexpected)?, view: None, record: None, run });
        }
        let view = answer.view().map_err(unexpected)?;
        let record = self.record(operation, election, &view)?;
        Ok(Look { now: view.now, view: Some(view), record: Some(record), run })
    }

    /// Asks this node for its vote.
    pub(super) async fn vote(
        &self,
        election: &ElectionName,
        proposal: &Proposal,
        closed: &Closed,
        limit: Duration,
    ) -> Result<Vote, StoreError> {
        let Proposal { bid, token, .. } = proposal;
        let ttl_ms = whole_ms(bid.ttl);
        let longest = self.longest_ttl_ms.fetch_max(ttl_ms, Ordering::Relaxed).max(ttl_ms);
        let (id, value) = (bid.id.to_string(), record::value_of(&bid.candidate, bid.id));
        let supersedes = bid.supersedes.map(|bid| bid.to_string()).unwrap_or_default();
        let success = proposal.last_success.map(|age| age.as_micros().to_string()).unwrap_or_default();
        let (token, last, fields) = (token.to_string(), proposal.last.to_string(), proposal.fields());
        let (mark, keys) = (self.new_mark(), self.keys.of(election));
        // Made when there is a connection, just before it is sent.
        let call = |age: link::Age<'_>| {
            if closed.is_closed() {
                return Script::call(&keys, election.as_str(), "read", &mark, &[]);
            }
            let age = self.age_arguments(age, longest);
            let arguments =
                [&id, &value, bid.candidate.as_str(), &token, &last, &supersedes, &success, &fields];
            let arguments: Vec<_> = arguments.into_iter().chain(age.iter().map(String::as_str)).collect();
            Script::call(&keys, election.as_str(), "vote", &mark, &arguments)
        };
        let sent = self.clock.now();
        let answer = self.answer_within(&keys, Request::ByAge(&call), &mark, false, limit).await;
        let mut answer = answer.map_err(|trouble| self.error("acquire", Some(election), trouble))?;
        match answer.name() {
            "voted" => Ok(Vote::For),
            "refused" => {
                let view = answer.view().map_err(|why| self.unexpected("acquire", election, why))?;
                let record = self.record("acquire", election, &view)?;
                self.watchers.answered(sent, view.now, &record);
                let age = if view.wait_ms > 0 { Age::Young } else { Age::Grown };
                Ok(Vote::Against(Box::new(record), age))
            }
            "found" | "nothing" => {
                let message = "the bid was decided before it reached this node";
                Err(StoreError::new(ErrorKind::Timeout, STORE, "acquire", message))
            }
            other => Err(self.unexpected("acquire", election, format!("it says {other:?}"))),
        }
    }

    /// Gives back the vote for a bid under a token. The node also notes it if it has not given that vote yet.
    pub(super) async fn withdraw(
        &self,
        election: &ElectionName,
        bid: &Bid,
        token: FencingToken,
        again: bool,
    ) -> Result<(), StoreError> {
        let (id, value, token) =
            (bid.id.to_string(), record::value_of(&bid.candidate, bid.id), token.to_string());
        let mark = self.new_mark();
        self.run("withdraw", election, &mark, &[&id, &value, &token], again).await.map(drop)
    }

    /// Lets this node have the lease of a term that it missed, as another node shows it.
    pub(super) async fn take_back(
        &self,
        election: &ElectionName,
        shown: &View,
    ) -> Result<Answer, StoreError> {
        let field = |name: &str| shown.fields.get(name).map_or("", String::as_str);
        let (left, now) = (shown.left_ms.unwrap_or_default().to_string(), shown.now.to_string());
        let fields = record::json(&shown.fields);
        let arguments = [field("value"), field("token"), &left, &now, &fields];
        self.run("take_back", election, &self.new_mark(), &arguments, false).await
    }
}

/// Returns what a record was before the vote that it shows.
pub(super) fn before(view: &View, election: &ElectionName) -> Option<LeaseRecord> {
    let fields = serde_json::from_str(view.fields.get("before")?).ok()?;
    View { value: None, left_ms: None, wait_ms: 0, fields, ..view.clone() }.record(election).ok()
}

/// Returns a field of what a node shows.
pub(super) fn field<'a>(look: &'a Look, name: &str) -> Option<&'a str> {
    look.view.as_ref()?.fields.get(name).map(String::as_str)
}
