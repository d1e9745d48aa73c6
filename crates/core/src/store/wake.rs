//! Wakes whoever watches elections inside this process.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::name::ElectionName;

/// Who watches what.
///
/// A watcher that does not read costs a set of names, however much happens: it learns *which* elections changed, and
/// reads what they are now.
#[derive(Debug, Default)]
pub struct Wakes {
    watchers: Mutex<Watchers>,
}

#[derive(Debug, Default)]
struct Watchers {
    bells: BTreeMap<ElectionName, Vec<Weak<Bell>>>,
    /// When there are this many names, those that nobody watches any more are removed.
    sweep_at: usize,
}

/// Below this many names nothing is swept.
const FEW: usize = 64;

#[derive(Debug, Default)]
struct Bell {
    changed: Mutex<BTreeSet<ElectionName>>,
    // One waiter at a time: a watcher is read by whoever owns it.
    waiter: AtomicWaker,
}

/// One watcher's side.
#[derive(Debug)]
pub struct Wake {
    bell: Arc<Bell>,
}

impl Wakes {
    /// Begins to watch.
    #[must_use]
    pub fn watch(&self, elections: &[ElectionName]) -> Wake {
        let bell = Arc::new(Bell::default());
        let mut watchers = unpoisoned(&self.watchers);
        if watchers.bells.len() >= watchers.sweep_at {
            // Whoever led one election per job leaves its name behind otherwise, for ever.
            watchers.bells.retain(|_, bells| bells.iter().any(|bell| bell.strong_count() > 0));
            watchers.sweep_at = FEW.max(watchers.bells.len() * 2);
        }
        for election in elections {
            let bells = watchers.bells.entry(election.clone()).or_default();
            // Whoever stopped watching leaves here, so that the list cannot grow for ever.
            bells.retain(|bell| bell.strong_count() > 0);
            bells.push(Arc::downgrade(&bell));
        }
        Wake { bell }
    }

    /// Tells everybody who watches `election` that it changed.
    pub fn wake(&self, election: &ElectionName) {
        let mut watchers = unpoisoned(&self.watchers);
        let Some(bells) = watchers.bells.get_mut(election) else {
            return;
        };
        bells.retain(|bell| {
            let Some(bell) = bell.upgrade() else { return false };
            unpoisoned(&bell.changed).insert(election.clone());
            bell.waiter.wake();
            true
        });
        if bells.is_empty() {
            watchers.bells.remove(election);
        }
    }

    /// Tells everybody that everything may have changed.
    pub fn wake_all(&self) {
        let names: Vec<_> = unpoisoned(&self.watchers).bells.keys().cloned().collect();
        for name in names {
            self.wake(&name);
        }
    }
}

impl Wake {
    /// Waits for the next election that changed.
    pub async fn next(&self) -> ElectionName {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Answers the next election that changed, or wakes the task when there is one.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<ElectionName> {
        // Registered before looking: a change between the look and the wait wakes us.
        self.bell.waiter.register(context.waker());
        match unpoisoned(&self.bell.changed).pop_first() {
            Some(election) => Poll::Ready(election),
            None => Poll::Pending,
        }
    }
}

/// A thread that panicked left only whole values behind here.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ElectionName {
        ElectionName::new(name).unwrap()
    }

    #[tokio::test]
    async fn a_watcher_learns_each_changed_election_once_however_often_it_changed() {
        let wakes = Wakes::default();
        let watcher = wakes.watch(&[name("a"), name("b")]);
        for _ in 0..1000 {
            wakes.wake(&name("b"));
            wakes.wake(&name("c"));
        }
        wakes.wake(&name("a"));
        assert_eq!(watcher.next().await, name("a"));
        assert_eq!(watcher.next().await, name("b"));
        assert!(unpoisoned(&watcher.bell.changed).is_empty());
    }

    #[tokio::test]
    async fn a_watcher_that_is_gone_leaves_nothing_behind() {
        let wakes = Wakes::default();
        drop(wakes.watch(&[name("a")]));
        wakes.wake(&name("a"));
        assert!(unpoisoned(&wakes.watchers).bells.is_empty());
    }

    #[tokio::test]
    async fn watchers_of_many_elections_that_are_gone_are_swept() {
        let wakes = Wakes::default();
        for number in 0..1000 {
            let election = name(&format!("job-{number}"));
            let watcher = wakes.watch(std::slice::from_ref(&election));
            // The release wakes while the elector still watches; nothing ever wakes this name again.
            wakes.wake(&election);
            drop(watcher);
        }
        let left = unpoisoned(&wakes.watchers).bells.len();
        assert!(left <= FEW, "{left} names are left");
    }
}
