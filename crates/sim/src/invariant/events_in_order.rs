//! Events come without gaps, each term as Elected … TermEnded.

use std::collections::BTreeMap;

use super::Breach;
use crate::trace::{Told, Trace, What};

/// Checks the sequence numbers and the brackets of each elector's events.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    // Of each process: the next number, the term that it is in, whether it has stopped.
    let mut places = BTreeMap::new();
    for entry in &trace.entries {
        let What::Told(sequence, told) = entry.what else { continue };
        let who = entry.who;
        let (next, term, stopped) = places.entry(who).or_insert((0, None, false));
        if sequence != *next || matches!(told, Told::Missed(_)) {
            return Err((entry.at, format!("{who} told event {sequence} ({told:?}) in place of {next}")));
        }
        *next += 1;
        // Releases go on in the background, also after the end.
        if matches!(told, Told::ReleaseFailed(_)) {
            continue;
        }
        let fits = !*stopped
            && match told {
                Told::Elected(token) => term.replace(token).is_none(),
                Told::TermEnded(token, _) => term.take() == Some(token),
                Told::RenewFailed(token)
                | Told::Requested(token, _)
                | Told::IdentityShared(token)
                | Told::CallbackFailed(token)
                | Told::Overrun(token)
                | Told::LostWhileDraining(token) => *term == Some(token),
                Told::Stopped => {
                    *stopped = true;
                    term.is_none()
                }
                _ => true,
            };
        if !fits {
            return Err((entry.at, format!("{who} told {told:?} where it does not belong")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, T2, trace};
    use super::*;
    use crate::trace::Reason;

    fn told(events: &[(u64, Told)]) -> Result<(), Breach> {
        check(&trace(events.iter().map(|(number, told)| (*number, 0, What::Told(*number, *told))).collect()))
    }

    #[test]
    fn gaps_and_events_out_of_place_are_found() {
        let end = Told::TermEnded(T1, Reason::Lost);
        assert!(
            told(&[(0, Told::Elected(T1)), (1, Told::RenewFailed(T1)), (2, end), (3, Told::Stopped)]).is_ok()
        );
        assert!(told(&[(0, Told::Elected(T1)), (2, end)]).is_err(), "a gap");
        assert!(told(&[(0, end)]).is_err(), "an end without a beginning");
        assert!(told(&[(0, Told::Elected(T1)), (1, Told::Elected(T2))]).is_err(), "a term without an end");
        assert!(told(&[(0, Told::Elected(T1)), (1, end), (2, Told::Overrun(T1))]).is_err(), "after its end");
        assert!(told(&[(0, Told::Stopped), (1, Told::LeaderChanged)]).is_err(), "after the last");
        assert!(told(&[(0, Told::Missed(3))]).is_err());
    }
}
