//! Keeps one lease alive: sends renewals, resolves their answers, and knows from which send trust counts.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Timing;
use super::alarm::Alarm;
use super::calls::Calls;
use crate::clock::Moment;
use crate::elections::{self, Shared, unanswered};
use crate::flaw::{Flaw, flawed};
use crate::name::Attempt;
use crate::store::{Answered, ControlRequest, ErrorKind, Lease, LeaseRecord, Renew, Renewal, StoreError};

/// Unanswered attempts that are remembered. An outage ends the lease long before there are more.
const OPEN: usize = 64;

/// Calls under way: beyond that, a store that hangs is asked once a ttl only.
const IN_FLIGHT: usize = 8;

/// After a failure the next attempt waits at least this long, so that a store that fails at once is not flooded.
const PAUSE: Duration = Duration::from_millis(5);

/// An attempt that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) attempt: Attempt,
    pub(crate) at: Moment,
}

/// What a renewal came to.
#[derive(Debug)]
pub(crate) enum Step {
    /// The lease lives on; the deadline may have moved.
    Renewed(Option<Box<ControlRequest>>),
    /// No outcome.
    Failed(StoreError),
    /// The lease is gone.
    Lost {
        /// Somebody with our own bid renewed it.
        cloned: bool,
        /// What was found instead.
        record: Option<Box<LeaseRecord>>,
    },
    /// The store was silent for so long that it must have freed the lease.
    Expired,
}

pub(crate) struct Renewer {
    pub(crate) lease: Lease,
    /// What to tell the store about an operator's request. Told with everything that follows: a renewal that was under
    /// way before does not carry it, and the store takes it once only.
    pub(crate) answer: Option<Box<Answered>>,
    timing: Arc<Timing>,
    /// The send of the attempt that the store is known to have applied last: trust counts from here.
    anchor: Moment,
    /// There is none most of the time: a leader waits for ten seconds, and for its answer some milliseconds.
    unsettled: Option<Box<Unsettled>>,
    due: Moment,
    last_send: Moment,
}

/// Renewals that were sent and of which something is not known yet, and whatever else makes a leader look.
struct Unsettled {
    /// Attempts whose effect is unknown, in the order of their sends.
    open: Vec<Sent>,
    in_flight: Calls<elections::Answer>,
    /// Until when the last one of `open` is waited for.
    awaited: Option<Moment>,
    /// Something was seen that does not fit: renew from here on. Kept apart from `due`, because a renewal that was under
    /// way by then may have been applied before, and its answer does not settle it.
    look_at: Option<Moment>,
}

impl Unsettled {
    /// With room for one: there are more only if the store does not answer.
    fn new() -> Self {
        Self { open: Vec::with_capacity(1), in_flight: Calls::for_one(), awaited: None, look_at: None }
    }

    fn is_settled(&self) -> bool {
        self.open.is_empty() && self.in_flight.is_empty() && self.look_at.is_none()
    }

    fn is_last(&self, attempt: Attempt) -> bool {
        self.open.last().is_some_and(|sent| sent.attempt == attempt)
    }
}

impl Renewer {
    /// Takes over a lease that was asked for at `sent`. `due_now`: the lease was found out late, renew at once.
    pub(crate) fn new(lease: Lease, sent: Moment, timing: Arc<Timing>, due_now: bool) -> Self {
        let due = if due_now { sent } else { sent.plus(timing.renew_interval) };
        Self { lease, answer: None, timing, anchor: sent, unsettled: None, due, last_send: sent }
    }

    /// When permission ends.
    pub(crate) fn deadline(&self) -> Moment {
        self.timing.deadline(self.anchor, self.lease.ttl)
    }

    /// When all work must have ended.
    pub(crate) fn must_stop(&self) -> Moment {
        self.timing.must_stop(self.anchor, self.lease.ttl)
    }

    /// When the store must have freed the lease, even if the last renewal that was sent took effect.
    pub(crate) fn surely_over(&self) -> Moment {
        self.timing.surely_over(self.last_send, self.lease.ttl)
    }

