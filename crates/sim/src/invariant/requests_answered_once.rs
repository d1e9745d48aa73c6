//! Each request is answered once, by the term it names, and no term ends unasked.

use std::collections::{BTreeMap, BTreeSet};

use super::Breach;
use crate::trace::{Reason, Told, Trace, What};

/// Answers appear once and under the token that the request names; whoever resigns or hands off was asked to.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let (mut named, mut answered, mut told) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
    let mut asked = BTreeSet::new();
    let mut last = None;
    for entry in &trace.entries {
        let who = entry.who;
        match &entry.what {
            What::Requested(token, id) => drop(named.insert(*id, *token)),
            What::Commanded(token) => drop(asked.insert((who, *token))),
            What::Told(_, Told::Requested(token, id)) => {
                if !told.insert(*id) {
                    return Err((entry.at, format!("request {id:?} was taken up twice")));
                }
                if named.get(id).is_some_and(|named| named != token) {
                    return Err((entry.at, format!("request {id:?} was taken up by term {token:?}")));
                }
                asked.insert((who, *token));
            }
            What::Told(_, Told::TermEnded(token, Reason::Resigned | Reason::HandedOff(_)))
                if !asked.contains(&(who, *token)) =>
            {
                return Err((entry.at, format!("{who} gave up term {token:?} unasked")));
            }
            What::Stored(stored) if stored.answered != last => {
                last = stored.answered;
                let Some(id) = last else { continue };
                let in_place = named.get(&id).is_none_or(|token| *token == stored.token);
                if !answered.insert(id) || !in_place {
                    return Err((
                        entry.at,
                        format!("request {id:?} was answered in term {:?}", stored.token),
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
    use super::super::testing::{T1, T2, request, stored, trace};
    use super::*;
    use crate::trace::Stored;

    fn answer(id: u64, token: tenure_core::FencingToken) -> What {
        What::Stored(Stored { answered: Some(request(id)), ..stored(1, 1, token) })
    }

    #[test]
    fn a_request_answered_twice_or_by_another_term_is_found() {
        let wish = |id| (0, 9, What::Requested(T1, request(id)));
        assert!(check(&trace(vec![wish(1), (1, 9, answer(1, T1)), wish(2), (2, 9, answer(2, T1))])).is_ok());
        assert!(check(&trace(vec![wish(1), (1, 9, answer(1, T2))])).is_err());
        let twice =
            vec![wish(1), wish(2), (1, 9, answer(1, T1)), (2, 9, answer(2, T1)), (3, 9, answer(1, T1))];
        assert!(check(&trace(twice)).is_err());
    }

    #[test]
    fn a_term_given_up_unasked_is_found() {
        let end = (5, 0, What::Told(1, Told::TermEnded(T1, Reason::Resigned)));
        assert!(check(&trace(vec![(1, 0, What::Commanded(T1)), end.clone()])).is_ok());
        let taken_up = What::Told(0, Told::Requested(T1, request(1)));
        assert!(
            check(&trace(vec![
                (0, 9, What::Requested(T1, request(1))),
                (1, 0, taken_up.clone()),
                end.clone()
            ]))
            .is_ok()
        );
        assert!(check(&trace(vec![(0, 9, What::Requested(T2, request(1))), (1, 0, taken_up)])).is_err());
        assert!(check(&trace(vec![end])).is_err());
    }
}
