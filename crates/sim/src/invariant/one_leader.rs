//! At most one valid leader by true time.

use super::Breach;
use crate::trace::{Trace, What};

/// Once a term has begun, no other term's leader is told that it leads.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    if !trace.promises.exclusion {
        return Ok(());
    }
    let mut leader = None;
    for entry in &trace.entries {
        let (token, how) = match entry.what {
            What::Elected { token, .. } => {
                leader = Some((entry.who, token));
                continue;
            }
            What::Asked { token, answer: true, .. } => (token, "was told that it leads"),
            What::Valid(token) => (token, "has permission"),
            _ => continue,
        };
        if let Some((newer, newest)) = leader
            && (newer, newest) != (entry.who, token)
        {
            let who = entry.who;
            return Err((
                entry.at,
                format!("{who} in term {token:?} {how} although {newer} leads {newest:?}"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, T2, asked, elected, trace, unpromised};
    use super::*;

    #[test]
    fn one_after_the_other_is_fine() {
        let good =
            vec![(0, 0, elected(T1)), (1, 0, asked(T1, true)), (2, 1, elected(T2)), (3, 0, asked(T1, false))];
        assert!(check(&trace(good)).is_ok());
    }

    #[test]
    fn an_older_leader_that_is_told_yes_or_could_be_is_found() {
        for late in [asked(T1, true), What::Valid(T1)] {
            let bad = vec![(0, 0, elected(T1)), (2, 1, elected(T2)), (3, 0, late)];
            assert!(check(&trace(bad.clone())).is_err());
            assert!(check(&unpromised(bad)).is_ok());
        }
    }
}
