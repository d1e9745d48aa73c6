//! Standing by: bidding, resolving what became of bids, and waiting for an opening.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::calls::Calls;
use super::leader::{Reign, next_change};
use super::release::{Releasing, late_acquisition, unwanted, wait_one_call, withdraw};
use super::renewer::{Renewer, Sent, Step};
use super::{EventKind, Limit, Worker};
use crate::clock::Moment;
use crate::elections::{spawn_call, unanswered};
use crate::flaw::{Flaw, flawed};
use crate::name::{Attempt, BidId};
use crate::store::{
    Acquisition, Bid, Change, ErrorKind, Lease, LeaseRecord, LeaseStore, Next, Origin, RecordState,
    StoreError, Wake,
};
use crate::token::FencingToken;

/// How a campaign ended.
pub(crate) enum Campaign {
    Won(Box<Reign>),
    /// Stopped, or its limit is reached.
    Ended,
}

/// Followers that wait for the same moment spread over this: far below a person's notice, enough to part a crowd.
const JITTER: Duration = Duration::from_millis(50);

/// Where they hear of it when one of them has won, this is enough: most of them never get to ask.
const JITTER_HEARING: Duration = Duration::from_millis(15);

/// The first wait after an error; it doubles up to the retry interval.
const PAUSE: Duration = Duration::from_millis(20);

/// Unanswered attempts that a bid names. One that is forgotten and turns up all the same is dated by the bid's first.
const OPEN: usize = 64;

/// Unanswered calls of one bid: beyond that, a store that hangs is asked once a ttl only.
const IN_FLIGHT: usize = 8;

/// One wish to lead and what is known of it.
struct Bidding {
    id: BidId,
    floor: FencingToken,
    /// The lease of an earlier process of ours that this bid may replace.
    supersedes: Option<BidId>,
    /// Attempts whose effect is unknown, in the order of their sends.
    open: Vec<Sent>,
    in_flight: Calls<Result<Acquisition, StoreError>>,
    first_send: Moment,
    last_send: Moment,
    /// The term that was begun with it: an answer that comes later says nothing new about that one.
    led: Arc<OnceLock<FencingToken>>,
}

/// What a bid came to.
enum Outcome {
    /// The store granted it, by the attempt that was sent at `sent`; `late`: not by the attempt that was answered.
    Acquired {
        lease: Lease,
        sent: Moment,
        late: bool,
    },
    Refused(Box<LeaseRecord>),
    Failed(StoreError),
}

/// Why a wait is over.
enum Woken {
    /// It is time to bid.
    Bid,
    /// An earlier attempt was answered after all.
    Answered(Outcome),
    /// Stopped, or the limit is reached.
    Ended,
}

/// What to wait for.
enum Until {
    Opening(Box<LeaseRecord>),
    Moment(Moment),
}

