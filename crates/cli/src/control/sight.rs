//! One election, looked at until something is seen.

use std::time::Duration;

use futures_util::StreamExt;
use tenure::store::{Change, Changes, LeaseRecord, StoreError};
use tenure::{Clock, ElectionName, Moment};

use crate::reading::Reader;

/// The first and the longest pause between two looks while the store tells of nothing. A watch takes a moment to begin: what
/// happens before that is seen by looking.
const FIRST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(1);

/// How long after the predicted end of a lease it is looked at.
const AFTER: Duration = Duration::from_millis(1);

pub(super) struct Sight<'a> {
    reader: &'a Reader,
    election: &'a ElectionName,
    changes: Option<Changes>,
}

impl<'a> Sight<'a> {
    /// Begins to listen: before anything is asked for, so that its effect is not missed.
    pub(super) fn begin(reader: &'a Reader, election: &'a ElectionName) -> Self {
        Self { reader, election, changes: reader.store.watch(std::slice::from_ref(election)) }
    }

    /// Looks until `seen` finds what it waits for; `None` when the time is over.
    pub(super) async fn until<T>(
        &mut self,
        deadline: Moment,
        mut seen: impl FnMut(&LeaseRecord) -> Option<T>,
    ) -> Result<Option<T>, StoreError> {
        let mut pause = FIRST;
        loop {
            let over = deadline.has_passed(self.reader.clock.now());
            let mut wait = pause;
            match self.reader.read(self.election).await {
                Ok(record) => {
                    if let Some(found) = record.as_ref().and_then(&mut seen) {
                        return Ok(Some(found));
                    }
                    let ends = record.and_then(|record| record.opens_in).filter(|ends| !ends.is_zero());
                    wait = ends.map_or(wait, |ends| wait.min(ends.saturating_add(AFTER)));
                }
                // The store may be back before the time is over.
                Err(error) if error.is_retryable() && !over => {}
                Err(error) => return Err(error),
            }
            if over {
                return Ok(None);
            }
            self.wait(self.reader.clock.now().plus(wait).earlier_of(deadline)).await;
            pause = pause.saturating_mul(2).min(LONGEST);
        }
    }

    /// Waits for a change, or for a moment. What came along may be older than what was seen since: it is looked at anew.
    async fn wait(&mut self, until: Moment) {
        tokio::select! {
            biased;
            change = next(self.changes.as_mut()) => {
                if change.is_none() {
                    self.changes = None;
                }
            }
            () = self.reader.clock.sleep_until(until) => {}
        }
    }
}

async fn next(changes: Option<&mut Changes>) -> Option<Change> {
    match changes {
        Some(changes) => changes.next().await,
        None => std::future::pending().await,
    }
}
