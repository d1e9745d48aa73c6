//! What a process does for its keys without being asked.

use std::sync::Arc;

use futures_util::StreamExt;
use tenure_core::store::StoreError;
use tenure_core::{Clock, ElectionName};

use super::super::sessions::{Done, Entry, If, SessionId, Snapshot, Then};
use super::Process;
use super::line::{Place, Sight, Value, place_key};
use crate::fault;
use crate::network::unpoisoned;
use crate::wrong::Wrong;

/// Keeps the session alive for whatever the process takes part in, lines up again where somebody else is to come
/// first, and removes keys that nobody asks for.
pub(super) async fn tend(process: Arc<Process>) {
    let mut changes = process.link.watch(process.server.watch().map(Some).boxed(), || None);
    let mut due = process.clock.now();
    loop {
        let change = tokio::select! {
            biased;
            () = process.clock.sleep_until(due) => None,
            change = changes.next() => change.flatten(),
        };
        let session = unpoisoned(&process.mine).session;
        // Whatever fails here is tried again with the next turn.
        match (change, session) {
            (_, None) => {}
            (Some(snapshot), Some(session)) => {
                if process.note_firsts(&snapshot, session) {
                    due = due.earlier_of(process.clock.now().plus(process.ttl / 3));
                }
                drop(process.line_up_again(&snapshot, session).await);
            }
            (None, Some(session)) => {
                if matches!(process.keep_alive(session).await, Ok(false)) {
                    process.forget(session);
                } else {
                    drop(process.reconcile(session).await);
                }
            }
        }
        if due.has_passed(process.clock.now()) {
            due = process.clock.now().plus(process.ttl / 3);
        }
    }
}

impl Process {
    /// Notes where a key of ours has become the first one, and since when; tells whether there is any.
    fn note_firsts(&self, snapshot: &Snapshot<Value>, session: SessionId) -> bool {
        let now = self.clock.now();
        let mut mine = unpoisoned(&self.mine);
        let elections: Vec<ElectionName> = mine.asked.keys().cloned().collect();
        let mut any = false;
        for election in elections {
            let sight = Sight::new(snapshot, &election);
            let key = place_key(&election, session);
            match sight.places.first() {
                Some((first, entry, place)) if *first == key && !place.claimed => {
                    any = true;
                    let since = mine.first_since.entry(election.clone()).or_insert((entry.created, now));
                    if since.0 != entry.created {
                        *since = (entry.created, now);
                    }
                }
                _ => drop(mine.first_since.remove(&election)),
            }
        }
        any
    }

    /// Goes to the end of every queue in which we are before somebody for whom the election is kept.
    async fn line_up_again(&self, snapshot: &Snapshot<Value>, session: SessionId) -> Result<(), StoreError> {
        if self.wrong == Some(Wrong::JumpsTheQueue) {
            return Ok(());
        }
        let elections: Vec<ElectionName> = unpoisoned(&self.mine).asked.keys().cloned().collect();
        for election in &elections {
            let sight = Sight::new(snapshot, election);
            let key = place_key(election, session);
            let Some((successor, _)) = sight.kept_for else { continue };
            let behind = sight.places.iter().skip_while(|(place, _, _)| *place != key).skip(1);
            let before = behind.filter(|(_, _, place)| place.candidate == *successor).count() > 0;
            let own = sight.places.iter().find(|(place, _, _)| *place == key);
            if let Some((_, entry, place)) = own
                && before
                && !place.claimed
                && *successor != self.candidate
            {
                let again = Value::Place((*place).clone());
                let unchanged = If::Unchanged(key.clone(), entry.changed);
                if self.transact(vec![unchanged], vec![Then::Delete(key.clone())]).await? == Done::Yes {
                    let put = Then::Put(key.clone(), again, Some(session));
                    self.transact(vec![If::Absent(key)], vec![put]).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes those of our keys that nobody asks for any more.
    async fn reconcile(&self, session: SessionId) -> Result<(), StoreError> {
        if self.wrong == Some(Wrong::LeavesGhosts) {
            return Ok(());
        }
        let snapshot = self.look().await?;
        self.note_firsts(&snapshot, session);
        let elections: Vec<ElectionName> = unpoisoned(&self.mine).asked.keys().cloned().collect();
        for election in &elections {
            let sight = Sight::new(&snapshot, election);
            let key = place_key(election, session);
            let Some((_, entry, place)) = sight.places.iter().find(|(place, _, _)| *place == key) else {
                continue;
            };
            let first = sight.places.first().is_some_and(|(_, first, _)| first.created == entry.created);
            if self.is_ghost(election, entry, place, first) {
                let unchanged = If::Unchanged(key.clone(), entry.changed);
                if self.transact(vec![unchanged], vec![Then::Delete(key)]).await? == Done::Yes {
                    self.link.fault(fault::GHOST_KEY);
                }
            }
        }
        Ok(())
    }

    /// Tells whether a key of ours keeps others from leading while nobody here wants to lead.
    fn is_ghost(&self, election: &ElectionName, entry: &Entry<Value>, place: &Place, first: bool) -> bool {
        let now = self.clock.now();
        let mine = unpoisoned(&self.mine);
        let Some((bid, asked)) = mine.asked.get(election).copied() else { return false };
        let silent = now.time_since(asked);
        if place.claimed {
            // Whoever leads, or stops leading, asks once a ttl at least, whatever the store does.
            return silent > self.ttl * 2 || (bid != place.bid && silent > self.ttl);
        }
        // Whoever waits asks about once a ttl, since then the leader's session could have ended.
        let forgotten = silent > self.ttl * 3 / 2;
        // Whoever is woken by its turn asks at once.
        let renew_interval = self.ttl / 3;
        let first_since = mine.first_since.get(election).filter(|(created, _)| *created == entry.created);
        let blocks = first_since
            .is_some_and(|(_, since)| now.time_since(*since) >= renew_interval && silent >= renew_interval);
        forgotten || (first && blocks)
    }
}
