//! Every scenario holds its invariants for a few seeds, and one seed is one trace.

use std::collections::BTreeSet;

use tenure_sim::batch::{Batch, run_all};
use tenure_sim::{run, scenario};

/// Few, because every commit runs this; `tenure-sim --all --seeds N` runs as many as there is time for.
const SEEDS: u64 = 10;

#[test]
fn every_scenario_holds_and_what_it_is_about_happens() {
    // A thousand candidates take their time without optimisation: once is enough here.
    let (herd, others): (Vec<_>, Vec<_>) =
        scenario::ALL.iter().copied().partition(|scenario| scenario.name == "herd");
    for (scenarios, seeds) in [(others, 0..SEEDS), (herd, 0..1)] {
        let report = run_all(&Batch { scenarios, seeds, flaw: None, threads: None });
        assert!(report.is_fine(), "{report}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_one_another() {
    for scenario in scenario::ALL.iter().filter(|scenario| scenario.name != "herd") {
        let text = |seed| run::run(scenario, seed, None).trace.to_string();
        let (first, again, other) = (text(7), text(7), text(8));
        assert!(!first.is_empty() && first == again, "{} is not the same twice", scenario.name);
        assert!(first != other, "{}: the seed decides nothing", scenario.name);
    }
}

#[test]
fn equal_traces_have_equal_digests() {
    let Some(scenario) = scenario::find("sequence_of_all") else { panic!("it is there") };
    let digests: Vec<_> = [3, 3, 4, 5].map(|seed| run::run(scenario, seed, None).trace.digest()).into();
    assert_eq!(digests[0], digests[1]);
    assert_eq!(BTreeSet::from_iter(digests).len(), 3);
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = scenario::ALL.iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), scenario::ALL.len());
}
