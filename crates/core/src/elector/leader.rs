//! Leading: holding the lease while there is permission, and ending the term in order.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;

use super::alarm::Alarm;
use super::callbacks::{Ending, Failed, Work};
use super::handle::{Command, CommandError, Finish};
use super::leadership::{Permit, TermState};
use super::release::Releasing;
use super::renewer::{Renewer, Step};
use super::settings::{OnElectedFailure, OnOverrun};
use super::{ElectorState, EndReason, EventKind, Worker};
use crate::clock::Moment;
use crate::flaw::{Flaw, flawed};
use crate::name::RequestId;
use crate::store::{
    Action, Answer, Answered, Change, Changes, ControlRequest, LeaseRecord, Next, Released, Wake,
};

/// One term, from the answer that granted it to the release.
pub(crate) struct Reign {
    pub(crate) term: Arc<TermState>,
    pub(crate) renewer: Renewer,
    work: Work,
    alarm: Alarm,
    began: Moment,
    /// Whoever asked for the end of the term and wants to hear of it.
    asked: Option<oneshot::Sender<Result<(), CommandError>>>,
    /// How the work ended, if whoever did it said so.
    finish: Option<Box<Finish>>,
    /// The last operator's request that was taken up.
    request: Option<RequestId>,
}

impl Drop for Reign {
    fn drop(&mut self) {
        // Also when the loop is dropped with its runtime: no permission outlives whoever renews it.
        self.term.cancel();
    }
}

impl Worker {
    /// Begins a term: from here on there is permission.
    pub(crate) fn begin_term(&mut self, renewer: Renewer, attempts: u32) -> Reign {
        let lease = &renewer.lease;
        let term = TermState::new(Arc::clone(&self.shared.clock), lease, attempts, renewer.deadline());
        let token = lease.token;
        self.board.status.change(|status| {
            // That of the term before has ended for good.
            status.permit = Some(Permit::of(&term));
            status.state = ElectorState::Leading;
            status.failed_callback = None;
            status.leader = Some(self.shared.candidate.clone());
            status.token = token;
            status.attempts = attempts;
            status.terms += 1;
            status.renewals = lease.renew_count;
            status.renew_total = lease.renew_total;
        });
        tracing::info!(election = %self.board.election, candidate = %self.shared.candidate, %token, attempts, "elected");
        self.leads = true;
        self.shared.renewals().leader_added();
        // Told first, called second: whoever works may count on having been announced.
        self.publish(EventKind::Elected { token, attempts });
        let work = Work::begin(&self.callbacks, &term);
        let began = self.shared.clock.now();
        Reign {
            term,
            renewer,
            work,
            alarm: Alarm::default(),
            began,
            asked: None,
            finish: None,
            request: None,
        }
    }

    /// Leads until there is a reason not to.
    pub(crate) fn hold(&mut self, reign: &mut Reign) -> impl Future<Output = EndReason> {
        poll_fn(|context| self.poll_hold(reign, context))
    }

    /// Takes what comes, the safety branch first, until everything waits. By hand, and with one alarm for the deadline
    /// and the next renewal, because this is where a hundred thousand electors of a process stand.
    fn poll_hold(&mut self, reign: &mut Reign, context: &mut Context<'_>) -> Poll<EndReason> {
        loop {
            let deadline = reign.renewer.deadline();
            self.turn(deadline);
            let until = if flawed(Flaw::PermissionWithoutLatch) { Moment::FAR } else { deadline };
            let next = until.earlier_of(reign.renewer.next_turn());
            let woken = reign.alarm.poll(next, self.shared.clock.as_ref(), context).is_ready();
            if woken && until.has_passed(self.shared.clock.now()) {
                return Poll::Ready(EndReason::DeadlinePassed);
            }
            let reason = if let Poll::Ready(command) = self.board.commands.poll_next(context) {
                self.obey_as_leader(command, reign)
            } else if let Poll::Ready(over) = reign.work.poll_elected_over(context) {
                self.elected_over(over, reign)
            } else if self.callbacks.ends_with_last_drop && reign.term.poll_work_ended(context).is_ready() {
                Some(EndReason::WorkEnded)
            } else if let Poll::Ready(change) = poll_change(&mut self.changes, context) {
                self.look_at(change, reign)
            } else if let Poll::Ready(step) = reign.renewer.poll_step(woken, &self.shared, context) {
                self.took_step(step, reign)
            } else if woken || next != until.earlier_of(reign.renewer.next_turn()) {
                // Something was sent or given up: the alarm is to be set anew.
                None
            } else {
                return Poll::Pending;
            };
            if let Some(reason) = reason {
                return Poll::Ready(reason);
            }
        }
    }

