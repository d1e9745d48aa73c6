//! What is asked of a leader, and what becomes of it.

use std::time::Duration;

use tenure::store::{Action, Answer, ControlRequest, Holder, LeaseRecord, RecordState, Requested, TermEnd};
use tenure::{Clock, ElectionName, FencingToken, Moment, RequestId};

use super::Control;
use super::sight::Sight;
use crate::reading::Failure;

/// How long somebody who takes over may take to be seen, where nobody knows whether there is one.
const GLIMPSE: Duration = Duration::from_secs(1);

/// What became of a request.
pub(crate) enum Fate {
    /// The leader did it: the lease was given back for it.
    Done,
    /// Nothing was asked, for this reason.
    NotAsked(NotAsked),
    /// The leader refused, and says why.
    Refused(String),
    /// No answer came in time; the request stands no more.
    Unanswered,
    /// The term ended without an answer, in this way if it is known.
    Ended(Option<TermEnd>),
}

/// Why a leader was not asked.
pub(crate) enum NotAsked {
    /// There is none.
    NobodyLeads,
    /// It is other software, which takes no requests.
    Foreign,
    /// Another request waits for it.
    Busy(Option<Box<ControlRequest>>),
    /// Another term began meanwhile.
    AnotherTerm(FencingToken),
}

/// What became of a request, and how things stand then.
pub(crate) struct Asked {
    pub(crate) fate: Fate,
    /// From the request to its fate.
    pub(crate) took: Duration,
    /// From the request to the next leader.
    pub(crate) taken_over: Option<Duration>,
    /// What was seen last.
    pub(crate) after: Option<LeaseRecord>,
}

/// Whether somebody else must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nobody is waited for.
    Nobody,
    /// Whoever comes is worth a moment.
    Glimpse,
    /// Somebody shall lead before the time is over.
    Somebody,
}

/// Asks the leader that `before` shows, waits for what becomes of it and, if wanted, for the next leader.
pub(crate) async fn ask(
    control: &Control,
    before: &LeaseRecord,
    action: &Action,
    timeout: Duration,
    then: Then,
) -> Result<Asked, Failure> {
    let election = &before.election;
    let operator = control.operator()?;
    if let Some(refusal) = cannot_ask(before) {
        return Ok(Asked::not(refusal, before.clone()));
    }
    let mut sight = Sight::begin(&control.reader, election);
    let (id, token) = (RequestId::new(&control.random), before.token);
    let request =
        ControlRequest { id, token, by: control.by.clone(), action: action.clone(), expires_in: timeout };
    let attempt = control.attempt();
    let began = control.reader.clock.now();
    let deadline = began.plus(timeout);
    let requested = control.call("request", || operator.request(election, attempt, request.clone())).await?;
    if let Some(refusal) = not_taken(control, election, requested).await? {
        return Ok(Asked::not(refusal, before.clone()));
    }
    let found =
        sight.until(deadline, |record| fate(record, token, id).map(|fate| (fate, record.clone()))).await?;
    let took = control.reader.clock.now().time_since(began);
    let Some((fate, record)) = found else {
        let after = control.reader.read(election).await?;
        return Ok(Asked { fate: Fate::Unanswered, took, taken_over: None, after });
    };
    let over = ended(&record, token);
    let mut asked = Asked { fate, took, taken_over: None, after: Some(record) };
    if over {
        asked.wait_for_leader(&mut sight, then, control, token, began, deadline).await?;
    }
    Ok(asked)
}

/// Waits until the term `token` is over, however it ends; answers how it ended, or `None` if it goes on.
pub(crate) async fn outlast(
    control: &Control,
    election: &ElectionName,
    token: FencingToken,
    deadline: Moment,
) -> Result<Option<(Option<TermEnd>, LeaseRecord)>, Failure> {
    let mut sight = Sight::begin(&control.reader, election);
    let over = |record: &LeaseRecord| ended(record, token).then(|| (end_of(record, token), record.clone()));
    Ok(sight.until(deadline, over).await?)
}

impl Asked {
    fn not(refusal: NotAsked, record: LeaseRecord) -> Self {
        Self { fate: Fate::NotAsked(refusal), took: Duration::ZERO, taken_over: None, after: Some(record) }
    }

    /// Returns who led when it was looked at last.
    pub(crate) fn leader(&self) -> Option<&Holder> {
        self.after.as_ref()?.leader()
    }

    async fn wait_for_leader(
        &mut self,
        sight: &mut Sight<'_>,
        then: Then,
        control: &Control,
        token: FencingToken,
        began: Moment,
        deadline: Moment,
    ) -> Result<(), Failure> {
        let now = control.reader.clock.now();
        let after = self.after.as_ref();
        let reserved = after.filter(|record| matches!(record.state, RecordState::Reserved { .. }));
        let kept = reserved.and_then(|record| record.opens_in).unwrap_or_default();
        let until = match then {
            Then::Nobody => return Ok(()),
            Then::Glimpse => now.plus(GLIMPSE),
            // The one that it is kept for has that time; whoever comes then has a moment more.
            Then::Somebody => deadline.later_of(now.plus(kept.saturating_add(GLIMPSE))),
        };
        let mut last = None;
        let next = sight
            .until(until, |record| {
                last = Some(record.clone());
                (record.token > token && record.leader().is_some()).then_some(())
            })
            .await?;
        self.taken_over = next.map(|()| control.reader.clock.now().time_since(began));
        self.after = last.or(self.after.take());
        Ok(())
    }
}

fn cannot_ask(record: &LeaseRecord) -> Option<NotAsked> {
    match record.leader() {
        None => Some(NotAsked::NobodyLeads),
        Some(holder) if holder.is_foreign() => Some(NotAsked::Foreign),
        Some(_) => None,
    }
}

async fn not_taken(
    control: &Control,
    election: &ElectionName,
    requested: Requested,
) -> Result<Option<NotAsked>, Failure> {
    Ok(match requested {
        Requested::Accepted(_) => None,
        Requested::NoHolder => Some(NotAsked::NobodyLeads),
        Requested::WrongTerm(token) => Some(NotAsked::AnotherTerm(token)),
        Requested::Busy(_) => {
            let record = control.reader.read(election).await?;
            Some(NotAsked::Busy(record.and_then(|record| record.request).map(Box::new)))
        }
    })
}

/// Tells what a record says about the request `id` to the leader of term `token`.
fn fate(record: &LeaseRecord, token: FencingToken, id: RequestId) -> Option<Fate> {
    match record.answer.as_ref().filter(|answered| answered.id == id).map(|answered| &answered.answer) {
        Some(Answer::Done) => return Some(Fate::Done),
        Some(Answer::Refused(why)) => return Some(Fate::Refused(why.clone())),
        None => {}
    }
    ended(record, token).then(|| Fate::Ended(end_of(record, token)))
}

fn ended(record: &LeaseRecord, token: FencingToken) -> bool {
    record.token != token || record.leader().is_none()
}

fn end_of(record: &LeaseRecord, token: FencingToken) -> Option<TermEnd> {
    let recorded = record.last_terms.iter().find(|term| term.token == token).and_then(|term| term.end);
    // Its lease ran out, and whoever comes next records it.
    recorded.or((record.token == token && record.holder.is_some()).then_some(TermEnd::Expired))
}
