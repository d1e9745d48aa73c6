//! The machines: each decides by the shipped rules of a record, on its own clock, and knows of no other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::store::record::{self, Decision, Record, Sight};
use tenure_core::store::{Acquisition, Bid, Lease, LeaseRecord, RecordState};
use tenure_core::{Attempt, BidId, Clock, ElectionName, FencingToken};
use tenure_testkit::VirtualClock;

use crate::network::unpoisoned;
use crate::wrong::Wrong;

/// The machines of one run, each with a clock and a record of its own; clones are the same machines.
#[derive(Clone)]
pub struct Machines {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    pub(super) machines: Vec<Machine>,
    pub(super) wrong: Option<Wrong>,
    /// Of which bid each attempt is, and in which order they were made, for the world's own view.
    pub(super) order: Mutex<BTreeMap<Attempt, (BidId, usize)>>,
    /// Which machines gave the last term.
    pub(super) last_majority: Mutex<Vec<usize>>,
}

pub(super) struct Machine {
    clock: VirtualClock,
    /// The longest lease that it may have forgotten.
    longest_ttl: Duration,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// The record of the run's only election, and when it was written.
    page: Option<(Box<Record>, Duration)>,
    /// When it was started again without its data.
    restarted: Option<Duration>,
}

/// What a look at a machine finds.
pub(super) struct Look {
    pub(super) record: Option<LeaseRecord>,
    pub(super) micros: u64,
}

/// What a machine says to a proposal.
pub(super) enum Vote {
    For(Lease),
    Against,
}

impl Machine {
    fn sight(&self, memory: &Memory) -> Sight {
        let written = memory.page.as_ref().map_or(Duration::ZERO, |(_, written)| *written);
        Sight::exact(self.clock.now().boot().saturating_sub(written), self.clock.wall())
    }

    pub(super) fn change<T>(&self, decide: impl FnOnce(Option<&Record>, &Sight) -> Decision<T>) -> T {
        let mut memory = unpoisoned(&self.memory);
        let sight = self.sight(&memory);
        match decide(memory.page.as_ref().map(|(record, _)| record.as_ref()), &sight) {
            Decision::Keep(answer) => answer,
            Decision::Write(record, answer) => {
                memory.page = Some((record, self.clock.now().boot()));
                answer
            }
        }
    }

    pub(super) fn look(&self) -> Look {
        let memory = unpoisoned(&self.memory);
        let record = memory.page.as_ref().map(|(record, _)| record.view(&self.sight(&memory)));
        let micros = u64::try_from(self.clock.now().boot().as_micros()).unwrap_or(u64::MAX);
        Look { record, micros }
    }

    /// Tells whether a lease may live that it has forgotten.
    fn abstains(&self) -> bool {
        let restarted = unpoisoned(&self.memory).restarted;
        restarted.is_some_and(|since| self.clock.now().boot() < since.saturating_add(self.longest_ttl))
    }

    /// Votes for the bid under `token`, or, for a wrong store, under a token of its own.
    pub(super) fn vote(&self, election: &ElectionName, bid: &Bid, token: Option<FencingToken>) -> Vote {
        if self.abstains() {
            return Vote::Against;
        }
        let floor = token.map_or(FencingToken::ZERO, |token| FencingToken(token.0.saturating_sub(1)));
        let bid = Bid { floor, ..bid.clone() };
        self.change(|present, sight| {
            let in_order = |lease: &Lease| token.is_none_or(|token| lease.token == token);
            match record::acquire(present, election, &bid, sight) {
                Decision::Write(record, Acquisition::Acquired(lease)) if in_order(&lease) => {
                    Decision::Write(record, Vote::For(lease))
                }
                Decision::Keep(Acquisition::Acquired(lease)) if in_order(&lease) => {
                    Decision::Keep(Vote::For(lease))
                }
                _ => Decision::Keep(Vote::Against),
            }
        })
    }
}

impl Machines {
    /// Makes empty machines with these clocks.
    #[must_use]
    pub fn new(clocks: Vec<VirtualClock>, longest_ttl: Duration, wrong: Option<Wrong>) -> Self {
        let machine = |clock| Machine { clock, longest_ttl, memory: Mutex::default() };
        let shared = Shared {
            machines: clocks.into_iter().map(machine).collect(),
            wrong,
            order: Mutex::default(),
            last_majority: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.shared.machines.len()
    }

    /// Returns the machines that gave the last term.
    #[must_use]
    pub fn last_majority(&self) -> Vec<usize> {
        unpoisoned(&self.shared.last_majority).clone()
    }

    pub(super) fn majority(&self) -> usize {
        self.count() / 2 + usize::from(self.shared.wrong != Some(Wrong::HalfIsEnough))
    }

    /// Starts a machine again, without its data.
    pub fn restart_empty(&self, machine: usize) {
        let machine = &self.shared.machines[machine];
        let restarted = Some(machine.clock.now().boot());
        *unpoisoned(&machine.memory) = Memory { page: None, restarted };
    }

    /// Looks at what a majority says, without going through any network.
    #[must_use]
    pub fn peek(&self) -> Option<LeaseRecord> {
        let needed = self.count() / 2 + 1;
        let mut marks: Vec<_> =
            self.shared.machines.iter().filter_map(|machine| self.mark(machine)).collect();
        // By attempts: what a majority has, or something later, stands where the majority is reached.
        marks.sort_by_key(|mark| std::cmp::Reverse(mark.held.map(|(_, place)| place)));
        let each = self.shared.wrong == Some(Wrong::TokenOfEachMachine);
        for mark in marks.iter().filter(|mark| mark.held.is_some()) {
            let same = |other: &&Mark<'_>| {
                other.held.map(|held| held.0) == mark.held.map(|held| held.0)
                    && (each || other.token == mark.token)
            };
            if let Some(last) = marks.iter().filter(same).nth(needed - 1) {
                let record = last.machine.look().record?;
                let token = marks.iter().filter(same).map(|mark| mark.token).max()?;
                return Some(LeaseRecord { token, ..record });
            }
        }
        let highest = marks.iter().max_by_key(|mark| mark.token)?;
        let record = highest.machine.look().record?;
        let alike = marks.iter().filter(|mark| mark.mark == highest.mark).count();
        let kept = matches!(record.state, RecordState::Reserved { .. }) && alike >= needed;
        let state = if kept { record.state.clone() } else { RecordState::Free };
        Some(LeaseRecord { state, holder: None, time_left: None, ..record })
    }

    /// Reads the mark of a machine's record, without making a view of all of it: this is asked after every message.
    fn mark<'a>(&self, machine: &'a Machine) -> Option<Mark<'a>> {
        let memory = unpoisoned(&machine.memory);
        let (record, written) = memory.page.as_ref()?;
        let lives = machine.clock.now().boot().saturating_sub(*written) < machine.longest_ttl;
        let mark = record.mark();
        let held = mark.filter(|_| lives).and_then(|mark| unpoisoned(&self.shared.order).get(&mark).copied());
        Some(Mark { machine, token: record.token(), mark, held })
    }
}

/// The last change of a machine's record.
struct Mark<'a> {
    machine: &'a Machine,
    token: FencingToken,
    mark: Option<Attempt>,
    /// The bid that it is of, and its place among all attempts, if it is a lease that lives.
    held: Option<(BidId, usize)>,
}