    fn obey_as_leader(&mut self, command: Command, reign: &mut Reign) -> Option<EndReason> {
        match command {
            Command::Stop => {
                self.stopping = true;
                Some(EndReason::Stopped)
            }
            Command::Resign { pause, reply } => {
                reign.asked = Some(reply);
                self.rest_for(pause.unwrap_or(self.timing.retry_interval));
                Some(EndReason::Resigned)
            }
            Command::Finish { finish, reply } => {
                reign.asked = Some(reply);
                self.rest_for(finish.pause);
                reign.finish = Some(Box::new(finish));
                Some(EndReason::WorkEnded)
            }
            Command::HandOff { to, reply } if to == self.shared.candidate => {
                // Whoever asked may be gone.
                drop(reply.send(Err(CommandError::OwnSuccessor(to))));
                None
            }
            Command::HandOff { to, reply } => {
                reign.asked = Some(reply);
                Some(EndReason::HandedOff { to })
            }
        }
    }

    /// Does not stand again before `pause` after the end of the term; of several reasons the longest counts.
    pub(crate) fn rest_for(&mut self, pause: Duration) {
        self.rest = self.rest.max(Some(pause));
    }

    fn elected_over(&mut self, over: Result<(), Failed>, reign: &Reign) -> Option<EndReason> {
        if let Err(failed) = over {
            self.callback_failed(failed, reign);
            if self.callbacks.ends_term || self.timing.on_elected_failure == OnElectedFailure::Resign {
                self.rest_for(self.timing.retry_interval);
                return Some(EndReason::CallbackFailed);
            }
        }
        self.callbacks.ends_term.then_some(EndReason::WorkEnded)
    }

    fn callback_failed(&self, failed: Failed, reign: &Reign) {
        self.board.status.change(|status| status.failed_callback = Some(Box::new(failed.clone())));
        let (token, Failed { callback, error }) = (reign.term.token, failed);
        tracing::error!(election = %self.board.election, %token, callback, error, "callback failed");
        self.publish(EventKind::CallbackFailed { token, callback, error });
    }

    /// Takes in what a watch reports. Only a record with a higher token ends the term; whatever else does not fit makes
    /// the leader look, by renewing.
    fn look_at(&mut self, change: Option<Change>, reign: &mut Reign) -> Option<EndReason> {
        let now = self.shared.clock.now();
        let Some(Change::Record(record)) = change else {
            reign.renewer.look_soon(now);
            return None;
        };
        if record.token > reign.term.token {
            self.note(&record, None);
            return Some(EndReason::Lost);
        }
        let ours = record.leader().is_some_and(|holder| holder.bid == reign.renewer.lease.bid);
        if !ours {
            // Maybe an old message, maybe the truth: the store's answer to a renewal decides.
            if record.token == reign.term.token {
                reign.renewer.look_soon(now);
            }
            return None;
        }
        record.request.as_ref().and_then(|request| self.take_up(request, reign))
    }

