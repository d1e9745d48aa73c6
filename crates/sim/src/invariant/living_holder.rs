//! Every lease has a living holder or ends within ttl + the longest call.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Breach;
use crate::trace::{State, Told, Trace, Verb, What};

/// A lease is not extended any more once its holder is gone for longer than any message can be under way.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    if !trace.promises.exclusion {
        // A store that lost data may find itself in an earlier state, with a lease that lives on there.
        return Ok(());
    }
    let (mut holders, mut gone) = (BTreeMap::new(), BTreeMap::new());
    let mut ended = BTreeMap::new();
    let mut last = None;
    // What the server's clock may be off by, over one ttl.
    let slack = trace.promises.ttl / 8;
    for entry in &trace.entries {
        match &entry.what {
            What::Sent { verb: Verb::Acquire, bid, .. } => drop(holders.insert(*bid, entry.who)),
            What::Crashed => drop(gone.insert(entry.who, entry.at)),
            What::Told(_, Told::TermEnded(token, _)) => drop(ended.insert((entry.who, *token), entry.at)),
            What::Stored(stored) if stored.state == State::Held => {
                let Some((bid, attempt)) = stored.holder else { continue };
                let ends = stored.left.map_or(Duration::ZERO, |left| entry.at + left);
                let same = |(before, at): (_, Duration)| before == (bid, attempt) && ends <= at + slack;
                let extended = !last.is_some_and(same);
                last = Some(((bid, attempt), ends));
                let Some(who) = holders.get(&bid) else { continue };
                let since = gone.get(who).or(ended.get(&(*who, stored.token)));
                if let Some(since) = since
                    && extended
                    && entry.at > *since + trace.promises.longest_call
                {
                    let what = format!(
                        "the lease {:?} of {who} was extended; {who} is gone since {since:?}",
                        stored.token
                    );
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
    use super::super::testing::{T1, held, sent, trace};
    use super::*;

    #[test]
    fn a_lease_that_outlives_its_holder_is_found() {
        let extended_at = |ms| {
            let bid = sent(Verb::Acquire, 1, 1, 0, T1);
            trace(vec![(0, 0, bid), (1, 0, held(1, 1, T1)), (100, 0, What::Crashed), (ms, 0, held(1, 2, T1))])
        };
        assert!(check(&extended_at(500)).is_ok(), "sent before");
        assert!(check(&extended_at(700)).is_err());
    }
}