impl Worker {
    /// Bids until this candidate leads, is stopped, or reaches its limit.
    pub(crate) async fn campaign(&mut self) -> Campaign {
        if let Some(rest) = self.rest.take() {
            let (mut nothing, until) = (self.new_bidding(), self.shared.clock.now().plus(rest));
            if let Woken::Ended = self.wait(Until::Moment(until), &mut nothing, None).await {
                return Campaign::Ended;
            }
        }
        let limit = self.limit_moment();
        // Nobody would wait for the answer.
        if limit.is_some_and(|limit| limit.has_passed(self.shared.clock.now())) {
            return Campaign::Ended;
        }
        let mut bidding = self.new_bidding();
        let (mut attempts, mut failures) = (1, 0);
        let mut woken = Woken::Bid;
        loop {
            let outcome = match woken {
                Woken::Ended => return self.withdraw(bidding).await,
                Woken::Answered(outcome) => outcome,
                Woken::Bid => {
                    self.board.status.change(|status| status.attempts = attempts);
                    match self.bid(&mut bidding, limit).await {
                        Some(outcome) => outcome,
                        None => return self.withdraw(bidding).await,
                    }
                }
            };
            woken = match outcome {
                Outcome::Acquired { lease, sent, late } => {
                    self.store_answered();
                    if let Some(reign) = self.assume(&bidding, lease, sent, late, attempts).await {
                        return Campaign::Won(Box::new(reign));
                    }
                    // Spent: a release for it was sent.
                    bidding = self.new_bidding();
                    attempts += 1;
                    if self.stopping {
                        Woken::Ended
                    } else {
                        // A store that grants what cannot be led is not asked without a break.
                        self.wait(Until::Moment(self.pause_after(&mut failures)), &mut bidding, limit).await
                    }
                }
                Outcome::Refused(record) => {
                    self.store_answered();
                    self.note(&record, Some(bidding.id));
                    failures = 0;
                    if flawed(Flaw::GhostLed)
                        && let Some(ghost) =
                            record.leader().filter(|holder| holder.candidate == self.shared.candidate)
                        && let Some(lease) = record.lease_of(ghost.bid)
                    {
                        let renewer =
                            Renewer::new(lease, self.shared.clock.now(), Arc::clone(&self.timing), true);
                        return Campaign::Won(Box::new(self.begin_term(renewer, attempts)));
                    }
                    if let Some(predecessor) = self.predecessor(&record, &bidding) {
                        let next = Bidding { supersedes: Some(predecessor), ..self.new_bidding() };
                        self.leave_behind(std::mem::replace(&mut bidding, next));
                        attempts += 1;
                        woken = Woken::Bid;
                        continue;
                    }
                    let spent = bidding.is_spent(&record);
                    if matches!(self.callbacks.limit, Limit::Try) && !spent {
                        return self.withdraw(bidding).await;
                    }
                    let woken = if spent {
                        Woken::Bid
                    } else {
                        self.wait(Until::Opening(record), &mut bidding, limit).await
                    };
                    // A bid with unknown attempts is repeated, so that what it may have won is found out.
                    if matches!(woken, Woken::Bid) && (spent || bidding.open.is_empty()) {
                        self.leave_behind(std::mem::replace(&mut bidding, self.new_bidding()));
                        attempts += 1;
                    }
                    woken
                }
                Outcome::Failed(error) => {
                    // A definite error is an answer, too, for whoever tries once.
                    let answered = error.kind().is_definite() && matches!(self.callbacks.limit, Limit::Try);
                    self.bid_failed(error);
                    if answered {
                        return self.withdraw(bidding).await;
                    }
                    if flawed(Flaw::GivesUpOnError) {
                        return Campaign::Ended;
                    }
                    self.wait(Until::Moment(self.pause_after(&mut failures)), &mut bidding, limit).await
                }
            };
        }
    }

    /// Returns the bid of an earlier process with our stable identity that is certainly gone, if it holds the lease and
    /// was not bid against already.
    fn predecessor(&self, record: &LeaseRecord, bidding: &Bidding) -> Option<BidId> {
        let holder = record.leader().filter(|holder| holder.bid != bidding.id)?;
        let ours = self.shared.identity.as_ref().is_some_and(|stable| stable.was_ours(holder));
        let new = bidding.supersedes != Some(holder.bid);
        (ours && new).then_some(holder.bid)
    }

    /// When to try again after so many failures in a row.
    fn pause_after(&self, failures: &mut u32) -> Moment {
        let pause = PAUSE.saturating_mul(1 << (*failures).min(16)).min(self.timing.retry_interval);
        *failures += 1;
        self.shared.clock.now().plus(pause + self.shared.random.up_to(pause / 4))
    }

    fn limit_moment(&self) -> Option<Moment> {
        match self.callbacks.limit {
            Limit::Never => None,
            Limit::Until(moment) => Some(moment),
            // Time for a first answer and, if that is lost, for a second.
            Limit::Try => Some(self.shared.clock.now().plus(self.timing.call_timeout * 2)),
        }
    }

    fn new_bidding(&self) -> Bidding {
        Bidding {
            id: BidId::new(&self.shared.random),
            floor: self.seen,
            supersedes: None,
            open: Vec::new(),
            in_flight: Calls::new(),
            first_send: self.shared.clock.now(),
            last_send: self.shared.clock.now(),
            led: Arc::default(),
        }
    }

