//! When a process bids for a lease that was given back: at once if few wait for it, else in turns.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::clock::Moment;
use tenure_core::{ElectionName, Random};

/// Up to so many bid at once.
const FEW: u32 = 4;

/// Of more, each waits for up to this long for every one of them: the first bids after about as long as this, and the
/// others hear of the next leader before their turn comes.
const EACH: Duration = Duration::from_micros(200);

/// Nobody waits longer than this, however many there are.
const LONGEST: Duration = Duration::from_secs(1);

/// Returns how long to wait for one's turn among so many who were told; `None` if nobody need wait.
pub(crate) fn turn_among(told: u32, random: &Random) -> Option<Duration> {
    (told > FEW).then(|| random.up_to(EACH.saturating_mul(told).min(LONGEST)))
}

/// Elections that are free, and when it is this process's turn to bid.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    at: BTreeMap<ElectionName, Moment>,
    /// No turn comes earlier. It may be one that has been forgotten since: a process may wait for very many, and nobody
    /// looks through all of them because one is gone.
    first: Option<Moment>,
}

impl Turns {
    /// Notes a turn. One that is noted already stays if it is earlier: nobody is put off again and again.
    pub(crate) fn add(&mut self, election: ElectionName, at: Moment) {
        self.first = Some(self.first.map_or(at, |first| first.earlier_of(at)));
        let turn = self.at.entry(election).or_insert(at);
        *turn = turn.earlier_of(at);
    }

    /// Somebody else was faster.
    pub(crate) fn forget(&mut self, election: &ElectionName) {
        self.at.remove(election);
    }

    /// Returns when to look for turns that have come, if there are any.
    pub(crate) fn first(&self) -> Option<Moment> {
        self.first
    }

    /// Takes the elections whose turn has come.
    pub(crate) fn take_due(&mut self, now: Moment) -> Vec<ElectionName> {
        if !self.first.is_some_and(|first| first.has_passed(now)) {
            return Vec::new();
        }
        let due: Vec<_> = self
            .at
            .iter()
            .filter(|(_, at)| at.has_passed(now))
            .map(|(election, _)| election.clone())
            .collect();
        for election in &due {
            self.at.remove(election);
        }
        self.first = self.at.values().copied().reduce(Moment::earlier_of);
        due
    }

    /// Takes all elections, whenever their turn is.
    pub(crate) fn take_all(self) -> impl Iterator<Item = ElectionName> {
        self.at.into_keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::new(Duration::from_millis(ms), Duration::from_millis(ms))
    }

    fn name(name: &str) -> ElectionName {
        ElectionName::new(name).unwrap()
    }

    #[test]
    fn a_few_need_not_wait_and_of_many_nobody_waits_for_long() {
        let random = Random::from_seed(1);
        assert_eq!(turn_among(0, &random), None);
        assert_eq!(turn_among(FEW, &random), None);
        for _ in 0..100 {
            assert!(turn_among(100, &random).unwrap() <= EACH * 100);
            assert!(turn_among(u32::MAX, &random).unwrap() <= LONGEST);
        }
    }

    #[test]
    fn a_turn_comes_once_unless_somebody_was_faster() {
        let mut turns = Turns::default();
        assert_eq!(turns.first(), None);
        turns.add(name("late"), at(30));
        turns.add(name("early"), at(10));
        turns.add(name("lost"), at(5));
        turns.forget(&name("lost"));
        assert_eq!(turns.take_due(at(4)), []);
        assert_eq!(turns.take_due(at(9)), []);
        assert_eq!(turns.first(), Some(at(10)));
        assert_eq!(turns.take_due(at(10)), [name("early")]);
        assert_eq!(turns.take_due(at(20)), []);
        assert_eq!(turns.take_due(at(30)), [name("late")]);
        assert_eq!(turns.first(), None);
    }

    #[test]
    fn a_turn_is_not_put_off() {
        let mut turns = Turns::default();
        turns.add(name("a"), at(10));
        turns.add(name("a"), at(20));
        assert_eq!(turns.take_due(at(10)), [name("a")]);
        assert_eq!(turns.take_due(at(20)), []);
    }
}
