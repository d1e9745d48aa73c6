//! The latest value of what an elector knows, for display.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::callbacks::Failed;
use super::handle::Board;
use super::leadership::Permit;
use crate::clock::Moment;
use crate::name::{CandidateId, ElectionName};
use crate::store::StoreError;
use crate::token::FencingToken;

/// What an elector is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectorState {
    /// It stands by or bids.
    Following,
    /// It leads.
    Leading,
    /// Its term has ended, its work has not: it keeps the lease, without permission.
    Draining,
    /// It has stopped.
    Stopped,
}

/// The latest status of one elector. Values may be skipped between two looks; events are not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionStatus {
    /// What is contested.
    pub election: ElectionName,
    /// Who tells.
    pub candidate: CandidateId,
    /// What it is doing.
    pub state: ElectorState,
    /// Who leads, as far as this candidate knows.
    pub leader: Option<CandidateId>,
    /// The highest token that it has seen.
    pub token: FencingToken,
    /// Bids of the present or last campaign.
    pub attempts: u32,
    /// Terms that it has led.
    pub terms: u32,
    /// Renewals of the present term.
    pub renewals: u64,
    /// Renewals over the record's life.
    pub renew_total: u64,
    /// When the store last answered.
    pub last_answer: Option<Moment>,
    /// The last error, until the store answers again.
    pub last_error: Option<String>,
    /// The last callback of the present or last term that failed.
    pub failed_callback: Option<String>,
    /// By when the elector's loop will have turned again.
    pub next_turn: Moment,
    /// Work of an ended term still runs.
    pub overrun: bool,
}

/// Whether an elector does its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// It does.
    pub healthy: bool,
    /// What is wrong, one sentence each.
    pub problems: Vec<String>,
    /// The last error of the store, until it answers again.
    pub last_error: Option<String>,
    /// How long ago the store last answered.
    pub since_answer: Option<Duration>,
}

impl ElectionStatus {
    /// Judges the status at `now`: the loop must turn, the store must answer, and no old work may run on.
    #[must_use]
    pub fn health(&self, now: Moment, limit: Duration) -> Health {
        let mut problems = Vec::new();
        let since_answer = self.last_answer.map(|answer| now.time_since(answer));
        let late = now.time_since(self.next_turn);
        if self.state == ElectorState::Stopped {
            problems.push("the elector has stopped".into());
        } else if late > limit {
            problems.push(format!("the elector's loop is {late:?} late"));
        }
        if let Some(error) = &self.last_error {
            match since_answer {
                None => problems.push(format!("the store has never answered: {error}")),
                Some(since) if since > limit => {
                    problems.push(format!("the store has not answered for {since:?}: {error}"));
                }
                Some(_) => {}
            }
        }
        if let Some(failed) = &self.failed_callback {
            problems.push(format!("a callback failed: {failed}"));
        }
        if self.overrun {
            problems.push(
                "work of an ended term still runs; this candidate does not stand again before it ends".into(),
            );
        }
        Health { healthy: problems.is_empty(), problems, last_error: self.last_error.clone(), since_answer }
    }
}

/// What changes of a status, kept small: a process may have a hundred thousand of them.
#[derive(Debug)]
pub(crate) struct Present {
    /// How often it changed; goes round, nobody sleeps through all of it.
    changes: u32,
    pub(crate) state: ElectorState,
    pub(crate) overrun: bool,
    pub(crate) leader: Option<CandidateId>,
    pub(crate) token: FencingToken,
    pub(crate) attempts: u32,
    pub(crate) terms: u32,
    pub(crate) renewals: u64,
    pub(crate) renew_total: u64,
    /// [`Moment::FAR`] before the first one.
    pub(crate) last_answer: Moment,
    pub(crate) next_turn: Moment,
    /// What the store said last, if it was not an outcome.
    pub(crate) failure: Option<Box<StoreError>>,
    pub(crate) failed_callback: Option<Box<Failed>>,
    /// Of the present or last term.
    pub(crate) permit: Option<Permit>,
}

