//! Leases on keys that hang on a session, in a queue: the layout of etcd's own elections.
//!
//! A process has one session, whatever it takes part in. In each election it has one key on that session; the key that
//! was made first leads, and the revision that made it is the term's token. The rules that this fixes:
//! - *A session that lives proves nothing.* A renewal keeps the session alive and then writes its nonce over the very key
//!   that it knows: a key that is gone is a lease that is lost.
//! - *Trust needs a session that was kept alive after the send*, also for somebody who has waited in the queue for long.
//! - *Whoever leads says so in its key* (a claim), in one step with the history of terms. A key without a claim is a place
//!   in the queue and nobody's lease.
//! - *No key without a campaign.* The session goes on living for other elections, so its process removes its own keys for
//!   which nobody asks any more: at once when they keep others from leading, and after two ttl in any case.
//! - *Nobody leads out of order.* A handoff keeps the election for its successor; those before the successor in the queue
//!   line up again behind it, and the successor leads once it is first.

mod line;
mod tending;

pub use line::{Server, delete_leaders_entry, line, peek};

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt;
use tenure_core::store::record::LAST_TERMS;
use tenure_core::store::{
    Acquisition, Bid, Change, Changes, ErrorKind, ExpiryClock, Guarantees, Lease, LeaseRecord, LeaseStore,
    Next, Operator, RecordState, Release, Released, Renew, Renewal, StoreError, Term, TermEnd, TokenOrder,
    Wake,
};
use tenure_core::{BidId, CandidateId, Clock, ElectionName, FencingToken, Moment};

use super::sessions::{Done, Entry, If, SessionId, Sessions, Snapshot, Then};
use crate::doors::verb;
use crate::fault;
use crate::gate::ProcessClock;
use crate::network::{Link, unpoisoned};
use crate::wrong::Wrong;
use line::{Place, Sight, Value, history_key, kept_key, place_key};
use tending::tend;

/// How often a write is decided anew after somebody else was first.
const CONFLICTS: usize = 16;

/// The store's side in one process; clones share its session.
#[derive(Clone)]
pub struct Queue {
    process: Arc<Process>,
}

struct Process {
    link: Arc<Link>,
    server: Server,
    clock: ProcessClock,
    candidate: CandidateId,
    ttl: Duration,
    wrong: Option<Wrong>,
    mine: Mutex<Mine>,
}

/// What a process knows of itself.
#[derive(Default)]
struct Mine {
    session: Option<SessionId>,
    /// For which bid somebody asked last in each election, and when.
    asked: BTreeMap<ElectionName, (BidId, Moment)>,
    /// Since when a key of ours is the first one.
    first_since: BTreeMap<ElectionName, (u64, Moment)>,
}

fn conflict(operation: &'static str) -> StoreError {
    StoreError::new(ErrorKind::Conflict, "queue", operation, "others were first, again and again")
}

impl Queue {
    /// Makes the store of one process, and begins to tend its session.
    #[must_use]
    pub fn new(
        link: Arc<Link>,
        server: Server,
        clock: ProcessClock,
        candidate: CandidateId,
        ttl: Duration,
        wrong: Option<Wrong>,
    ) -> Self {
        let mine = Mutex::default();
        let process = Arc::new(Process { link, server, clock, candidate, ttl, wrong, mine });
        tokio::spawn(tend(Arc::clone(&process)));
        Self { process }
    }
}