    fn took_step(&mut self, step: Step, reign: &mut Reign) -> Option<EndReason> {
        match step {
            Step::Renewed(request) => {
                self.renewed(reign);
                // Refused by the latch: somebody has seen the deadline pass, and there is no way back.
                if !reign.term.permission.raise(reign.renewer.deadline()) {
                    return Some(EndReason::DeadlinePassed);
                }
                request.and_then(|request| self.take_up(&request, reign))
            }
            Step::Failed(error) => {
                self.renew_failed(error, reign);
                None
            }
            Step::Lost { cloned, record } => {
                self.lost(cloned, record.as_deref(), reign);
                Some(EndReason::Lost)
            }
            Step::Expired => Some(EndReason::DeadlinePassed),
        }
    }

    fn renewed(&self, reign: &Reign) {
        self.store_answered();
        let lease = &reign.renewer.lease;
        let (count, total) = (lease.renew_count, lease.renew_total);
        self.board.status.change(|status| {
            status.renewals = count;
            status.renew_total = total;
        });
        // Powers of two only: a term of a week renews sixty thousand times.
        if count.is_power_of_two() {
            tracing::debug!(election = %self.board.election, token = %lease.token, count, "renewed");
        }
    }

    fn renew_failed(&self, error: crate::store::StoreError, reign: &Reign) {
        self.store_failed(&error);
        let (token, left) = (reign.term.token, reign.renewer.deadline().time_until(self.shared.clock.now()));
        tracing::warn!(election = %self.board.election, %token, %error, ?left, "renewal failed");
        self.publish(EventKind::RenewFailed { token, error, left });
    }

    fn lost(&mut self, cloned: bool, record: Option<&LeaseRecord>, reign: &Reign) {
        self.store_answered();
        if cloned {
            tracing::error!(election = %self.board.election, token = %reign.term.token, "somebody else renews this lease");
            self.publish(EventKind::IdentityShared { token: reign.term.token });
        }
        if let Some(record) = record {
            self.note(record, Some(reign.renewer.lease.bid));
        }
    }

    /// Takes up an operator's request, once.
    fn take_up(&mut self, request: &ControlRequest, reign: &mut Reign) -> Option<EndReason> {
        if request.token != reign.term.token || reign.request == Some(request.id) {
            return None;
        }
        reign.request = Some(request.id);
        self.publish(EventKind::Requested { token: request.token, id: request.id });
        let reason = match &request.action {
            Action::Resign => {
                self.rest_for(self.timing.retry_interval);
                EndReason::Resigned
            }
            Action::HandOff { to } if *to == self.shared.candidate => {
                let why = format!("{to} leads already");
                reign.renewer.answer =
                    Some(Box::new(Answered { id: request.id, answer: Answer::Refused(why) }));
                reign.renewer.look_soon(self.shared.clock.now());
                return None;
            }
            Action::HandOff { to } => EndReason::HandedOff { to: to.clone() },
        };
        // Answered with the release, in one step with what was asked: until then nothing is done.
        reign.renewer.answer = None;
        Some(reason)
    }

    /// Ends a term: permission off, wait for the work, publish, release. There is no other way out of a term.
    pub(crate) async fn end_term(&mut self, mut reign: Reign, reason: EndReason) {
        reign.term.cancel();
        self.board.status.change(|status| status.state = ElectorState::Draining);
        let mut ending = Ending::begin(&self.callbacks, &reason);
        if flawed(Flaw::ReleaseBeforeDrain) {
            let _ = self.release(&mut reign, &reason).await;
        }
        let may_hold_lease = self.drain(&mut reign, &mut ending, &reason).await;
        self.count_short_term(&reign, &reason);
        let token = reign.term.token;
        self.seen = self.seen.max(token);
        self.board.status.change(|status| {
            status.state = ElectorState::Following;
            status.overrun = false;
            if status.leader.as_ref() == Some(&self.shared.candidate) {
                status.leader = None;
            }
        });
        tracing::info!(election = %self.board.election, candidate = %self.shared.candidate, %token, %reason, "term ended");
        self.publish(EventKind::TermEnded { token, reason: reason.clone() });
        let answered =
            if may_hold_lease { self.release(&mut reign, &reason).await } else { Some(Released::NotHeld) };
        if let Some(asked) = reign.asked.take() {
            let outcome = match answered {
                // What was lost meanwhile was not given to anybody.
                _ if !may_hold_lease => Err(CommandError::NotLeading),
                // Whoever finishes wants to have it recorded; to resign it is enough to have let go.
                None if reign.finish.is_some() => Err(CommandError::Unanswered),
                Some(Released::NotHeld) if reign.finish.is_some() => Err(CommandError::NotLeading),
                _ => Ok(()),
            };
            // Whoever asked may be gone.
            drop(asked.send(outcome));
        }
        self.leads_no_more();
    }

