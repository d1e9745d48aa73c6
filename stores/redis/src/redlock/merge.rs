//! What several nodes show together: a term counts only where a majority has it.

use std::time::Duration;

use tenure_core::store::{Answered, LeaseRecord, Pause, RecordState};
use tenure_core::{BidId, CandidateId, FencingToken};

use crate::watch::is_foreign;

/// How many nodes there are, and how many decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quorum {
    pub(super) nodes: usize,
}

/// What one node that answered shows: its record, if it has one.
pub(super) type Shown = Option<LeaseRecord>;

/// A term, as far as two nodes can agree on it.
type TermKey<'a> = (FencingToken, BidId, &'a CandidateId);

impl Quorum {
    pub(super) fn majority(self) -> usize {
        self.nodes / 2 + 1
    }

    /// Returns how many nodes may be against something that happens all the same.
    pub(super) fn minority(self) -> usize {
        self.nodes - self.majority()
    }

    /// Returns the term that most of those who answered hold, and the records that show it, the newest first.
    fn strongest(self, shown: &[Shown]) -> Option<Vec<&LeaseRecord>> {
        let held: Vec<_> =
            shown.iter().flatten().filter_map(|record| Some((term(record)?, record))).collect();
        let size = |key: &TermKey<'_>| held.iter().filter(|(other, _)| other == key).count();
        let key = held.iter().map(|(key, _)| *key).max_by_key(|key| (size(key), key.0))?;
        let mut of_term: Vec<_> =
            held.iter().filter(|(other, _)| *other == key).map(|(_, record)| *record).collect();
        of_term.sort_by_key(|record| std::cmp::Reverse((renew_count(record), record.request.is_some())));
        Some(of_term)
    }

    /// Returns what the nodes of the term that a majority holds show of it: as new as a majority has it.
    pub(super) fn counted(self, shown: &[Shown]) -> Option<&LeaseRecord> {
        self.strongest(shown)?.get(self.majority() - 1).copied()
    }

    /// Tells whether those who are silent could not change what the others show together.
    pub(super) fn is_settled(self, shown: &[Shown]) -> bool {
        let silent = self.nodes - shown.len();
        if shown.len() < self.majority() {
            return false;
        }
        if silent == 0 {
            return true;
        }
        match self.strongest(shown) {
            Some(of_term) if of_term.len() + silent >= self.majority() => {
                let newest = renew_count(of_term[0]);
                let as_new = of_term.iter().filter(|record| renew_count(record) == newest).count();
                as_new >= self.majority()
            }
            _ => {
                let closed =
                    shown.iter().flatten().filter(|record| closed_for(record) > Duration::ZERO).count();
                closed > self.minority() || closed + silent <= self.minority()
            }
        }
    }

    /// Returns what the nodes show together; those that are silent may hold what the others show. At least a majority
    /// must have answered.
    pub(super) fn together(self, shown: &[Shown]) -> Option<LeaseRecord> {
        if shown.iter().all(Option::is_none) {
            return None;
        }
        let silent = self.nodes - shown.len();
        let pause = self.pause(shown);
        let paused = pause.as_ref().map_or(Duration::ZERO, |pause| pause.ends_in);
        if let Some(of_term) = self.strongest(shown)
            && of_term.len() + silent >= self.majority()
        {
            let left = of_term.iter().map(|record| record.time_left.unwrap_or(Duration::MAX)).collect();
            let left = Some(self.opening(left, shown.len())).filter(|left| *left != Duration::MAX);
            return Some(LeaseRecord {
                state: RecordState::Held,
                time_left: left,
                opens_in: left.map(|left| left.max(paused)),
                pause,
                answer: answer(&of_term),
                ..of_term[0].clone()
            });
        }
        let mut record = newest(shown.iter().flatten())?.clone();
        if record.state == RecordState::Held {
            // A vote that was not enough is no term.
            record.holder = None;
        }
        let mut each: Vec<_> =
            shown.iter().map(|shown| shown.as_ref().map(|one| (closed_for(one), one))).collect();
        each.sort_by_key(|one| std::cmp::Reverse(one.map_or(Duration::ZERO, |(closed, _)| closed)));
        // When this one opens, a majority of those who answered is open.
        let last = each.get(shown.len().saturating_sub(self.majority())).copied().flatten();
        let last = last.filter(|(closed, _)| !closed.is_zero());
        record.state = match last {
            None => RecordState::Free,
            // Votes of several bidders, of which nobody has enough: they give them back, or have gone.
            Some((_, one)) if one.state == RecordState::Held => RecordState::Reserved { successor: None },
            Some((_, one)) => one.state.clone(),
        };
        let closed = last.map_or(Duration::ZERO, |(closed, _)| closed);
        record.opens_in = Some(closed).filter(|closed| *closed != Duration::MAX);
        record.time_left = None;
        record.pause = pause;
        record.request = None;
        Some(record)
    }

