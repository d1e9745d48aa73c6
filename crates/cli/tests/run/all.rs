//! `run` with a configuration: its command, its settings, and all of its elections.

use std::fs;
use std::process::Command;

use rustix::process::Signal;

use crate::world::{Candidate, World, children, eventually, tenure};

/// Begins `tenure run` beside a configuration.
fn run(world: &World, text: &str, args: &[&str]) -> Command {
    let file = world.path("tenure.toml");
    fs::write(&file, format!("store = \"{}\"\n{text}", world.store())).unwrap();
    let mut command = tenure();
    command.arg("run").args(args).current_dir(world.directory.path()).env("TMPDIR", world.directory.path());
    command
}

const TWO: &str = "ttl = \"10s\"
[elections.a]
command = [\"sh\", \"-c\", \"echo $TENURE_ELECTION > a; exec sleep 1000\"]
[elections.b]
command = \"echo $TENURE_ELECTION > b; exec sleep 1000\"
[elections.c]
ttl = \"20s\"
";

fn both_run(world: &World) {
    for name in ["a", "b"] {
        eventually("the command runs", || {
            fs::read_to_string(world.path(name)).ok().filter(|text| *text == format!("{name}\n"))
        });
    }
}

#[test]
fn all_elections_with_a_command_are_run_and_stopped_together() {
    let world = World::new();
    let mut all = Candidate::start(run(&world, TWO, &["--all"]));
    all.says("tenure: runs 2 elections: a, b");
    both_run(&world);
    all.says("tenure: a: elected: this process leads, term 1");
    all.says("tenure: b: elected: this process leads, term 1");
    assert!(!world.path("c").exists());
    all.signal(Signal::TERM);
    assert_eq!(all.exits(), 128 + 15);
    all.says("tenure: a: stopping the command, then giving the lease back");
    // Both were given back: the next ones do not wait for an end of the leases.
    let again = Candidate::start(run(&world, TWO, &["--all"]));
    again.says("tenure: a: elected: this process leads, term 2");
    again.says("tenure: b: elected: this process leads, term 2");
}

#[test]
fn when_the_one_that_runs_all_is_killed_they_stop() {
    let world = World::new();
    let mut all = Candidate::start(run(&world, TWO, &["--all"]));
    both_run(&world);
    let wrappers = children(all.pid());
    assert_eq!(wrappers.len(), 2);
    all.signal(Signal::KILL);
    assert_eq!(all.exits(), 128 + 9);
    eventually("both are gone", || {
        let is_gone =
            |pid: &rustix::process::Pid| !fs::exists(format!("/proc/{}", pid.as_raw_nonzero())).unwrap();
        wrappers.iter().all(is_gone).then_some(())
    });
    let again = Candidate::start(run(&world, TWO, &["--all"]));
    again.says("tenure: a: elected: this process leads, term 2");
}

#[test]
fn one_election_takes_its_command_and_settings_from_the_configuration() {
    let world = World::new();
    let text = "[elections.only]\nonce = true\ncommand = \"exit 7\"\nttl = \"7s\"\n";
    let mut candidate = Candidate::start(run(&world, text, &[]));
    assert_eq!(candidate.exits(), 7);
    candidate.says("election \"only\" on ");
    let mut other = Candidate::start(run(&world, text, &["--", "sh", "-c", "exit 8"]));
    assert_eq!(other.exits(), 8, "what is typed counts more");
    let mut variable = run(&world, "", &["--once", "--", "sh", "-c", "exit 9"]);
    assert_eq!(
        Candidate::start({
            variable.env("TENURE_ELECTION", "x");
            variable
        })
        .exits(),
        9
    );
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_begins() {
    let world = World::new();
    for (text, args, code, words) in [
        (TWO, &[][..], 125, &["several elections: a, b, c", "--all"][..]),
        (TWO, &["--election", "c"], 125, &["\"c\" has no command", "-- COMMAND"]),
        (TWO, &["--all", "--election", "a"], 125, &["--all", "--election"]),
        ("[elections.a]\n", &["--all"], 125, &["has no election with a command"]),
        (
            "[elections.a]\ncommand = [\"true\"]\n[elections.b]\ncommand = [\"no-such\"]\n",
            &["--all"],
            127,
            &["no-such"],
        ),
        ("[elections.a]\ncomand = [\"true\"]\n", &["--all"], 125, &["tenure.toml:3:1", "\"command\"?"]),
        (
            "ttl = \"30s\"\nrenew_interval = \"20s\"\n",
            &["--election", "e", "--", "true"],
            125,
            &["tenure.toml:3:18: renew_interval is 20s"],
        ),
    ] {
        let mut candidate = Candidate::start(run(&world, text, args));
        assert_eq!(candidate.exits(), code, "{args:?}: {:?}", candidate.said());
        words.iter().for_each(|word| drop(candidate.says(word)));
        assert!(!world.store_path().exists(), "{args:?} made the store");
    }
}
