//! What a store has seen, for as long as somebody may come back to it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Moment;

/// Below this many entries nobody looks for what may be forgotten.
const FEW: usize = 64;

/// Entries are kept for this many times the longest time that anything in them is waited for. Whoever waits looks
/// again when that is over, a little late at worst; whoever does not has gone.
const TIMES: u32 = 3;

/// A map that forgets what nobody came back to, so that a process that is asked about ever new names does not grow.
///
/// Not a map of a fixed size: whoever followed more elections than fit would time each of them anew at every look, and
/// would never take over from a leader that is gone. What is forgotten too early costs time, never safety.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    entries: BTreeMap<K, Entry<V>>,
    /// The size at which it is swept next: twice what the last sweep left, so that sweeping costs each entry little.
    sweep_at: usize,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    used: Moment,
    keep: Duration,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), sweep_at: FEW }
    }
}

impl<K: Ord, V> Recent<K, V> {
    pub(super) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Remembers a value of which nothing is waited for longer than `longest`.
    pub(super) fn insert(&mut self, key: K, value: V, now: Moment, longest: Duration) {
        if self.entries.len() >= self.sweep_at {
            // By both clocks: nothing is forgotten because the machine slept.
            self.entries.retain(|_, entry| now.least_since(entry.used) <= entry.keep);
            self.sweep_at = FEW.max(self.entries.len().saturating_mul(2));
        }
        self.entries.insert(key, Entry { value, used: now, keep: longest.saturating_mul(TIMES) });
    }

    pub(super) fn remove<Q: Ord + ?Sized>(&mut self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.remove(key);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn ever_new_names_leave_only_those_of_the_last_while() {
        let mut recent = Recent::default();
        let mut now = Moment::default();
        for name in 0..10_000 {
            now = now.plus(MINUTE);
            recent.insert(name, (), now, MINUTE);
            assert!(recent.len() <= FEW, "{} entries", recent.len());
        }
        assert!(recent.get(&9_999).is_some());
    }

    #[test]
    fn what_somebody_comes_back_to_stays_however_much_there_is() {
        let mut recent = Recent::default();
        let mut now = Moment::default();
        for _ in 0..5 {
            for name in 0..1_000 {
                recent.insert(name, (), now, MINUTE);
            }
            now = now.plus(MINUTE);
        }
        assert!((0..1_000).all(|name| recent.get(&name).is_some()));
    }

    #[test]
    fn nothing_is_forgotten_over_a_suspend() {
        let mut recent = Recent::default();
        recent.insert(0, (), Moment::default(), MINUTE);
        let resumed = Moment::new(MINUTE * 600, MINUTE);
        for name in 1..200 {
            recent.insert(name, (), resumed, MINUTE);
        }
        assert!(recent.get(&0).is_some());
    }
}