    /// Returns after how long a majority of those who answered is free of something that some of them have for so long.
    fn opening(self, mut lasts: Vec<Duration>, answered: usize) -> Duration {
        lasts.sort_unstable_by(|a, b| b.cmp(a));
        lasts.get(answered.saturating_sub(self.majority())).copied().unwrap_or_default()
    }

    /// Returns the pause that keeps a majority from being reached.
    fn pause(self, shown: &[Shown]) -> Option<Pause> {
        let mut pauses: Vec<_> = shown.iter().flatten().filter_map(|record| record.pause.as_ref()).collect();
        pauses.sort_by_key(|pause| std::cmp::Reverse(pause.ends_in));
        pauses.get(shown.len().saturating_sub(self.majority())).copied().cloned()
    }
}

/// Returns the term that a node holds now. Foreign software has no tokens.
fn term(record: &LeaseRecord) -> Option<TermKey<'_>> {
    let holder = record.leader()?;
    let token = if is_foreign(record) { FencingToken::ZERO } else { record.token };
    Some((token, holder.bid, &holder.candidate))
}

pub(super) fn renew_count(record: &LeaseRecord) -> u64 {
    record.holder.as_ref().map_or(0, |holder| holder.renew_count)
}

/// Returns what became of the last request, as those say who have the last renewal, which brings the answer; of several
/// answers what most of them say. A node that voted after it was asked has neither the request nor its answer.
fn answer(of_term: &[&LeaseRecord]) -> Option<Answered> {
    let answers = || of_term.iter().filter_map(|record| Some((renew_count(record), record.answer.as_ref()?)));
    let same = |one: &Answered| answers().filter(|(_, other)| *other == one).count();
    // Of several the last one counts: the newest records come first.
    answers().rev().max_by_key(|(renewals, one)| (*renewals, same(one))).map(|(_, one)| one.clone())
}

/// How long a node gives no vote to a newcomer.
fn closed_for(record: &LeaseRecord) -> Duration {
    match record.state {
        RecordState::Free => Duration::ZERO,
        // Without an end: until somebody looks again.
        _ => record.opens_in.unwrap_or(Duration::MAX),
    }
}