    /// Sends one attempt and waits for an answer, for one call's time; `None` if stopped.
    async fn bid(&mut self, bidding: &mut Bidding, limit: Option<Moment>) -> Option<Outcome> {
        // Before the bid: a change between its answer and the watch would go unnoticed.
        if self.changes.is_none() {
            self.changes = self.shared.store.watch(std::slice::from_ref(&self.board.election));
        }
        // Calls may hang for ever: once a ttl one more is sent all the same, or a store that came back would not be noticed.
        // None is forgotten while the bid lives: an answer that nobody waits for gives its lease back, and that may be the
        // one which another answer of the same bid is about to be led with.
        let long_ago = bidding.last_send.plus(self.timing.ttl).has_passed(self.shared.clock.now());
        if bidding.in_flight.len() < IN_FLIGHT || long_ago {
            self.send(bidding);
        }
        let clock = Arc::clone(&self.shared.clock);
        let give_up = clock.now().plus(self.timing.call_timeout);
        self.turn(give_up);
        loop {
            tokio::select! {
                biased;
                command = self.board.commands.recv() => {
                    self.obey_as_follower(command);
                    if self.stopping {
                        return None;
                    }
                }
                Some(answered) = bidding.in_flight.next(), if !bidding.in_flight.is_empty() => {
                    return Some(self.resolve(bidding, answered));
                }
                () = clock.sleep_until(give_up.by_boot()) => {
                    let store = self.shared.store.guarantees().store;
                    let message = format!("no answer for election {:?} in time", self.board.election.as_str());
                    return Some(Outcome::Failed(StoreError::new(ErrorKind::Timeout, store, "acquire", message)));
                }
                () = clock.sleep_until(limit.unwrap_or(Moment::FAR)), if limit.is_some() => return None,
            }
        }
    }

    fn send(&self, bidding: &mut Bidding) {
        let shared = &self.shared;
        let attempt = Attempt::new(&shared.random);
        let bid = Bid {
            id: bidding.id,
            attempt,
            open: bidding.open.iter().map(|sent| sent.attempt).collect(),
            candidate: shared.candidate.clone(),
            identity: shared.identity.as_ref().map(|stable| stable.identity().clone()),
            origin: shared.identity.as_ref().map_or_else(Origin::default, |stable| stable.origin().clone()),
            ttl: self.timing.ttl,
            metadata: shared.metadata.clone(),
            floor: bidding.floor,
            supersedes: bidding.supersedes,
        };
        // Before anything leaves: trust starts at the send.
        let at = shared.clock.now();
        let (store, election) = (Arc::clone(&shared.store), self.board.election.clone());
        let (late_shared, board, timing) =
            (Arc::clone(shared), Arc::clone(&self.board), Arc::clone(&self.timing));
        let led = Arc::clone(&bidding.led);
        let receiver = spawn_call(async move { store.acquire(&election, &bid).await }, move |answer| {
            late_acquisition(&late_shared, &board, &timing, led.get().copied(), answer);
        });
        // What is neither under way nor young enough to hold a lease can have won nothing that is left.
        bidding.open.retain(|sent| {
            bidding.in_flight.contains(sent.attempt)
                || !self.timing.surely_over(sent.at, self.timing.ttl).has_passed(at)
        });
        if bidding.open.len() == OPEN {
            bidding.open.remove(0);
        }
        bidding.open.push(Sent { attempt, at });
        bidding.in_flight.push(attempt, receiver);
        bidding.last_send = at;
    }

    fn resolve(&self, bidding: &mut Bidding, (attempt, answer): Answered) -> Outcome {
        let answer = answer.unwrap_or_else(|| Err(unanswered(self.shared.store.as_ref(), "acquire")));
        match answer {
            Ok(Acquisition::Acquired(lease)) => {
                // Trust counts from the send of the attempt that was applied; if that cannot be told, from the bid's
                // first: a copy of an attempt that was refused may have been applied after all.
                let applied = bidding.open.iter().find(|sent| sent.attempt == lease.attempt);
                let sent = applied.map_or(bidding.first_send, |sent| sent.at);
                let sent = if flawed(Flaw::RetryAnchoredDeadline) { bidding.last_send } else { sent };
                let late = lease.attempt != attempt;
                Outcome::Acquired { lease, sent, late }
            }
            Ok(Acquisition::Refused(record)) => {
                bidding.open.retain(|sent| sent.attempt != attempt);
                Outcome::Refused(record)
            }
            Err(error) => {
                if error.kind().is_definite() {
                    bidding.open.retain(|sent| sent.attempt != attempt);
                }
                Outcome::Failed(error)
            }
        }
    }

    fn bid_failed(&self, error: StoreError) {
        tracing::warn!(election = %self.board.election, %error, "bid failed");
        self.store_failed(&error);
        self.publish(EventKind::BidFailed { error });
    }

