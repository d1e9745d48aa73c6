//! A bid whose term ended or whose release was sent is never held, renewed or led again.

use std::collections::{BTreeMap, BTreeSet};

use tenure_core::store::record::LAST_TERMS;

use super::Breach;
use crate::trace::{Trace, Verb, What};

/// In the server: a bid that was held and is no more does not come back, while it is among the last terms kept. In the process: after its release was sent a
/// bid is neither renewed nor led.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let (mut holder, mut ended, mut terms) = (None, BTreeMap::new(), 0_usize);
    let (mut released, mut bids) = (BTreeSet::new(), BTreeMap::new());
    for entry in &trace.entries {
        let who = entry.who;
        match &entry.what {
            What::Stored(stored) => {
                // Whether the lease has run out is not looked at: where observers time it, the server cannot tell.
                let held = stored.holder.map(|(bid, _)| bid);
                if let Some(bid) = held {
                    bids.insert(stored.token, bid);
                    // A store that lost data may find itself in an earlier state.
                    let known = ended.get(&bid).is_some_and(|end| terms - end < LAST_TERMS);
                    if trace.promises.exclusion && known {
                        return Err((entry.at, format!("bid {bid:?} is held again in {:?}", stored.token)));
                    }
                }
                if holder != held {
                    if let Some(before) = holder {
                        terms += 1;
                        ended.insert(before, terms);
                    }
                    holder = held;
                }
            }
            What::Sent { verb: Verb::Release, bid, .. } => drop(released.insert((who, *bid))),
            What::Sent { verb: Verb::Renew, bid, .. } if released.contains(&(who, *bid)) => {
                return Err((entry.at, format!("{who} renews bid {bid:?} after it sent a release for it")));
            }
            What::Elected { token, .. }
                if bids.get(token).is_some_and(|bid| released.contains(&(who, *bid))) =>
            {
                return Err((entry.at, format!("{who} leads {token:?} although it sent a release for it")));
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
    fn a_bid_that_is_held_again_is_found() {
        assert!(
            check(&trace(vec![(0, 0, held(1, 1, T1)), (1, 0, held(1, 2, T1)), (2, 0, held(2, 3, T2))]))
                .is_ok()
        );
        assert!(
            check(&trace(vec![(0, 0, held(1, 1, T1)), (1, 0, held(2, 2, T2)), (2, 0, held(1, 1, T1))]))
                .is_err()
        );
    }

    #[test]
    fn renewing_or_leading_after_a_release_is_found() {
        let release = sent(Verb::Release, 1, 9, 0, T1);
        for after in [sent(Verb::Renew, 1, 10, 0, T1), elected(T1)] {
            let entries = vec![(0, 0, held(1, 1, T1)), (1, 0, release.clone()), (2, 0, after.clone())];
            assert!(check(&trace(entries)).is_err());
            assert!(check(&trace(vec![(0, 0, held(1, 1, T1)), (2, 0, after)])).is_ok());
        }
    }
}
