//! Reads all stamps and all writes, and says what must not have happened.

use tenure_core::FencingToken;

use crate::stamps::Term;

/// What must not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// A term still had permission when another one had it already.
    Overlap { earlier: Term, later: Term },
    /// A term that began later has no higher token.
    TokenNotRisen { earlier: Term, later: Term },
    /// A write was accepted after one with a higher token.
    LateWrite { token: FencingToken, after: FencingToken },
    /// A write was accepted of a term that nobody had.
    UnknownWrite { token: FencingToken },
}

/// Judges what happened: the terms of all processes, and the tokens of all writes in the order in which they were accepted.
pub fn judge(terms: &[Term], journal: &[FencingToken]) -> Vec<Complaint> {
    let mut terms = terms.to_vec();
    terms.sort_by_key(|term| term.from);
    let mut complaints = Vec::new();
    // The one of all before that had permission the longest.
    let mut longest: Option<&Term> = None;
    for (index, later) in terms.iter().enumerate() {
        // At the last sample of the one, the first of the other was over: both had permission then.
        if let Some(earlier) = longest.filter(|earlier| earlier.to >= later.from) {
            complaints.push(Complaint::Overlap { earlier: earlier.clone(), later: later.clone() });
        }
        if let Some(earlier) = terms[..index].iter().find(|earlier| earlier.token >= later.token) {
            complaints.push(Complaint::TokenNotRisen { earlier: earlier.clone(), later: later.clone() });
        }
        if longest.is_none_or(|longest| longest.to < later.to) {
            longest = Some(later);
        }
    }
    for pair in journal.windows(2).filter(|pair| pair[1] < pair[0]) {
        complaints.push(Complaint::LateWrite { token: pair[1], after: pair[0] });
    }
    let unknown = journal.iter().filter(|token| terms.iter().all(|term| term.token != **token));
    complaints.extend(unknown.map(|token| Complaint::UnknownWrite { token: *token }));
    complaints
}

/// The judge itself is judged: each of these is something that it must see.
mod tests {
    use std::time::Duration;

    use super::*;

    fn term(holder: &str, token: u64, from_ms: u64, to_ms: u64) -> Term {
        let (from, to) = (Duration::from_millis(from_ms), Duration::from_millis(to_ms));
        Term { holder: holder.to_owned(), token: FencingToken(token), from, to, samples: 2 }
    }

    fn names(complaints: &[Complaint]) -> Vec<&'static str> {
        let name = |complaint: &Complaint| match complaint {
            Complaint::Overlap { .. } => "overlap",
            Complaint::TokenNotRisen { .. } => "token not risen",
            Complaint::LateWrite { .. } => "late write",
            Complaint::UnknownWrite { .. } => "unknown write",
        };
        complaints.iter().map(name).collect()
    }

    fn writes(tokens: &[u64]) -> Vec<FencingToken> {
        tokens.iter().copied().map(FencingToken).collect()
    }

    #[test]
    fn terms_one_after_the_other_are_as_they_should_be() {
        // A term with one sample ends, as far as is known, before it begins.
        let terms = [term("b", 5, 31, 30), term("a", 3, 10, 20), term("a", 9, 40, 50)];
        assert_eq!(judge(&terms, &writes(&[3, 3, 5, 9])), []);
    }

    #[test]
    fn two_that_lead_at_once_are_seen() {
        let (first, second) = (term("a", 1, 10, 30), term("b", 2, 30, 40));
        assert_eq!(names(&judge(&[second.clone(), first.clone()], &[])), ["overlap"]);
        // Also where a third one led in between, and where a process overlaps with itself.
        let inside = [term("a", 1, 10, 90), term("b", 2, 20, 30), term("c", 3, 80, 85)];
        assert_eq!(names(&judge(&inside, &[])), ["overlap", "overlap"]);
        assert_eq!(names(&judge(&[first, term("a", 2, 20, 40)], &[])), ["overlap"]);
    }

    #[test]
    fn a_token_that_does_not_rise_is_seen() {
        let lower = [term("a", 7, 10, 20), term("b", 6, 30, 40)];
        assert_eq!(names(&judge(&lower, &[])), ["token not risen"]);
        let same = [term("a", 7, 10, 20), term("b", 7, 30, 40)];
        assert_eq!(names(&judge(&same, &[])), ["token not risen"]);
        let later = [term("a", 7, 10, 20), term("b", 8, 30, 40), term("c", 7, 50, 60)];
        assert_eq!(names(&judge(&later, &[])), ["token not risen"]);
    }

    #[test]
    fn a_write_of_an_older_term_is_seen() {
        let terms = [term("a", 1, 10, 20), term("b", 2, 30, 40)];
        assert_eq!(names(&judge(&terms, &writes(&[1, 2, 1]))), ["late write"]);
        assert_eq!(names(&judge(&terms, &writes(&[1, 2, 3]))), ["unknown write"]);
    }
}