    /// How long there is still something to save: permission at first; after it, the lease under work that has not
    /// ended; after that, what an unanswered attempt may have made of it.
    fn left(&self, now: Moment) -> Duration {
        if flawed(Flaw::RenewalStorm) {
            return self.deadline().time_until(now);
        }
        let ends = [self.deadline(), self.anchor.plus(self.lease.ttl), self.surely_over()];
        ends.into_iter().map(|end| end.time_until(now)).find(|left| !left.is_zero()).unwrap_or_default()
    }

    /// Attempts that may be in the record without our knowing.
    pub(crate) fn open_attempts(&self) -> Vec<Attempt> {
        self.open().iter().map(|sent| sent.attempt).collect()
    }

    fn open(&self) -> &[Sent] {
        self.unsettled.as_ref().map_or(&[], |unsettled| &unsettled.open)
    }

    fn unsettled(&mut self) -> &mut Unsettled {
        self.unsettled.get_or_insert_with(|| Box::new(Unsettled::new()))
    }

    fn awaited(&self) -> Option<Moment> {
        self.unsettled.as_ref()?.awaited
    }

    /// Looks at the lease soon, by renewing it: something was seen that does not fit.
    pub(crate) fn look_soon(&mut self, now: Moment) {
        // Not more often than this, whatever is reported: a leader that looks all the time is its own outage.
        let soonest = self.last_send.plus(self.timing.latency).later_of(now);
        self.unsettled().look_at.get_or_insert(soonest);
    }

    fn next_send(&self) -> Moment {
        let look_at = self.unsettled.as_ref().and_then(|unsettled| unsettled.look_at);
        look_at.map_or(self.due, |look_at| look_at.earlier_of(self.due))
    }

    /// When this has something to do next. By the boot clock alone: no permission ends by it, and it is all that wakes
    /// an idle leader.
    pub(crate) fn next_turn(&self) -> Moment {
        self.awaited().unwrap_or_else(|| self.next_send()).by_boot()
    }