impl Process {
    async fn call<T: Send + 'static>(
        &self,
        inside: bool,
        what: impl Fn(&Server) -> T + Send + Sync + 'static,
    ) -> Result<T, StoreError> {
        let server = self.server.clone();
        let serve = move |_| {
            let answer = what(&server);
            async move { answer }
        };
        self.link.call(verb(), inside, serve).await
    }

    async fn look(&self) -> Result<Snapshot<Value>, StoreError> {
        self.call(false, Sessions::look).await
    }

    async fn keep_alive(&self, session: SessionId) -> Result<bool, StoreError> {
        self.call(true, move |server| server.keep_alive(session)).await
    }

    async fn transact(&self, conditions: Vec<If>, then: Vec<Then<Value>>) -> Result<Done, StoreError> {
        self.call(true, move |server| server.transact(&conditions, &then)).await
    }

    fn forget(&self, session: SessionId) {
        let mut mine = unpoisoned(&self.mine);
        mine.session = mine.session.filter(|present| *present != session);
    }

    fn note_asked(&self, election: &ElectionName, bid: BidId) {
        unpoisoned(&self.mine).asked.insert(election.clone(), (bid, self.clock.now()));
    }

    /// Returns a session that was kept alive after this was called.
    async fn session(&self) -> Result<SessionId, StoreError> {
        let present = unpoisoned(&self.mine).session;
        if let Some(session) = present {
            if self.keep_alive(session).await? {
                return Ok(session);
            }
            self.forget(session);
        }
        let ttl = self.ttl;
        let session = self.call(true, move |server| server.open(ttl)).await?;
        Ok(*unpoisoned(&self.mine).session.get_or_insert(session))
    }

    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.note_asked(election, bid.id);
        for _ in 0..CONFLICTS {
            let session = self.session().await?;
            let snapshot = self.look().await?;
            let sight = Sight::new(&snapshot, election);
            let key = place_key(election, session);
            let own = sight.places.iter().find(|(place, _, _)| *place == key);
            let refused = || Ok(Acquisition::Refused(Box::new(self.view(&sight))));
            if let Some((_, entry, place)) = own.filter(|(_, _, place)| place.claimed) {
                // The same bid again; or an earlier term of ours whose release is under way.
                return if place.bid == bid.id {
                    Ok(Acquisition::Acquired(sight.lease(entry, place)))
                } else {
                    refused()
                };
            }
            if sight.history.terms.iter().any(|term| term.bid == bid.id) {
                return refused();
            }
            let done = match own {
                None => self.line_up(&sight, key, session, bid).await?,
                // What has a lower number than a term that was seen cannot lead any more: to the end of the queue.
                Some((_, entry, _)) if entry.created <= bid.floor.0 => {
                    self.transact(vec![If::Unchanged(key.clone(), entry.changed)], vec![Then::Delete(key)])
                        .await?
                }
                // The place of an earlier bid that never led.
                Some((_, entry, place)) if place.bid != bid.id => {
                    let place = Place { bid: bid.id, attempt: bid.attempt, ..(*place).clone() };
                    let put = Then::Put(key.clone(), Value::Place(place), Some(session));
                    self.transact(vec![If::Unchanged(key, entry.changed)], vec![put]).await?
                }
                Some((_, entry, place)) if self.may_lead(&sight, entry) => {
                    let claimed = Place {
                        attempt: bid.attempt,
                        claimed: true,
                        previous: sight.history.terms.last().cloned().map(Arc::new),
                        ..(*place).clone()
                    };
                    let lease = sight.lease(entry, &claimed);
                    match self.claim(&sight, key, entry, claimed).await? {
                        Done::Yes => return Ok(Acquisition::Acquired(lease)),
                        done => done,
                    }
                }
                Some(_) => return refused(),
            };
            if done == Done::NoSession {
                self.forget(session);
            }
        }
        Err(conflict("acquire"))
    }

    /// Returns the record as this process has to see it.
    fn view(&self, sight: &Sight<'_>) -> LeaseRecord {
        let mut view = sight.view(Some(&self.candidate));
        let first = sight.places.first().filter(|(_, _, place)| !place.claimed);
        if self.wrong == Some(Wrong::JumpsTheQueue)
            && (first.is_some_and(|(_, _, place)| place.candidate == self.candidate)
                || sight.kept_for.is_some_and(|(successor, _)| *successor == self.candidate))
        {
            // The first one's turn, and the successor's as well.
            view.state = RecordState::Free;
        }
        view
    }

    /// Tells whether the place is the first one, and not kept for somebody else.
    fn may_lead(&self, sight: &Sight<'_>, entry: &Entry<Value>) -> bool {
        let first = sight.places.first().is_some_and(|(_, first, _)| first.created == entry.created);
        let kept_for = sight.kept_for.map(|(candidate, _)| candidate);
        if self.wrong == Some(Wrong::JumpsTheQueue) {
            // The successor at once, and, as everybody else who uses this layout does, whoever is first.
            return first || kept_for == Some(&self.candidate);
        }
        first && kept_for.is_none_or(|successor| *successor == self.candidate)
    }

    async fn line_up(
        &self,
        sight: &Sight<'_>,
        key: String,
        session: SessionId,
        bid: &Bid,
    ) -> Result<Done, StoreError> {
        let place = Place {
            bid: bid.id,
            attempt: bid.attempt,
            candidate: bid.candidate.clone(),
            ttl: bid.ttl,
            claimed: false,
            renew_count: 0,
            previous: None,
        };
        let put = Then::Put(key.clone(), Value::Place(place), Some(session));
        // A bid whose term has ended meanwhile must not stand again.
        self.transact(vec![If::Absent(key), sight.no_term_since()], vec![put]).await
    }

    async fn claim(
        &self,
        sight: &Sight<'_>,
        key: String,
        entry: &Entry<Value>,
        claimed: Place,
    ) -> Result<Done, StoreError> {
        let mut history = sight.history.clone();
        if history.terms.len() > LAST_TERMS {
            history.terms.remove(0);
        }
        history.terms.push(Term {
            token: FencingToken(entry.created),
            bid: claimed.bid,
            candidate: claimed.candidate.clone(),
            identity: None,
            acquired_at_ms: 0,
            ended_at_ms: None,
            end: None,
            cool_down_ms: None,
        });
        let election = sight.election;
        let mut then = vec![
            Then::Put(key.clone(), Value::Place(claimed), entry.session),
            Then::Put(history_key(election), Value::History(history), None),
        ];
        if sight.kept_for.is_some_and(|(successor, _)| *successor == self.candidate) {
            then.push(Then::Delete(kept_key(election)));
        }
        self.transact(vec![If::Unchanged(key, entry.changed), sight.no_term_since()], then).await
    }

    async fn renew(&self, renewal: &Renew) -> Result<Renewal, StoreError> {
        let lease = &renewal.lease;
        self.note_asked(&lease.election, lease.bid);
        if let Some(renewed) = self.renew_wrongly(renewal).await? {
            return Ok(renewed);
        }
        for _ in 0..CONFLICTS {
            let snapshot = self.look().await?;
            let sight = Sight::new(&snapshot, &lease.election);
            let lost = || Ok(Renewal::Lost(Some(Box::new(self.view(&sight)))));
            let Some((key, entry, place)) = sight.of_token(lease.token) else { return lost() };
            let ours = [lease.attempt, renewal.attempt].contains(&place.attempt)
                || renewal.open.contains(&place.attempt);
            let Some(session) = entry.session.filter(|_| place.bid == lease.bid && place.claimed && ours)
            else {
                return lost();
            };
            if place.attempt == renewal.attempt {
                return Ok(Renewal::Renewed(sight.lease(entry, place), None));
            }
            if !self.keep_alive(session).await? {
                continue;
            }
            // After the session, and over the very key that was seen: nobody has removed it in between.
            let renewed =
                Place { attempt: renewal.attempt, renew_count: place.renew_count + 1, ..(*place).clone() };
            let answer = sight.lease(entry, &renewed);
            let put = Then::Put((*key).to_owned(), Value::Place(renewed), Some(session));
            let unchanged = If::Unchanged((*key).to_owned(), entry.changed);
            if self.transact(vec![unchanged], vec![put]).await? == Done::Yes {
                return Ok(Renewal::Renewed(answer, None));
            }
        }
        Err(conflict("renew"))
    }

    /// Renews as a wrong store does, without looking at the key.
    async fn renew_wrongly(&self, renewal: &Renew) -> Result<Option<Renewal>, StoreError> {
        let session = unpoisoned(&self.mine).session;
        let lives = match (self.wrong, session) {
            (Some(Wrong::TrustsOpenSession), Some(_)) => true,
            (Some(Wrong::RenewIsKeepAlive), Some(session)) => self.keep_alive(session).await?,
            _ => false,
        };
        let lease = Lease { attempt: renewal.attempt, ..renewal.lease.clone() };
        Ok(lives.then_some(Renewal::Renewed(lease, None)))
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let lease = &release.lease;
        for _ in 0..CONFLICTS {
            let snapshot = self.look().await?;
            let sight = Sight::new(&snapshot, &lease.election);
            if sight.history.release == Some(release.attempt) {
                return Ok(Released::Released);
            }
            let held = sight.of_token(lease.token).filter(|(_, _, place)| {
                let ours = place.attempt == lease.attempt || release.open.contains(&place.attempt);
                place.bid == lease.bid && place.claimed && ours
            });
            let Some((key, entry, _)) = held else { return Ok(Released::NotHeld) };
            let mut history = sight.history.clone();
            history.release = Some(release.attempt);
            for term in history.terms.iter_mut().filter(|term| term.bid == lease.bid) {
                term.end = Some(TermEnd::Released);
            }
            let mut then = vec![
                Then::Delete((*key).to_owned()),
                Then::Put(history_key(&lease.election), Value::History(history), None),
            ];
            if let Next::Successor { candidate, window } = &release.next {
                let place = sight.places.iter().position(|(_, _, place)| place.candidate == *candidate);
                if place.is_some_and(|place| place > 1) {
                    self.link.fault(fault::OUT_OF_ORDER);
                }
                let window = *window;
                let kept = self.call(true, move |server| server.open(window)).await?;
                then.push(Then::Put(
                    kept_key(&lease.election),
                    Value::KeptFor(candidate.clone()),
                    Some(kept),
                ));
            }
            let unchanged = If::Unchanged((*key).to_owned(), entry.changed);
            if self.transact(vec![unchanged, sight.no_term_since()], then).await? == Done::Yes {
                return Ok(Released::Released);
            }
        }
        Err(conflict("release"))
    }
}

