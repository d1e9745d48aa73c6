//! What must hold in every run, whatever goes wrong. Each invariant sees the trace and nothing else.

mod callbacks_apart;
mod deadline_within_trust;
mod elected_after_grant;
mod events_in_order;
mod expectations;
mod fenced_writes;
mod few_calls;
mod handoff_resolves;
mod heals;
mod living_holder;
mod no_old_work;
mod nobody_blocks;
mod one_leader;
mod overlap_bounded;
mod permission_once;
mod release_after_drain;
mod requests_answered_once;
mod spent_bid;
#[cfg(test)]
mod testing;
mod tokens_in_order;

use std::time::Duration;

use crate::trace::Trace;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which invariant.
    pub invariant: &'static str,
    /// When, in true time.
    pub at: Duration,
    /// What happened.
    pub what: String,
}

/// When an invariant broke, and how.
type Breach = (Duration, String);

/// One invariant.
pub struct Invariant {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    check: fn(&Trace) -> Result<(), Breach>,
}

/// Every invariant.
pub const ALL: &[Invariant] = &[
    Invariant { name: "one_leader", says: "at most one valid leader by true time", check: one_leader::check },
    Invariant {
        name: "no_old_work",
        says: "no work of an older term after a newer term's permission began, none after a loss was heard",
        check: no_old_work::check,
    },
    Invariant {
        name: "overlap_bounded",
        says: "where exclusion is not promised, an overlap stays within its bound",
        check: overlap_bounded::check,
    },
    Invariant {
        name: "fenced_writes",
        says: "no fenced write of an older term is accepted after the first one of a newer term",
        check: fenced_writes::check,
    },
    Invariant {
        name: "tokens_in_order",
        says: "tokens rise, each above all seen by whoever bids",
        check: tokens_in_order::check,
    },
    Invariant {
        name: "deadline_within_trust",
        says: "a deadline never exceeds the applied attempt's send + ttl × (1 − drift) − latency − drain",
        check: deadline_within_trust::check,
    },
    Invariant {
        name: "permission_once",
        says: "permission goes from true to false once per term",
        check: permission_once::check,
    },
    Invariant {
        name: "release_after_drain",
        says: "no release before all work of the term has ended",
        check: release_after_drain::check,
    },
    Invariant {
        name: "spent_bid",
        says: "a bid whose term ended or whose release was sent is never held, renewed or led again",
        check: spent_bid::check,
    },
    Invariant {
        name: "living_holder",
        says: "every lease has a living holder or ends within ttl + the longest call",
        check: living_holder::check,
    },
    Invariant {
        name: "requests_answered_once",
        says: "each request is answered once, by the term it names, and no term ends unasked",
        check: requests_answered_once::check,
    },
    Invariant {
        name: "nobody_blocks",
        says: "no participant's stop blocks another's call",
        check: nobody_blocks::check,
    },
    Invariant {
        name: "events_in_order",
        says: "events come without gaps, each term as Elected … TermEnded",
        check: events_in_order::check,
    },
    Invariant {
        name: "callbacks_apart",
        says: "callbacks of two terms never overlap in one process",
        check: callbacks_apart::check,
    },
    Invariant {
        name: "elected_after_grant",
        says: "nobody is told that it leads before the store has granted it",
        check: elected_after_grant::check,
    },
    Invariant {
        name: "handoff_resolves",
        says: "a handoff completes or aborts, and nobody else comes in between",
        check: handoff_resolves::check,
    },
    Invariant { name: "few_calls", says: "no candidate floods its store", check: few_calls::check },
    Invariant { name: "heals", says: "somebody leads within 2 ttl once faults stop", check: heals::check },
    Invariant {
        name: "expectations",
        says: "what a scenario says about itself is true",
        check: expectations::check,
    },
];

/// Checks every invariant; each is reported once at most.
#[must_use]
pub fn check_all(trace: &Trace) -> Vec<Broken> {
    let broken = |invariant: &Invariant| {
        let (at, what) = (invariant.check)(trace).err()?;
        Some(Broken { invariant: invariant.name, at, what })
    };
    ALL.iter().filter_map(broken).collect()
}

/// Returns how long two led at once at worst, where that is not excluded.
#[must_use]
pub fn longest_overlap(trace: &Trace) -> Duration {
    overlap_bounded::longest(trace).map_or(Duration::ZERO, |(_, overlap, _, _)| overlap)
}
