//! Bad input is refused before anything happens, with the value, the rule and the way out.

use std::fs;
use std::process::{Command, Output, Stdio};

use crate::world::{Candidate, World, tenure};

fn refused(command: &mut Command) -> (Option<i32>, String) {
    let Output { status, stderr, stdout } = command.stdin(Stdio::null()).output().unwrap();
    assert!(stdout.is_empty(), "stdout is for the command's data");
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn bad_input_names_the_value_the_rule_and_the_fix() {
    let world = World::new();
    let store = world.store();
    let file = world.path("plain");
    fs::write(&file, "").unwrap();
    let on_file = format!("file://{}", file.display());
    let long = "x".repeat(256);
    let cases: &[(&[&str], i32, &[&str])] = &[
        (
            &["--election", "e", "--store", "cassandra://h/", "--", "true"],
            125,
            &["cassandra", "file:, memory:"],
        ),
        (&["--election", "e", "--store", "leases", "--", "true"], 125, &["leases", "file:///path"]),
        (&["--election", "e", "--store", "file://host/x", "--", "true"], 125, &["names a host"]),
        (&["--election", "e", "--store", &on_file, "--", "true"], 125, &["is a file"]),
        (&["--election", " ", "--store", &store, "--", "true"], 125, &["blank"]),
        (&["--election", &long, "--store", &store, "--", "true"], 125, &["255"]),
        (&["--election", "e", "--store", &store, "--ttl", "soon", "--", "true"], 125, &["soon", "30s"]),
        (&["--election", "e", "--store", &store, "--ttl", "0s", "--", "true"], 125, &["500ms"]),
        (
            &["--election", "e", "--store", &store, "--ttl", "30s", "--renew-interval", "20s", "--", "true"],
            125,
            &["20s"],
        ),
        (
            &["--election", "e", "--store", &store, "--ttl", "9s", "--profile", "fast", "--", "true"],
            125,
            &["--profile", "--ttl"],
        ),
        (
            &["--election", "e", "--store", &store, "--profile", "slow", "--", "true"],
            125,
            &["slow", "balanced"],
        ),
        (
            &["--election", "e", "--store", &store, "--try", "--wait", "3s", "--", "true"],
            125,
            &["--try", "--wait"],
        ),
        (&["--election", "e", "--store", &store, "--onse", "--", "true"], 125, &["--onse", "--once"]),
        (&["--election", "e", "--store", &store], 125, &["COMMAND"]),
        (&["--store", &store, "--", "true"], 125, &["--election"]),
        (&["--election", "e", "--store", &store, "--", "no-such-command"], 127, &["no-such-command", "PATH"]),
        (&["--election", "e", "--store", &store, "--", "echo hello"], 127, &["sh -c"]),
        (&["--election", "e", "--store", &store, "--", "/"], 126, &["a directory"]),
        (&["--election", "e", "--store", &store, "--interactive", "--", "true"], 125, &["terminal"]),
    ];
    for (args, code, wants) in cases {
        let (status, said) = refused(tenure().arg("run").args(*args));
        assert_eq!(status, Some(*code), "{args:?}: {said}");
        for want in *wants {
            assert!(said.contains(want), "{args:?} does not say {want:?}: {said}");
        }
    }
}

#[test]
fn the_start_line_names_store_and_scope() {
    let world = World::new();
    let mut command = world.run(&["--once"]);
    command.args(["--", "true"]);
    let mut candidate = Candidate::start(command);
    assert_eq!(candidate.exits(), 0);
    let line = candidate.says("election \"e\" on ");
    assert!(line.contains(&world.store()) && line.contains("isolation: "), "{line}");
}

#[test]
fn with_json_every_line_is_an_event() {
    let world = World::new();
    let mut command = world.run(&["--once", "--json"]);
    command.args(["--", "true"]);
    let mut candidate = Candidate::start(command);
    assert_eq!(candidate.exits(), 0);
    candidate.says("term_ended");
    let events: Vec<_> = candidate
        .said()
        .iter()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{line}: {error}"))
        })
        .map(|event| event["event"].as_str().unwrap().to_owned())
        .collect();
    for event in ["started", "elected", "ended", "term_ended"] {
        assert!(events.iter().any(|known| known == event), "{event} is not in {events:?}");
    }
}

#[test]
fn quiet_says_nothing_and_the_commands_output_is_its_own() {
    let world = World::new();
    let output = world
        .run(&["--once", "--quiet"])
        .args(["--", "sh", "-c", "echo out; echo err >&2; cat"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "out\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "err\n");
}
