//! The latest value of what an elector knows, for display.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::handle::Board;
use crate::clock::Moment;
use crate::name::{CandidateId, ElectionName};
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

/// The latest status, and how often it changed.
#[derive(Debug)]
pub(crate) struct StatusCell {
    status: Mutex<ElectionStatus>,
    changes: AtomicU64,
    changed: Notify,
}

impl StatusCell {
    pub(crate) fn new(status: ElectionStatus) -> Self {
        Self { status: Mutex::new(status), changes: AtomicU64::new(0), changed: Notify::new() }
    }

    pub(crate) fn look(&self) -> MutexGuard<'_, ElectionStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the status and wakes whoever waits for a change.
    pub(crate) fn change(&self, change: impl FnOnce(&mut ElectionStatus)) {
        change(&mut self.look());
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Changes what nobody waits for.
    pub(crate) fn change_quietly(&self, change: impl FnOnce(&mut ElectionStatus)) {
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
    seen: u64,
}

impl fmt::Debug for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statuses({:?})", *self.board.status.look())
    }
}

impl Statuses {
    pub(crate) fn of(board: &Arc<Board>) -> Self {
        Self { board: Arc::clone(board), seen: board.status.changes.load(Ordering::Acquire) }
    }

    /// Returns the latest status.
    #[must_use]
    pub fn latest(&self) -> ElectionStatus {
        self.board.status.look().clone()
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
            let changes = board.status.changes.load(Ordering::Acquire);
            let status = self.latest();
            if changes != self.seen {
                self.seen = changes;
                return Ok(status);
            }
            if status.state == ElectorState::Stopped {
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
