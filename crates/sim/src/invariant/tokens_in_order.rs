//! Tokens rise, each above all seen by whoever bids.

use std::collections::BTreeMap;

use super::Breach;
use crate::trace::{State, Trace, Verb, What};

/// Each term's token is above all before it, and each grant above what its bid said to have seen.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    if !trace.promises.tokens {
        return Ok(());
    }
    let (mut led, mut granted) = (None, BTreeMap::new());
    let mut floors = BTreeMap::new();
    for entry in &trace.entries {
        match &entry.what {
            What::Elected { token, .. } => {
                if Some(*token) <= led {
                    return Err((entry.at, format!("{} leads {token:?} after {led:?} was led", entry.who)));
                }
                led = Some(*token);
            }
            What::Sent { verb: Verb::Acquire, bid, token, .. } => drop(floors.insert(*bid, *token)),
            What::Stored(stored) if stored.state == State::Held => {
                let Some((bid, _)) = stored.holder else { continue };
                if granted.insert(bid, stored.token).is_none()
                    && floors.get(&bid).is_some_and(|floor| stored.token <= *floor)
                {
                    return Err((
                        entry.at,
                        format!("{:?} was granted to a bid that had seen it", stored.token),
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
    fn a_token_that_does_not_rise_is_found() {
        assert!(check(&trace(vec![(0, 0, elected(T1)), (1, 1, elected(T2))])).is_ok());
        assert!(check(&trace(vec![(0, 0, elected(T2)), (1, 1, elected(T1))])).is_err());
        assert!(check(&trace(vec![(0, 0, elected(T1)), (1, 1, elected(T1))])).is_err());
    }

    #[test]
    fn a_grant_at_or_below_the_floor_is_found() {
        let grant = |floor| vec![(0, 0, sent(Verb::Acquire, 1, 1, 0, floor)), (1, 0, held(1, 1, T2))];
        assert!(check(&trace(grant(T1))).is_ok());
        assert!(check(&trace(grant(T2))).is_err());
    }
}