    /// Others do not wait for this leader's company any more.
    pub(crate) fn leads_no_more(&mut self) {
        if std::mem::take(&mut self.leads) {
            self.shared.renewals().leader_removed();
        }
    }

    /// Waits until all work has ended, and keeps the lease meanwhile: letting it expire under running work would make
    /// the overlap that the lease is there to prevent. Answers whether the lease may still be ours.
    async fn drain(&mut self, reign: &mut Reign, ending: &mut Ending, reason: &EndReason) -> bool {
        let clock = Arc::clone(&self.shared.clock);
        let now = clock.now();
        let kill_at = match reason {
            // Somebody else may lead already: no grace.
            EndReason::Lost if !flawed(Flaw::LostGivenGrace) => now,
            EndReason::DeadlinePassed => reign.renewer.must_stop(),
            // A suspend may have come between: never later than the lease allows.
            _ => now.plus(self.timing.drain_timeout).earlier_of(reign.renewer.must_stop()),
        };
        let mut overrun_at = kill_at.plus(self.timing.latency);
        let (mut killed, mut overrun) = (false, false);
        let mut keep_lease = *reason != EndReason::Lost;
        loop {
            let next = match (killed, overrun) {
                (false, _) => kill_at,
                (true, false) => overrun_at,
                (true, true) => Moment::FAR,
            };
            self.turn(if keep_lease { next.earlier_of(reign.renewer.next_turn()) } else { next });
            tokio::select! {
                biased;
                over = reign.work.drained(ending, &reign.term) => match over {
                    None => return keep_lease,
                    Some(Ok(())) => {}
                    Some(Err(failed)) => self.callback_failed(failed, reign),
                },
                () = clock.sleep_until(next) => {
                    if killed {
                        overrun = true;
                        self.overran(reign);
                        if flawed(Flaw::StandsBesideOverrun) {
                            return false;
                        }
                        // Asked for by name: then the lease runs out under the work.
                        keep_lease &= self.timing.on_overrun == OnOverrun::Hold;
                    } else {
                        killed = true;
                        // After a pause the kill itself is late: what was killed just now has not overrun yet.
                        overrun_at = overrun_at.later_of(clock.now().plus(self.timing.latency));
                        reign.work.kill();
                    }
                }
                command = self.board.commands.recv() => self.obey_while_draining(command),
                step = reign.renewer.step(&self.shared), if keep_lease => match step {
                    Step::Renewed(request) => {
                        self.renewed(reign);
                        self.refuse_late(request.as_deref(), reign, reason);
                    }
                    Step::Failed(error) => self.renew_failed(error, reign),
                    Step::Lost { cloned, record } => {
                        self.lost(cloned, record.as_deref(), reign);
                        keep_lease = false;
                        self.lost_while_draining(reign);
                    }
                    Step::Expired => {
                        keep_lease = false;
                        self.lost_while_draining(reign);
                    }
                },
            }
        }
    }

    /// Somebody else may lead from now on: no grace any more.
    fn lost_while_draining(&self, reign: &mut Reign) {
        self.publish(EventKind::LostWhileDraining { token: reign.term.token });
        reign.work.kill();
    }

    /// Answers a request that came when the term was ending already.
    fn refuse_late(&self, request: Option<&ControlRequest>, reign: &mut Reign, reason: &EndReason) {
        let Some(request) = request.filter(|request| reign.request != Some(request.id)) else { return };
        reign.request = Some(request.id);
        let why = format!("the term ends already: {reason}");
        reign.renewer.answer = Some(Box::new(Answered { id: request.id, answer: Answer::Refused(why) }));
    }

