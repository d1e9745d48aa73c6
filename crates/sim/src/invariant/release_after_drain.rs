//! No release before all work of the term has ended.

use std::collections::{BTreeMap, BTreeSet};

use super::Breach;
use crate::trace::{Trace, Verb, What};

/// When a release is sent, neither the term's work nor its end callback runs.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let (mut working, mut ending, mut last) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    for entry in &trace.entries {
        let who = entry.who;
        match entry.what {
            What::Elected { token, .. } => {
                working.insert((who, token));
                last.insert(who, token);
            }
            What::WorkEnded(token) => drop(working.remove(&(who, token))),
            // What is ending is the term that began last.
            What::EndCalled => ending.extend(last.get(&who).map(|token| (who, *token))),
            What::EndOver => ending.retain(|(other, _)| *other != who),
            What::Sent { verb: Verb::Release, token, .. } => {
                if working.contains(&(who, token)) {
                    return Err((entry.at, format!("{who} releases {token:?} while its work runs")));
                }
                if ending.contains(&(who, token)) {
                    return Err((entry.at, format!("{who} releases {token:?} before on_term_end is over")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, elected, sent, trace};
    use super::*;

    #[test]
    fn a_release_under_running_work_is_found() {
        let release = || sent(Verb::Release, 1, 9, 0, T1);
        let good = vec![(0, 0, elected(T1)), (1, 0, What::WorkEnded(T1)), (2, 0, release())];
        assert!(check(&trace(good)).is_ok());
        assert!(check(&trace(vec![(0, 0, elected(T1)), (2, 0, release())])).is_err());
        let ending = |last| {
            let end =
                vec![(0, 0, elected(T1)), (1, 0, What::WorkEnded(T1)), (1, 0, What::EndCalled), (2, 0, last)];
            trace(end.into_iter().chain([(3, 0, release())]).collect())
        };
        assert!(check(&ending(What::EndOver)).is_ok());
        assert!(check(&ending(What::Calm)).is_err(), "on_term_end runs");
    }
}
