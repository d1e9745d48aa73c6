//! Where exclusion is not promised, an overlap stays within its bound.

use std::time::Duration;

use super::Breach;
use crate::trace::{Trace, What, Who};
use tenure_core::FencingToken;

/// After a term has begun, an older one is told that it leads for at most the promised part of a ttl.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    if trace.promises.exclusion {
        return Ok(());
    }
    let bound = trace.promises.ttl.mul_f64(trace.promises.overlap_ttls);
    match longest(trace) {
        Some((at, overlap, who, token)) if overlap > bound => Err((
            at,
            format!("{who} led {token:?} for {overlap:?} beside a newer term; at most {bound:?} is promised"),
        )),
        _ => Ok(()),
    }
}

/// Finds the longest overlap: when it ended, how long it was, and who led too long.
pub(super) fn longest(trace: &Trace) -> Option<(Duration, Duration, Who, FencingToken)> {
    // Of each term: who, which, since when, and when it last was told that it leads.
    let mut terms: Vec<(Who, FencingToken, Duration, Duration)> = Vec::new();
    for entry in &trace.entries {
        match entry.what {
            What::Elected { token, .. } => terms.push((entry.who, token, entry.at, entry.at)),
            What::Asked { token, answer: true, .. } | What::Valid(token) => {
                if let Some(term) = terms.iter_mut().rfind(|term| (term.0, term.1) == (entry.who, token)) {
                    term.3 = entry.at;
                }
            }
            _ => {}
        }
    }
    let mut longest: Option<(Duration, Duration, Who, FencingToken)> = None;
    for (place, (who, token, _, told)) in terms.iter().enumerate() {
        for (_, _, began, newer_told) in terms[place + 1..].iter().filter(|newer| newer.0 != *who) {
            let ended = *told.min(newer_told);
            let overlap = ended.saturating_sub(*began);
            if !overlap.is_zero() && longest.is_none_or(|longest| overlap > longest.1) {
                longest = Some((ended, overlap, *who, *token));
            }
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, T2, asked, elected, unpromised};
    use super::*;

    #[test]
    fn an_overlap_lasts_while_both_are_told_that_they_lead() {
        let overlap = |older: u64, newer: u64| {
            let (older, newer) = ((100 + older, 0, asked(T1, true)), (100 + newer, 1, asked(T2, true)));
            check(&unpromised(vec![(0, 0, elected(T1)), (100, 1, elected(T2)), older, newer]))
        };
        assert!(overlap(900, 2000).is_ok());
        assert!(overlap(2000, 900).is_ok(), "the newer one has ended");
        assert!(overlap(1100, 1200).is_err());
    }
}