impl Present {
    /// The status of an elector that starts at `now`.
    pub(crate) fn new(now: Moment) -> Self {
        Self {
            changes: 0,
            state: ElectorState::Following,
            overrun: false,
            leader: None,
            token: FencingToken::ZERO,
            attempts: 0,
            terms: 0,
            renewals: 0,
            renew_total: 0,
            last_answer: Moment::FAR,
            next_turn: now,
            failure: None,
            failed_callback: None,
            permit: None,
        }
    }

    pub(crate) fn of(&self, election: &ElectionName, candidate: &CandidateId) -> ElectionStatus {
        ElectionStatus {
            election: election.clone(),
            candidate: candidate.clone(),
            state: self.state,
            leader: self.leader.clone(),
            token: self.token,
            attempts: self.attempts,
            terms: self.terms,
            renewals: self.renewals,
            renew_total: self.renew_total,
            last_answer: (self.last_answer != Moment::FAR).then_some(self.last_answer),
            last_error: self.failure.as_ref().map(ToString::to_string),
            failed_callback: self.failed_callback.as_ref().map(ToString::to_string),
            next_turn: self.next_turn,
            overrun: self.overrun,
        }
    }
}

/// The latest status.
#[derive(Debug)]
pub(crate) struct StatusCell {
    present: Mutex<Present>,
    changed: Notify,
}

impl StatusCell {
    pub(crate) fn new(present: Present) -> Self {
        Self { present: Mutex::new(present), changed: Notify::new() }
    }

    pub(crate) fn look(&self) -> MutexGuard<'_, Present> {
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status and wakes whoever waits for a change.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Present)) {
        let mut present = self.look();
        change(&mut present);
        present.changes = present.changes.wrapping_add(1);
        drop(present);
        self.changed.notify_waiters();
    }

    /// Changes what nobody waits for.
    pub(crate) fn change_quietly(&self, change: impl FnOnce(&mut Present)) {
        change(&mut self.look());
    }
}

/// The elector has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the elector has stopped")]
pub struct ElectorStopped;

/// A place in the sequence of statuses, of which some may be skipped.
pub struct Statuses {
    board: Arc<Board>,
    seen: u32,
}

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statuses({:?})", self.latest())
    }
}

impl Statuses {
    pub(crate) fn of(board: &Arc<Board>) -> Self {
        Self { board: Arc::clone(board), seen: board.status.look().changes }
    }

    /// Returns the latest status.
    #[must_use]
    pub fn latest(&self) -> ElectionStatus {
        self.board.status()
    }

    /// Waits for a status that is newer than the last one that was waited for.
    ///
    /// # Errors
    /// If the elector has stopped and that was seen already: nothing follows.
    pub async fn changed(&mut self) -> Result<ElectionStatus, ElectorStopped> {
        let board = Arc::clone(&self.board);
        loop {
            let mut changed = std::pin::pin!(board.status.changed.notified());
            // Registered before looking: a change between the look and the wait wakes us.
            changed.as_mut().enable();
            let (changes, state) = {
                let present = board.status.look();
                (present.changes, present.state)
            };
            if changes != self.seen {
                self.seen = changes;
                return Ok(self.latest());
            }
            if state == ElectorState::Stopped {
                return Err(ElectorStopped);
            }
            changed.await;
        }
    }

    /// Waits for a status that is `wanted`, which may be the present one.
    ///
    /// # Errors
    /// If the elector has stopped without it.
    pub async fn wait_for(
        &mut self,
        mut wanted: impl FnMut(&ElectionStatus) -> bool,
    ) -> Result<ElectionStatus, ElectorStopped> {
        let mut status = self.latest();
        while !wanted(&status) {
            status = self.changed().await?;
        }
        Ok(status)
    }
}
