//! No fenced write of an older term is accepted after the first one of a newer term.

use std::collections::BTreeMap;

use super::Breach;
use crate::trace::{Trace, What};

/// Older and newer by the tokens, and, where they are promised to rise, by the order of the elections too.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let mut order = BTreeMap::new();
    let (mut highest, mut latest) = (None, None);
    for entry in &trace.entries {
        match entry.what {
            What::Elected { token, .. } => {
                let next = order.len();
                // A copy of a process has the same token: for the resource it is the same term.
                order.entry(token).or_insert(next);
            }
            What::Acted { token, accepted: true, .. } => {
                if Some(token) < highest {
                    return Err((entry.at, format!("a write with {token:?} got in after {highest:?}")));
                }
                let place = order.get(&token).copied();
                if trace.promises.tokens && place < latest {
                    return Err((
                        entry.at,
                        format!("a write of the older term {token:?} got in after a newer one's"),
                    ));
                }
                (highest, latest) = (highest.max(Some(token)), latest.max(place));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, T2, acted, elected, trace};
    use super::*;

    #[test]
    fn an_older_write_after_a_newer_one_is_found() {
        let entries = |first, second| {
            vec![
                (0, 0, elected(T1)),
                (1, 1, elected(T2)),
                (2, 0, acted(first, false)),
                (3, 1, acted(second, false)),
            ]
        };
        assert!(check(&trace(entries(T1, T2))).is_ok());
        assert!(check(&trace(entries(T2, T1))).is_err());
    }

    #[test]
    fn tokens_that_went_back_are_found_too() {
        let entries = vec![
            (0, 0, elected(T2)),
            (1, 1, elected(T1)),
            (2, 1, acted(T1, false)),
            (3, 0, acted(T2, false)),
        ];
        assert!(check(&trace(entries)).is_err(), "the older term has the higher token");
    }
}