    fn overran(&self, reign: &Reign) {
        tracing::error!(election = %self.board.election, token = %reign.term.token, "work of an ended term still runs");
        self.board.status.change(|status| status.overrun = true);
        self.publish(EventKind::Overrun { token: reign.term.token });
    }

    fn obey_while_draining(&mut self, command: Command) {
        match command {
            Command::Stop => self.stopping = true,
            Command::Resign { reply, .. }
            | Command::Finish { reply, .. }
            | Command::HandOff { reply, .. } => {
                // The term ends already, for another reason.
                drop(reply.send(Err(CommandError::NotLeading)));
            }
        }
    }

    /// Gives the lease back, to whomever the reason names.
    async fn release(&mut self, reign: &mut Reign, reason: &EndReason) -> Option<Released> {
        let finish = reign.finish.as_deref().copied().unwrap_or_default();
        let next = match reason {
            _ if !finish.cool_down.is_zero() => Next::CoolDown(finish.cool_down),
            EndReason::HandedOff { to } => {
                let window = self.successor_window();
                self.rest_for(window);
                Next::Successor { candidate: to.clone(), window }
            }
            _ => Next::Anybody,
        };
        // A request that was taken up and not refused is what ends this term.
        let done = reign.request.map(|id| Answered { id, answer: Answer::Done });
        let releasing = Releasing {
            shared: Arc::clone(&self.shared),
            board: Arc::clone(&self.board),
            timing: Arc::clone(&self.timing),
            lease: reign.renewer.lease.clone(),
            open: reign.renewer.open_attempts(),
            next,
            succeeded: finish.succeeded || (self.callbacks.ends_term && *reason == EndReason::WorkEnded),
            answer: reign.renewer.answer.take().map(|answer| *answer).or(done),
            until: reign.renewer.surely_over(),
        };
        releasing.send().await
    }

    /// How long the others leave a handed-off election to its successor: until it must have noticed.
    fn successor_window(&self) -> Duration {
        let notice = match self.shared.wake {
            Wake::Push => self.timing.retry_interval,
            Wake::Look(interval) => interval.max(self.timing.retry_interval).saturating_mul(2),
        };
        notice.min(self.timing.ttl)
    }

    /// Terms that end again and again before their first renewal point at something that another try does not mend.
    fn count_short_term(&mut self, reign: &Reign, reason: &EndReason) {
        let lasted = self.shared.clock.now().time_since(reign.began);
        let voluntary = matches!(reason, EndReason::Stopped | EndReason::WorkEnded);
        if voluntary || lasted >= self.timing.renew_interval {
            self.short_terms = 0;
            return;
        }
        self.short_terms += 1;
        if self.short_terms >= FLAPPING {
            let doublings = (self.short_terms - FLAPPING).min(4);
            // At most a ttl: if everybody flaps, nobody leads all that time.
            let wait = self.timing.retry_interval.saturating_mul(1 << doublings).min(self.timing.ttl);
            let wait = wait + self.shared.random.up_to(wait / 2);
            tracing::warn!(election = %self.board.election, terms = self.short_terms, ?wait, "flapping");
            self.publish(EventKind::Flapping { terms: self.short_terms, wait });
            self.rest_for(wait);
        }
    }
}

/// Short terms in a row that count as flapping.
const FLAPPING: u32 = 3;

/// Waits for the next change; never completes without a watch. A watch that ended reports one gap.
pub(crate) async fn next_change(changes: &mut Option<Changes>) -> Option<Change> {
    poll_fn(|context| poll_change(changes, context)).await
}

fn poll_change(changes: &mut Option<Changes>, context: &mut Context<'_>) -> Poll<Option<Change>> {
    let Some(stream) = changes else { return Poll::Pending };
    let change = ready!(stream.as_mut().poll_next(context));
    if change.is_none() {
        *changes = None;
    }
    Poll::Ready(change)
}