#[async_trait]
impl LeaseStore for Queue {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.process.acquire(election, bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = Vec::new();
        for renewal in renewals {
            answers.push(self.process.renew(renewal).await);
        }
        answers
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.process.release(release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let snapshot = self.process.look().await?;
        Ok(Some(self.process.view(&Sight::new(&snapshot, election))))
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let (election, process) = (elections.first()?.clone(), Arc::clone(&self.process));
        let changes = self.process.link.watch(self.process.server.watch().map(Some).boxed(), || None);
        // Renewals pass in silence: nobody does anything about them, and there are many.
        let mut told = None;
        let changes = changes.filter_map(move |snapshot: Option<Snapshot<Value>>| {
            let change = match snapshot {
                None => Some(Change::Gap),
                Some(snapshot) => {
                    let view = process.view(&Sight::new(&snapshot, &election));
                    let bid = view.holder.as_ref().map(|holder| holder.bid);
                    let now = Some((view.state.clone(), view.token, bid));
                    let new = told != now;
                    told = now;
                    new.then(|| Change::Record(Box::new(view)))
                }
            };
            async move { change }
        });
        Some(Box::pin(changes))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "queue",
            scope: "the processes of one simulation".into(),
            linearizable: true,
            survives_restart: true,
            survives_failover: Some(true),
            clock: ExpiryClock::Store("a step ahead ends sessions early"),
            tokens: TokenOrder::Strict,
            min_ttl: Duration::from_millis(1),
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: vec!["exists only in the simulation"],
        }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}
