//! Gives leases back, and cleans up after bids whose fate is unknown.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::handle::Board;
use super::{EventKind, Timing};
use crate::clock::{Clock, Moment};
use crate::elections::{Shared, spawn_call};
use crate::flaw::{Flaw, flawed};
use crate::name::{Attempt, BidId};
use crate::store::{
    Acquisition, Answered, ErrorKind, Lease, LeaseStore, Next, Release, Released, StoreError,
};
use crate::token::FencingToken;

/// Doubles after each release that was not answered, up to the retry interval: whoever stops waits for the answer.
const PAUSE: Duration = Duration::from_millis(10);

/// A release that is repeated until it is answered, or until the lease must have run out.
pub(crate) struct Releasing {
    pub(crate) shared: Arc<Shared>,
    pub(crate) board: Arc<Board>,
    pub(crate) timing: Arc<Timing>,
    pub(crate) lease: Lease,
    pub(crate) open: Vec<Attempt>,
    pub(crate) next: Next,
    pub(crate) succeeded: bool,
    pub(crate) answer: Option<Answered>,
    pub(crate) until: Moment,
}

impl Releasing {
    /// Sends the release and waits for its answer for one call's time; it goes on in the background after that. Answers
    /// what the store answered by then.
    pub(crate) async fn send(self) -> Option<Released> {
        let (clock, limit) = (Arc::clone(&self.shared.clock), self.timing.call_timeout);
        wait_one_call(clock, limit, tokio::spawn(self.run())).await.flatten()
    }

    /// Repeats the release until it is answered, or pointless.
    pub(crate) async fn run(self) -> Option<Released> {
        // The same attempt each time: a repetition after a lost answer hears `Released` again.
        let release = Arc::new(Release {
            attempt: Attempt::new(&self.shared.random),
            lease: self.lease,
            open: self.open,
            next: self.next,
            succeeded: self.succeeded,
            answer: self.answer,
        });
        let clock = &self.shared.clock;
        let mut pause = PAUSE;
        loop {
            let (store, call) = (Arc::clone(&self.shared.store), Arc::clone(&release));
            let answer = spawn_call(async move { store.release(&call).await }, drop);
            let give_up = clock.now().plus(self.timing.call_timeout);
            let error = tokio::select! {
                biased;
                answer = answer => match answer {
                    Ok(Ok(outcome)) => {
                        let released = outcome == Released::Released;
                        tracing::debug!(election = %release.lease.election, token = %release.lease.token, released, "release");
                        return Some(outcome);
                    }
                    Ok(Err(error)) => error,
                    Err(_) => crate::elections::unanswered(self.shared.store.as_ref(), "release"),
                },
                () = clock.sleep_until(give_up) => {
                    let store = self.shared.store.guarantees().store;
                    StoreError::new(ErrorKind::Timeout, store, "release", "no answer in time")
                }
            };
            let (election, candidate) = (&release.lease.election, &self.shared.candidate);
            tracing::warn!(%election, token = %release.lease.token, %error, "release failed");
            let event = EventKind::ReleaseFailed { token: release.lease.token, error };
            self.board.events.publish(election, candidate, clock.wall(), event);
            if self.until.has_passed(clock.now()) {
                return None;
            }
            pause = (pause * 2).min(self.timing.retry_interval);
            clock.sleep_until(clock.now().plus(pause).earlier_of(self.until)).await;
        }
    }
}

/// Waits for a task that cleans up, for one call's time; it goes on in the background after that.
pub(crate) async fn wait_one_call<T>(
    clock: Arc<dyn Clock>,
    limit: Duration,
    task: JoinHandle<T>,
) -> Option<T> {
    tokio::select! {
        biased;
        done = task => done.ok(),
        () = clock.sleep_until(clock.now().plus(limit)) => None,
    }
}

/// Releases a lease that nobody waits for any more: a bid that was answered too late.
pub(crate) fn unwanted(
    shared: &Arc<Shared>,
    board: &Arc<Board>,
    timing: &Arc<Timing>,
    lease: Lease,
) -> Releasing {
    let until = timing.surely_over(shared.clock.now(), lease.ttl);
    Releasing {
        shared: Arc::clone(shared),
        board: Arc::clone(board),
        timing: Arc::clone(timing),
        lease,
        open: Vec::new(),
        next: Next::Anybody,
        succeeded: false,
        answer: None,
        until,
    }
}

/// Finds out what became of a bid whose answers were lost, and gives back what it may have won.
pub(crate) async fn withdraw(
    shared: Arc<Shared>,
    board: Arc<Board>,
    timing: Arc<Timing>,
    election: crate::name::ElectionName,
    bid: BidId,
    last_send: Moment,
) {
    let until = timing.surely_over(last_send, timing.ttl);
    loop {
        let (store, name) = (Arc::clone(&shared.store), election.clone());
        let answer = spawn_call(async move { store.read(&name).await }, drop);
        let give_up = shared.clock.now().plus(timing.call_timeout);
        tokio::select! {
            biased;
            answer = answer => {
                if let Ok(Ok(record)) = answer {
                    if let Some(lease) = record.and_then(|record| record.lease_of(bid)) {
                        unwanted(&shared, &board, &timing, lease).run().await;
                        return;
                    }
                    // Not there. A write that is still on its way has had a call's time to arrive by now, or gets it.
                    if last_send.plus(timing.call_timeout * 2).has_passed(shared.clock.now()) {
                        return;
                    }
                }
            }
            () = shared.clock.sleep_until(give_up) => {}
        }
        if until.has_passed(shared.clock.now()) {
            return;
        }
        shared
            .clock
            .sleep_until(shared.clock.now().plus(timing.retry_interval.min(timing.call_timeout)))
            .await;
    }
}

/// Takes the answer to a bid that nobody waits for any more. `led` is the term that the bid began, if it did: that one
/// is given back by whoever leads it, and only then.
pub(crate) fn late_acquisition(
    shared: &Arc<Shared>,
    board: &Arc<Board>,
    timing: &Arc<Timing>,
    led: Option<FencingToken>,
    answer: Result<Acquisition, StoreError>,
) {
    if let Ok(Acquisition::Acquired(lease)) = answer
        && led != Some(lease.token)
        && !flawed(Flaw::StopForgetsBids)
    {
        tracing::debug!(election = %lease.election, token = %lease.token, "a bid won after it was given up");
        tokio::spawn(unwanted(shared, board, timing, lease).run());
    }
}