/// Returns the record of the last term that is not a mere vote, if there is one. A node that knows how the term ended knows
/// more than one that does not; and the release may have overtaken a renewal on its way to a node, but not to all of them.
pub(super) fn newest<'a>(records: impl Iterator<Item = &'a LeaseRecord>) -> Option<&'a LeaseRecord> {
    records.max_by_key(|record| {
        let voted = record.state == RecordState::Held;
        (!voted, record.token, record.holder.is_none(), renew_count(record), record.renew_total)
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use tenure_core::name::RequestId;
    use tenure_core::store::{Answer, Holder, Metadata, Origin};
    use tenure_core::{Attempt, ElectionName, Random};

    use super::*;

    const FIVE: Quorum = Quorum { nodes: 5 };

    fn free(token: u64) -> LeaseRecord {
        LeaseRecord {
            election: ElectionName::new("e").unwrap(),
            state: RecordState::Free,
            token: FencingToken(token),
            holder: None,
            time_left: None,
            opens_in: Some(Duration::ZERO),
            renew_total: 0,
            last_terms: Vec::new(),
            pause: None,
            request: None,
            answer: None,
            last_success: None,
        }
    }

    fn held(token: u64, by: u64, renewals: u64, left: u64) -> LeaseRecord {
        let random = Random::from_seed(by);
        let left = Some(Duration::from_secs(left));
        let holder = Holder {
            candidate: CandidateId::new(format!("candidate-{by}")).unwrap(),
            identity: None,
            origin: Origin::default(),
            bid: BidId::new(&random),
            attempt: Attempt::new(&random),
            ttl: Duration::from_secs(30),
            metadata: Metadata::new(),
            acquired_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1),
            renewed_at: SystemTime::UNIX_EPOCH,
            renew_count: renewals,
            previous: None,
        };
        let state = RecordState::Held;
        LeaseRecord { state, holder: Some(holder), time_left: left, opens_in: left, ..free(token) }
    }

    fn secs(record: &LeaseRecord) -> Option<u64> {
        record.opens_in.map(|left| left.as_secs())
    }

    #[test]
    fn a_term_counts_only_with_a_majority_of_one_token() {
        let three =
            [Some(held(7, 1, 0, 9)), None, Some(held(7, 1, 0, 8)), Some(free(6)), Some(held(7, 1, 0, 7))];
        let record = FIVE.together(&three).unwrap();
        assert_eq!((record.state, record.token), (RecordState::Held, FencingToken(7)));
        // Two of one token and one of another are no three.
        let split =
            [Some(held(7, 1, 0, 9)), None, Some(held(7, 1, 0, 8)), Some(free(6)), Some(held(8, 1, 0, 7))];
        let record = FIVE.together(&split).unwrap();
        assert_eq!(
            (record.state, record.token, record.holder),
            (RecordState::Reserved { successor: None }, FencingToken(6), None)
        );
        assert_eq!(FIVE.counted(&split), None);
    }

    #[test]
    fn it_is_over_when_a_majority_of_those_who_answer_can_be_had_again() {
        let of = |lefts: &[u64]| lefts.iter().map(|left| Some(held(7, 1, 0, *left))).collect::<Vec<_>>();
        assert_eq!(secs(&FIVE.together(&of(&[5, 4, 3, 2, 1])).unwrap()), Some(3));
        assert_eq!(secs(&FIVE.together(&of(&[5, 4, 3])).unwrap()), Some(5), "all three are needed");
    }

    #[test]
    fn those_who_are_silent_may_hold_what_the_others_show() {
        let seen = [Some(held(7, 1, 0, 9)), Some(free(6)), Some(free(6))];
        assert!(!FIVE.is_settled(&seen));
        assert_eq!(FIVE.together(&seen).unwrap().state, RecordState::Held);
        let all =
            [Some(held(7, 1, 0, 9)), Some(free(6)), Some(free(6)), Some(free(6)), Some(held(7, 1, 0, 9))];
        assert!(FIVE.is_settled(&all));
        assert_eq!(FIVE.together(&all).unwrap().state, RecordState::Free, "two votes are not enough");
        assert!(FIVE.is_settled(&[None, None, None]));
        assert_eq!(FIVE.together(&[None, None, None]), None);
    }

    #[test]
    fn a_renewal_is_as_new_as_a_majority_has_it() {
        let of = |renewals: &[u64]| renewals.iter().map(|n| Some(held(7, 1, *n, 9))).collect::<Vec<_>>();
        assert_eq!(FIVE.counted(&of(&[0, 3, 2, 0, 2])).map(renew_count), Some(2));
        assert!(!FIVE.is_settled(&of(&[1, 0, 1])), "the third may be among the silent");
        assert!(FIVE.is_settled(&of(&[1, 1, 1])));
    }

    #[test]
    fn an_answer_is_shown_although_a_node_voted_too_late_to_have_it() {
        let answered =
            |id| Some(Answered { id: RequestId::new(&Random::from_seed(id)), answer: Answer::Done });
        let with = |answer| Some(LeaseRecord { answer, ..held(7, 1, 2, 9) });
        let late = [with(None), with(answered(2)), with(answered(2))];
        assert_eq!(FIVE.together(&late).unwrap().answer, answered(2));
        let older = |answer| Some(LeaseRecord { answer, ..held(7, 1, 1, 9) });
        let behind = [older(answered(1)), older(answered(1)), with(answered(2))];
        assert_eq!(FIVE.together(&behind).unwrap().answer, answered(2), "two have missed the last renewal");
        let missed = [with(answered(1)), with(answered(2)), with(None), with(answered(2))];
        assert_eq!(FIVE.together(&missed).unwrap().answer, answered(2));
        assert_eq!(FIVE.together(&[with(None), with(None), with(None)]).unwrap().answer, None);
    }

    #[test]
    fn a_node_that_knows_how_the_term_ended_knows_more() {
        let ended = LeaseRecord { renew_total: 5, ..free(7) };
        let shown = [Some(held(7, 1, 2, 9)), Some(ended), Some(free(6)), Some(free(6)), None];
        assert_eq!(FIVE.together(&shown).unwrap().renew_total, 5);
        let with = |renew_total| Some(LeaseRecord { renew_total, ..free(7) });
        for shown in [[with(2), with(1), with(1)], [with(1), with(2), with(1)], [with(1), with(1), with(2)]] {
            assert_eq!(FIVE.together(&shown).unwrap().renew_total, 2, "one has missed the last renewal");
        }
    }

    #[test]
    fn a_pause_counts_where_it_keeps_a_majority_from_being_reached() {
        let paused = |secs| {
            let ends_in = Duration::from_secs(secs);
            let pause = Some(Pause { by: "kim".into(), ends_in });
            Some(LeaseRecord { state: RecordState::Paused, opens_in: Some(ends_in), pause, ..free(6) })
        };
        let two = [paused(9), paused(9), Some(free(6)), Some(free(6)), Some(free(6))];
        assert_eq!(FIVE.together(&two).unwrap().state, RecordState::Free);
        let three = [paused(9), paused(8), paused(7), Some(free(6)), Some(free(6))];
        let record = FIVE.together(&three).unwrap();
        assert_eq!((record.state.clone(), secs(&record)), (RecordState::Paused, Some(7)));
        assert_eq!(record.pause.unwrap().ends_in, Duration::from_secs(7));
    }
}
