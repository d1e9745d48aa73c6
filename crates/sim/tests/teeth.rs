//! The invariants have teeth: every known mistake is found by the invariant that is there for it.

use tenure_sim::{flaw, invariant, run, scenario};

/// Within so many seeds a flaw must show. Each number is drawn by one seed, so that the test never flickers.
const SEEDS: u64 = 60;

#[test]
fn every_flaw_is_found_by_its_own_invariant() {
    let mut missed = Vec::new();
    for flaw in flaw::ALL {
        let scenario =
            scenario::find(flaw.scenario).unwrap_or_else(|| panic!("no scenario {}", flaw.scenario));
        let finds = |seed: &u64| {
            let outcome = run::run(scenario, *seed, Some(flaw));
            outcome.broken.iter().any(|broken| broken.invariant == flaw.invariant)
        };
        match (0..SEEDS).find(finds) {
            Some(seed) => {
                println!("{:<28} found by {} after {} runs", flaw.name, flaw.invariant, seed + 1);
                let control = run::run(scenario, seed, Some(&flaw.without_mistake()));
                assert_eq!(control.broken, [], "{} without the mistake, seed {seed}", flaw.name);
            }
            None => missed.push(flaw.name),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}

#[test]
fn every_invariant_finds_a_flaw() {
    for invariant in invariant::ALL {
        let found = flaw::ALL.iter().any(|flaw| flaw.invariant == invariant.name);
        assert!(found, "nothing shows that {} would notice anything", invariant.name);
    }
}