    /// Sends what is due and waits for the next answer. Everything is kept in `self`: dropping this and calling it
    /// again loses nothing.
    pub(crate) async fn step(&mut self, shared: &Shared) -> Step {
        let mut alarm = Alarm::default();
        poll_fn(|context| {
            loop {
                let next = self.next_turn();
                let due = alarm.poll(next, shared.clock.as_ref(), context).is_ready();
                if let Poll::Ready(step) = self.poll_step(due, shared, context) {
                    return Poll::Ready(step);
                }
                if !due && next == self.next_turn() {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Takes the next answer, or wakes the task when there is one; if this is its turn, sends what is due. The caller
    /// waits for [`next_turn`](Self::next_turn), which may be another one after this.
    pub(crate) fn poll_step(&mut self, due: bool, shared: &Shared, context: &mut Context<'_>) -> Poll<Step> {
        let now = shared.clock.now();
        if due && self.surely_over().has_passed(now) {
            return Poll::Ready(Step::Expired);
        }
        while let Some(unsettled) = &mut self.unsettled
            && let Poll::Ready(Some((attempt, answer))) = unsettled.in_flight.poll_next(context)
        {
            let unanswered = || Err(unanswered(shared.store.as_ref(), "renew"));
            let step = self.answered(attempt, answer.map_or_else(unanswered, |answer| *answer), shared);
            self.unsettled.take_if(|unsettled| unsettled.is_settled());
            if let Some(step) = step {
                return Poll::Ready(step);
            }
        }
        match self.awaited() {
            Some(until) if due && until.has_passed(now) => {
                // Given up waiting, not given up: its answer still counts when it comes.
                self.unsettled().awaited = None;
                self.due = now;
                return Poll::Ready(Step::Failed(self.no_answer(shared)));
            }
            None if due && self.next_send().has_passed(now) => self.send_if_few(shared, now),
            _ => {}
        }
        Poll::Pending
    }

    fn send_if_few(&mut self, shared: &Shared, now: Moment) {
        let in_flight = self.unsettled.as_ref().map_or(0, |unsettled| unsettled.in_flight.len());
        let long_ago = self.last_send.plus(self.timing.ttl).has_passed(now);
        if in_flight < IN_FLIGHT || long_ago || flawed(Flaw::RenewalStorm) {
            self.send(shared);
        } else {
            // Whatever there was to look at is looked at then.
            self.unsettled().look_at = None;
            self.due = now.plus(self.timing.call_timeout);
        }
    }

    fn send(&mut self, shared: &Shared) {
        let attempt = Attempt::new(&shared.random);
        // Before anything leaves: trust starts at the send.
        let sent = shared.clock.now();
        let open = self.open_attempts();
        // Whoever tries again has little time and no use for company.
        let alone = !open.is_empty();
        let answer = self.answer.as_deref().cloned();
        let renewal = Renew { lease: self.lease.clone(), attempt, open, answer };
        let receiver = shared.renewals().submit(renewal, alone);
        let awaited = sent.plus(self.timing.attempt_timeout(self.left(sent)));
        let unsettled = self.unsettled();
        if unsettled.open.len() == OPEN {
            unsettled.open.remove(0);
        }
        unsettled.open.push(Sent { attempt, at: sent });
        unsettled.in_flight.push(attempt, receiver);
        unsettled.awaited = Some(awaited);
        unsettled.look_at = None;
        self.last_send = sent;
    }

    fn answered(
        &mut self,
        attempt: Attempt,
        answer: Result<Renewal, StoreError>,
        shared: &Shared,
    ) -> Option<Step> {
        // An answer to an attempt that a later one has overtaken says nothing any more.
        let place = self.open().iter().position(|sent| sent.attempt == attempt)?;
        match answer {
            Ok(Renewal::Renewed(lease, request)) => {
                self.renewed(lease, place, shared.clock.now());
                Some(Step::Renewed(request))
            }
            Ok(Renewal::Lost(record)) => self.lost(attempt, place, record),
            Err(error) => {
                if self.is_answered(attempt, place, error.kind().is_definite()) {
                    let now = shared.clock.now();
                    let pause = self.timing.retry_interval.min(self.left(now) / 4).max(PAUSE);
                    self.due = now.plus(pause);
                }
                Some(Step::Failed(error))
            }
        }
    }

    /// Notes that an attempt has its answer, and if that is `definite`, that it took no effect. Tells whether it is the
    /// one that was waited for.
    fn is_answered(&mut self, attempt: Attempt, place: usize, definite: bool) -> bool {
        let Some(unsettled) = &mut self.unsettled else { return false };
        let awaited = unsettled.awaited.is_some() && unsettled.is_last(attempt);
        if awaited {
            unsettled.awaited = None;
        }
        if definite {
            unsettled.open.remove(place);
        }
        awaited
    }

    fn renewed(&mut self, lease: Lease, answered: usize, now: Moment) {
        // Trust counts from the send of the attempt that was applied; if that cannot be told, from the earliest that
        // may have been. Where some were forgotten that is not known either: then trust does not move.
        let open = self.open();
        let applied = open.iter().position(|sent| sent.attempt == lease.attempt);
        let at = match applied {
            Some(place) => open[place].at,
            None if open.len() < OPEN => open[0].at,
            None => self.anchor,
        };
        let at = if flawed(Flaw::ReplyAnchoredDeadline) { now } else { at };
        self.anchor = self.anchor.later_of(at);
        if let Some(unsettled) = &mut self.unsettled {
            // What was sent before the applied attempt can take effect no more: its nonce is not the last one.
            unsettled.open.drain(..=applied.unwrap_or(answered).max(answered));
            if unsettled.open.is_empty() {
                unsettled.awaited = None;
            }
        }
        self.lease = lease;
        self.due = at.plus(self.timing.renew_interval).later_of(now);
    }

    fn lost(&mut self, attempt: Attempt, place: usize, record: Option<Box<LeaseRecord>>) -> Option<Step> {
        let own = record.as_ref().and_then(|record| record.lease_of(self.lease.bid));
        let own = own.filter(|own| own.token == self.lease.token);
        if let Some(own) = &own
            && self.open().iter().any(|sent| sent.attempt == own.attempt && sent.attempt != attempt)
        {
            // A later attempt of ours overtook this one; its own answer counts.
            self.is_answered(attempt, place, true);
            return None;
        }
        Some(Step::Lost { cloned: own.is_some(), record })
    }

    fn no_answer(&self, shared: &Shared) -> StoreError {
        let message = format!("no answer for election {:?} in time", self.lease.election.as_str());
        StoreError::new(ErrorKind::Timeout, shared.store.guarantees().store, "renew", message)
    }
}
