//! `tenure handoff` between two real candidates: the one's command has ended before the other's starts.

use std::time::Duration;

use serde_json::Value;

use crate::world::{Candidate, SLOW_STOP, World, now, rounds, tenure};

/// So long that nothing here happens because a lease ran out or because somebody looked again.
const LONG: &[&str] = &["--ttl", "1h"];

/// Hands off, and returns what the command says.
fn hand_off(world: &World, to: &Candidate) -> Value {
    let mut command = tenure();
    command.args(["handoff", "e", "--json", "--store", &world.store(), "--to", &to.name()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Hands off between two candidates, and checks that the first one's command has ended before the second one's started.
fn no_overlap(mode: &str, stop: Duration) {
    for round in 0..rounds() {
        let world = World::new();
        let first = world.candidate(LONG, mode);
        let token = first.leads();
        world.stamped_after(token - 1);
        let second = world.candidate(LONG, mode);
        second.stands_by();
        let asked = now().boot().as_nanos();
        let told = hand_off(&world, &second);
        let next = world.stamped_after(token);
        assert_eq!(
            (told["outcome"].as_str(), told["leader"]["token"].as_u64()),
            (Some("done"), Some(next)),
            "{told}"
        );
        assert_eq!(told["leader"]["candidate"], second.name().as_str());
        let stamps = world.stamps();
        stamps.assert_no_overlap();
        assert_eq!(world.alive_in(token), [], "round {round}");
        let (last, began) = (stamps.0[&token].last, stamps.0[&next].first);
        let micros = |from: u128, to: u128| (to - from) / 1000;
        println!(
            "{mode}: the command said {} ms to the end of the term and {} ms to the next one; {} µs from its start to the \
             next command, of which {} µs were the old one's own; {} µs without any",
            told["took_ms"],
            told["taken_over_ms"],
            micros(asked, began),
            stop.as_micros(),
            micros(last, began)
        );
        // Not by any timer: each of those is minutes away here.
        assert!(began - asked < (stop + Duration::from_secs(60)).as_nanos(), "{told}");
        assert!(
            told["took_ms"].as_u64() >= u64::try_from(stop.as_millis()).ok(),
            "released before its command ended"
        );
    }
}

#[test]
fn a_command_that_stops_at_once() {
    no_overlap("plain", Duration::ZERO);
}

#[test]
fn a_command_that_takes_its_time_to_stop() {
    no_overlap("slow", SLOW_STOP);
}

#[test]
fn a_leader_that_resigns_stands_again() {
    let world = World::new();
    let candidate = world.candidate(&["--ttl", "2s"], "plain");
    let token = candidate.leads();
    world.stamped_after(token - 1);
    let output = tenure().args(["resign", "e", "--store", &world.store()]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    world.stamped_after(token);
    world.stamps().assert_no_overlap();
}

#[test]
fn a_leader_that_is_superseded_is_stopped_at_once() {
    let world = World::new();
    let first = world.candidate(LONG, "slow");
    let token = first.leads();
    world.stamped_after(token - 1);
    let release = ["release", "e", "--force", "--now", "--yes", "--store", &world.store()];
    let output = tenure().args(release).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    first.says(&format!("term {token} ended: lost"));
    assert_eq!(world.alive_in(token), []);
}
