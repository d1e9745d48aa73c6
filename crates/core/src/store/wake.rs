//! Wakes whoever watches elections inside this process.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

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
    /// By what they watch, and a number that tells them apart.
    bells: BTreeMap<(ElectionName, u64), Weak<Bell>>,
    last_number: u64,
    /// When there are this many names, those that nobody watches any more are removed.
    sweep_at: usize,
}

/// Below this many names nothing is swept.
const FEW: usize = 64;

#[derive(Debug, Default)]
struct Bell {
    rung: Mutex<Rung>,
}

#[derive(Debug, Default)]
struct Rung {
    /// What changed. An empty set would keep its memory, and a hundred thousand leaders watch.
    #[allow(clippy::box_collection)] // There is none most of the time: its size counts.
    changed: Option<Box<BTreeSet<ElectionName>>>,
    // One waiter at a time: a watcher is read by whoever owns it.
    waiter: Option<Waker>,
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
            watchers.bells.retain(|_, bell| bell.strong_count() > 0);
            watchers.sweep_at = FEW.max(watchers.bells.len() * 2);
        }
        watchers.last_number += 1;
        let number = watchers.last_number;
        for election in elections {
            watchers.bells.insert((election.clone(), number), Arc::downgrade(&bell));
        }
        Wake { bell }
    }

    /// Tells everybody who watches `election` that it changed.
    pub fn wake(&self, election: &ElectionName) {
        let mut watchers = unpoisoned(&self.watchers);
        let mut gone = Vec::new();
        for (place, bell) in watchers.bells.range((election.clone(), 0)..=(election.clone(), u64::MAX)) {
            match bell.upgrade() {
                Some(bell) => bell.ring(election),
                None => gone.push(place.clone()),
            }
        }
        for place in gone {
            watchers.bells.remove(&place);
        }
    }

    /// Tells everybody that everything may have changed.
    pub fn wake_all(&self) {
        let names: BTreeSet<_> =
            unpoisoned(&self.watchers).bells.keys().map(|(election, _)| election.clone()).collect();
        for name in names {
            self.wake(&name);
        }
    }
}

impl Bell {
    fn ring(&self, election: &ElectionName) {
        let mut rung = unpoisoned(&self.rung);
        rung.changed.get_or_insert_default().insert(election.clone());
        let waiter = rung.waiter.take();
        drop(rung);
        if let Some(waiter) = waiter {
            waiter.wake();
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
        let mut rung = unpoisoned(&self.bell.rung);
        let election = rung.changed.as_mut().and_then(|changed| changed.pop_first());
        rung.changed.take_if(|changed| changed.is_empty());
        if let Some(election) = election {
            return Poll::Ready(election);
        }
        if rung.waiter.as_ref().is_none_or(|waiter| !waiter.will_wake(context.waker())) {
            let before = rung.waiter.replace(context.waker().clone());
            // The lock is given back first: the last waker of a task may drop the task.
            drop(rung);
            drop(before);
        }
        Poll::Pending
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
        assert!(unpoisoned(&watcher.bell.rung).changed.is_none());
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
