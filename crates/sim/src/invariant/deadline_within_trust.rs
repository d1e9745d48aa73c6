//! A deadline never exceeds the applied attempt's send + ttl × (1 − drift) − latency − drain.

use std::collections::BTreeMap;

use super::Breach;
use crate::trace::{State, Trace, What};

/// Compares each deadline with the latest send of an attempt of the same process that the server has applied.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let (mut trust, mut sends) = (BTreeMap::new(), BTreeMap::new());
    let mut anchors = BTreeMap::new();
    for entry in &trace.entries {
        match &entry.what {
            What::Started { trust: t, .. } => drop(trust.insert(entry.who, *t)),
            What::Sent { attempt, moment, .. } => drop(sends.insert(*attempt, (entry.who, *moment))),
            What::Stored(stored) if stored.state == State::Held => {
                if let Some((_, attempt)) = stored.holder
                    && let Some((who, moment)) = sends.get(&attempt)
                {
                    let anchor = anchors.entry((*who, stored.token)).or_insert(*moment);
                    *anchor = anchor.later_of(*moment);
                }
            }
            What::Elected { token, deadline: Some(deadline) }
            | What::Asked { token, deadline: Some(deadline), .. } => {
                // Nothing of its own was applied: it goes on from what a copied process had sent.
                let Some(anchor) = anchors.get(&(entry.who, *token)) else { continue };
                let bound = anchor.plus(trust.get(&entry.who).copied().unwrap_or_default());
                if deadline.boot() > bound.boot() || deadline.raw() > bound.raw() {
                    let over = deadline.time_since(bound);
                    let what =
                        format!("{} may lead {token:?} for {over:?} longer than its send allows", entry.who);
                    return Err((entry.at, what));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, held, moment, sent, started, trace};
    use super::*;
    use crate::trace::Verb;

    #[test]
    fn a_deadline_past_the_applied_attempts_trust_is_found() {
        let until = |ms| {
            let deadline = Some(moment(ms));
            vec![
                (0, 0, started()),
                (0, 0, sent(Verb::Acquire, 1, 1, 100, T1)),
                (5, 0, sent(Verb::Acquire, 1, 2, 300, T1)),
                (6, 0, held(1, 1, T1)),
                (7, 0, What::Elected { token: T1, deadline }),
            ]
        };
        assert!(check(&trace(until(800))).is_ok());
        assert!(check(&trace(until(801))).is_err(), "the second attempt was not applied");
    }
}
