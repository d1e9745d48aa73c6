//! `tenure demo --script`: the same lines each time.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::session::TENURE;
use crate::stage::Stage;

/// Long enough that a busy machine does not cost a leader its term.
const TTL: [&str; 2] = ["--ttl", "6s"];

const SNAPSHOT: &str = "tests/demo/script.txt";

#[test]
fn the_script_prints_what_is_written_down() {
    let stage = Stage::new();
    let output = stage.command(TENURE).args(["demo", "--script"]).args(TTL).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{printed}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOT);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(printed, written, "hint: if it is meant, run again with UPDATE_SNAPSHOTS=1");
    stage.assert_empty();
}

#[test]
fn as_json_it_says_the_same_with_the_keys_of_the_page() {
    let stage = Stage::new();
    let output = stage.command(TENURE).args(["demo", "--script", "--json"]).args(TTL).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<_> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    let written = include_str!("script.txt");
    assert_eq!(messages, written.lines().collect::<Vec<_>>());
    let keys: BTreeSet<_> = lines.iter().flat_map(|line| line.as_object().unwrap().keys().cloned()).collect();
    assert_eq!(keys, documented());
    let page = section();
    for line in &lines {
        let event = line["event"].as_str().unwrap();
        assert!(page.contains(&format!("`{event}`")), "{event} is not in docs/json.md");
    }
}

/// Returns what docs/json.md says of an event of the demonstration.
fn section() -> &'static str {
    let page = include_str!("../../../../docs/json.md");
    let (_, rest) = page.split_once("## An event of the demonstration\n").expect("the heading");
    rest.split("\n## ").next().unwrap()
}

fn documented() -> BTreeSet<String> {
    let rows = section().lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(key, _)| key.to_owned()).collect()
}

#[test]
fn a_script_that_is_stopped_leaves_nothing() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let stage = Stage::new();
        let mut command = stage.command(TENURE);
        let mut child = command.args(["demo", "--script"]).args(TTL).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "B stands by."));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        stage.assert_empty();
    }
}
