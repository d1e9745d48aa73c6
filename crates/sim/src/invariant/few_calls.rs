//! No candidate floods its store.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::Breach;
use crate::trace::{Trace, What};

/// Calls of one process within the shortest ttl of the run. A leader needs three, one that fights for its term some
/// thirty, one that is made to resign all the time a few for each term.
const LIMIT: usize = 100;

/// Counts what each process sends within any ttl.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let mut shortest = trace.promises.ttl;
    let mut sends = BTreeMap::<_, VecDeque<Duration>>::new();
    for entry in &trace.entries {
        match entry.what {
            What::Started { ttl, .. } => shortest = shortest.min(ttl),
            What::Sent { .. } => {
                let recent = sends.entry(entry.who).or_default();
                recent.push_back(entry.at);
                while recent.front().is_some_and(|first| *first + shortest < entry.at) {
                    recent.pop_front();
                }
                if recent.len() > LIMIT {
                    return Err((
                        entry.at,
                        format!("{} sent {LIMIT} requests within {shortest:?}", entry.who),
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, sent, trace};
    use super::*;
    use crate::trace::Verb;

    #[test]
    fn a_storm_is_found() {
        let every = |ms: u64| trace((0..300).map(|n| (n * ms, 0, sent(Verb::Renew, 1, n, 0, T1))).collect());
        assert!(check(&every(20)).is_ok());
        assert!(check(&every(5)).is_err());
    }
}