    /// Begins the term of a granted bid, if it can still be led; else gives it back.
    async fn assume(
        &mut self,
        bidding: &Bidding,
        lease: Lease,
        sent: Moment,
        late: bool,
        attempts: u32,
    ) -> Option<Reign> {
        let token = lease.token;
        let sent = if flawed(Flaw::LateAcquireLedOn) { self.shared.clock.now() } else { sent };
        let mut renewer = Renewer::new(lease, sent, Arc::clone(&self.timing), late);
        // A store that lost data may grant a number that the resource has seen already.
        let fresh = (token > bidding.floor && token > self.seen) || flawed(Flaw::OldTokenLed);
        if !fresh {
            tracing::warn!(election = %self.board.election, %token, seen = %self.seen, "granted an old token");
        }
        if fresh && (self.is_ahead(&renewer) || self.renew_once(&mut renewer).await) {
            // Set once per bid: this is the only place, and the bid goes with it.
            if !flawed(Flaw::LateAnswerReleases) {
                bidding.led.get_or_init(|| token);
            }
            return Some(self.begin_term(renewer, attempts));
        }
        self.seen = self.seen.max(token);
        self.releasing(&renewer).send().await;
        None
    }

    fn is_ahead(&self, renewer: &Renewer) -> bool {
        !renewer.deadline().has_passed(self.shared.clock.now())
    }

    /// The answer came after its own deadline: one renewal decides whether the lease can be led.
    async fn renew_once(&mut self, renewer: &mut Renewer) -> bool {
        renewer.look_soon(self.shared.clock.now());
        loop {
            tokio::select! {
                biased;
                command = self.board.commands.recv() => {
                    self.obey_as_follower(command);
                    if self.stopping {
                        return false;
                    }
                }
                step = renewer.step(&self.shared) => match step {
                    Step::Renewed(_) => return self.is_ahead(renewer),
                    Step::Failed(_) | Step::Lost { .. } | Step::Expired => return false,
                },
            }
        }
    }

