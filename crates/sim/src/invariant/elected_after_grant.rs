//! Nobody is told that it leads before the store has granted it.

use std::collections::{BTreeMap, BTreeSet};

use super::Breach;
use crate::trace::{State, Trace, Verb, What};

/// A term that begins stands in a server's record already, under a bid of that process.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let (mut bidders, mut granted) = (BTreeSet::new(), BTreeMap::<_, BTreeSet<_>>::new());
    for entry in &trace.entries {
        match &entry.what {
            What::Sent { verb: Verb::Acquire, bid, .. } => drop(bidders.insert((*bid, entry.who))),
            What::Stored(stored) if stored.state == State::Held => {
                if let Some((bid, _)) = stored.holder {
                    granted.entry(stored.token).or_default().insert(bid);
                }
            }
            What::Elected { token, .. } => {
                let bids = granted.get(token);
                if !bids.is_some_and(|bids| bids.iter().any(|bid| bidders.contains(&(*bid, entry.who)))) {
                    return Err((
                        entry.at,
                        format!("{} leads {token:?}, which no server has granted it", entry.who),
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
    use super::super::testing::{T1, T2, elected, held, sent, trace};
    use super::*;

    #[test]
    fn a_term_that_was_not_granted_is_found() {
        let led = |grant, token| {
            let bid = sent(Verb::Acquire, 1, 1, 0, T1);
            trace(vec![(0, 0, bid), (1, 0, grant), (2, 0, elected(token))])
        };
        assert!(check(&led(held(1, 1, T2), T2)).is_ok());
        assert!(check(&led(held(1, 1, T2), T1)).is_err(), "another token");
        assert!(check(&led(held(2, 1, T2), T2)).is_err(), "another bid");
    }
}
