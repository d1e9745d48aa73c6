//! No work of an older term after a newer term's permission began, and none after a loss was heard.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Breach;
use crate::trace::{Outcome, Told, Trace, Verb, What};

/// The grain of simulated timers (1 ms), for the wake-up, what follows, and who of several is first.
const GRAIN: Duration = Duration::from_millis(4);

/// Work may lag in three ways only: it was overtaken by a pause between question and act (the fence is for that), the
/// whole process has just woken up from a pause (`latency` pays for that), or its overrun was reported.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let mut leader = None;
    let (mut latency, mut awake) = (BTreeMap::new(), BTreeMap::<_, Duration>::new());
    let (mut overran, mut tokens, mut lost) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
    for entry in &trace.entries {
        let who = entry.who;
        match &entry.what {
            What::Started { latency: l, .. } => drop(latency.insert(who, *l)),
            What::Paused(d) => {
                let until = awake.entry(who).or_default();
                *until = (*until).max(entry.at + *d);
            }
            What::Elected { token, .. } => leader = Some((who, *token)),
            What::Told(_, Told::Overrun(token)) => drop(overran.insert((who, *token))),
            What::Sent { verb: Verb::Renew, bid, token, .. } => drop(tokens.insert(*bid, *token)),
            What::Answered { verb: Verb::Renew, bid, outcome: Outcome::No, .. } => {
                if let Some(token) = tokens.get(bid) {
                    lost.entry((who, *token)).or_insert(entry.at);
                }
            }
            What::Acted { token, overtaken, draining, .. } => {
                // By its own clocks, which may be a tenth too slow.
                let grace = latency.get(&who).copied().unwrap_or_default() * 10 / 9 + GRAIN;
                let just_awake = awake.get(&who).is_some_and(|awake| entry.at <= *awake + grace);
                if *overtaken || just_awake || overran.contains(&(who, *token)) {
                    continue;
                }
                if lost.get(&(who, *token)).is_some_and(|heard| entry.at > *heard + grace) {
                    return Err((
                        entry.at,
                        format!("{who} worked in term {token:?} after it heard of its loss"),
                    ));
                }
                if trace.promises.exclusion && leader.is_some_and(|leader| leader != (who, *token)) {
                    let how = if *draining { "still worked" } else { "acted" };
                    return Err((
                        entry.at,
                        format!("{who} {how} in term {token:?} although {leader:?} leads"),
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
    use super::super::testing::{T1, T2, acted, attempt, bid, elected, sent, started, trace};
    use super::*;

    fn after_a_newer_term(between: Vec<(u64, u16, What)>, late: What) -> Result<(), Breach> {
        let mut entries = vec![(0, 0, started()), (0, 0, elected(T1)), (1, 1, elected(T2))];
        entries.extend(between);
        entries.push((900, 0, late));
        check(&trace(entries))
    }

    #[test]
    fn work_of_an_older_term_is_found_unless_excused() {
        assert!(after_a_newer_term(vec![], acted(T1, true)).is_err());
        assert!(after_a_newer_term(vec![], acted(T1, false)).is_err());
        let overtaken = What::Acted { token: T1, overtaken: true, draining: false, accepted: false };
        assert!(after_a_newer_term(vec![], overtaken).is_ok());
        let overrun = (2, 0, What::Told(0, Told::Overrun(T1)));
        assert!(after_a_newer_term(vec![overrun], acted(T1, true)).is_ok());
        let pause = |ms| vec![(2, 0, What::Paused(Duration::from_millis(ms)))];
        assert!(after_a_newer_term(pause(890), acted(T1, true)).is_ok());
        assert!(after_a_newer_term(pause(100), acted(T1, true)).is_err(), "latency is over");
    }

    #[test]
    fn work_after_a_heard_loss_is_found() {
        let answer =
            What::Answered { verb: Verb::Renew, bid: bid(1), attempt: attempt(1), outcome: Outcome::No };
        let entries = |ms| {
            let renew = sent(Verb::Renew, 1, 1, 5, T1);
            vec![
                (0, 0, started()),
                (0, 0, elected(T1)),
                (5, 0, renew),
                (9, 0, answer.clone()),
                (ms, 0, acted(T1, true)),
            ]
        };
        assert!(check(&trace(entries(50))).is_ok());
        assert!(check(&trace(entries(200))).is_err());
    }
}