    fn releasing(&self, renewer: &Renewer) -> Releasing {
        Releasing {
            shared: Arc::clone(&self.shared),
            board: Arc::clone(&self.board),
            timing: Arc::clone(&self.timing),
            lease: renewer.lease.clone(),
            open: renewer.open_attempts(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
            // The grant was heard of just now, and may have been made just now, however long ago it was asked for.
            until: self.timing.surely_over(self.shared.clock.now(), renewer.lease.ttl),
        }
    }

    /// Sleeps until there is something to do.
    async fn wait(&mut self, until: Until, bidding: &mut Bidding, limit: Option<Moment>) -> Woken {
        let clock = Arc::clone(&self.shared.clock);
        let watching = matches!(until, Until::Opening(_));
        let mut wake_at = match until {
            Until::Moment(moment) => moment,
            Until::Opening(record) => self.opening(&record),
        };
        loop {
            self.turn(wake_at);
            tokio::select! {
                biased;
                command = self.board.commands.recv() => {
                    self.obey_as_follower(command);
                    if self.stopping {
                        return Woken::Ended;
                    }
                }
                Some(answered) = bidding.in_flight.next(), if !bidding.in_flight.is_empty() => {
                    let outcome = self.resolve(bidding, answered);
                    if let Outcome::Acquired { .. } = outcome {
                        return Woken::Answered(outcome);
                    }
                }
                change = next_change(&mut self.changes), if watching => match change {
                    Some(Change::Record(record)) => {
                        self.note(&record, Some(bidding.id));
                        if self.is_open_to_us(&record, bidding) {
                            return Woken::Bid;
                        }
                        wake_at = self.opening(&record);
                    }
                    // Soon, not at once: a watch that breaks all the time must not make us bid all the time.
                    Some(Change::Gap) => {
                        let soon = bidding.last_send.plus(PAUSE).later_of(clock.now());
                        wake_at = wake_at.earlier_of(soon);
                    }
                    // Nobody wakes us any more: look from time to time, and watch again with the next bid.
                    None => wake_at = wake_at.earlier_of(clock.now().plus(self.timing.retry_interval)),
                },
                () = clock.sleep_until(wake_at.by_boot()) => return Woken::Bid,
                () = clock.sleep_until(limit.unwrap_or(Moment::FAR)), if limit.is_some() => return Woken::Ended,
            }
        }
    }

    fn is_open_to_us(&self, record: &LeaseRecord, bidding: &Bidding) -> bool {
        match &record.state {
            RecordState::Free => true,
            RecordState::Reserved { successor } => successor.as_ref() == Some(&self.shared.candidate),
            // Our own bid in the record: an answer that was lost. Repeating the bid finds it.
            RecordState::Held => record.holder.as_ref().is_some_and(|holder| holder.bid == bidding.id),
            RecordState::Paused | RecordState::Recovering => false,
        }
    }

    /// When to bid again if nothing wakes us earlier. The answer has just arrived: distrust starts at the reply.
    fn opening(&self, record: &LeaseRecord) -> Moment {
        let now = self.shared.clock.now();
        let hears = self.shared.wake == Wake::Push && self.changes.is_some();
        let spread = if hears { JITTER_HEARING } else { JITTER };
        let jitter = self.shared.random.up_to(spread.min(self.timing.retry_interval));
        let opens = record.opens_in.map(|opens_in| now.plus(opens_in.max(PAUSE)).plus(jitter));
        let look = match self.shared.wake {
            Wake::Push if hears => None,
            Wake::Push => Some(self.timing.retry_interval),
            // A store that names no interval is not asked without a break.
            Wake::Look(interval) => Some(interval.max(PAUSE).min(self.timing.retry_interval)),
        };
        // Earlier, not later: within the interval is the promise.
        let look = look.map(|interval| now.plus(interval - self.shared.random.up_to(interval / 8)));
        match (opens, look) {
            (Some(opens), Some(look)) => opens.earlier_of(look),
            (Some(moment), None) | (None, Some(moment)) => moment,
            (None, None) => now.plus(self.timing.retry_interval),
        }
    }

    /// Ends a campaign without a term: gives back what the bid may have won, and waits for it for one call's time.
    async fn withdraw(&mut self, bidding: Bidding) -> Campaign {
        if let Some(task) = self.leave_behind(bidding) {
            wait_one_call(Arc::clone(&self.shared.clock), self.timing.call_timeout, task).await;
        }
        Campaign::Ended
    }

    /// Cleans up after a bid in the background, if there is anything unknown about it.
    fn leave_behind(&self, mut bidding: Bidding) -> Option<tokio::task::JoinHandle<()>> {
        if bidding.open.is_empty() || flawed(Flaw::StopForgetsBids) {
            return None;
        }
        let (shared, board) = (Arc::clone(&self.shared), Arc::clone(&self.board));
        let (timing, election) = (Arc::clone(&self.timing), self.board.election.clone());
        Some(tokio::spawn(async move {
            // An attempt that hangs must not keep us from looking for what another one won; its own answer is taken in
            // `late_acquisition` then.
            let give_up = bidding.last_send.plus(timing.call_timeout);
            loop {
                let answered = tokio::select! {
                    biased;
                    answered = bidding.in_flight.next() => answered,
                    () = shared.clock.sleep_until(give_up) => None,
                };
                let Some((attempt, answer)) = answered else { break };
                match answer {
                    Some(Ok(Acquisition::Acquired(lease))) => {
                        unwanted(&shared, &board, &timing, lease).run().await;
                        return;
                    }
                    Some(Ok(Acquisition::Refused(_))) => bidding.open.retain(|sent| sent.attempt != attempt),
                    Some(Err(error)) if error.kind().is_definite() => {
                        bidding.open.retain(|sent| sent.attempt != attempt);
                    }
                    Some(Err(_)) | None => {}
                }
            }
            let (id, last_send, resolved) = (bidding.id, bidding.last_send, bidding.open.is_empty());
            // Nobody waits for what is still in flight: from here on it cleans up after itself.
            drop(bidding);
            if !resolved {
                withdraw(shared, board, timing, election, id, last_send).await;
            }
        }))
    }
}

impl Bidding {
    /// Tells whether the record shows that this bid can win no more: its term has ended.
    fn is_spent(&self, record: &LeaseRecord) -> bool {
        let held = record.holder.as_ref().is_some_and(|holder| holder.bid == self.id);
        (held && record.state != RecordState::Held)
            || record.last_terms.iter().any(|term| term.bid == self.id)
    }
}

type Answered = (Attempt, Option<Result<Acquisition, StoreError>>);
