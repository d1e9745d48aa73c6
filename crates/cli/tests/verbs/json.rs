//! The keys of the JSON are those of docs/json.md, all of them and no other.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tenure::store::{Action, Answer, Answered, Next};

use crate::stage::{LONG, Running, Stage, candidate};

pub(crate) type Keys = BTreeSet<String>;

/// Reads the keys of each table of the page.
pub(crate) fn documented() -> BTreeMap<String, Keys> {
    let page = include_str!("../../../../docs/json.md");
    let mut tables = BTreeMap::new();
    let mut object = String::new();
    for line in page.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            object = heading.to_owned();
        } else if let Some((key, _)) = line.strip_prefix("| `").and_then(|row| row.split_once('`'))
            && !object.is_empty()
        {
            tables.entry(object.clone()).or_insert_with(Keys::new).insert(key.to_owned());
        }
    }
    tables
}

pub(crate) fn keys(value: &Value) -> Keys {
    value.as_object().unwrap_or_else(|| panic!("no object: {value}")).keys().cloned().collect()
}

/// Puts everything into one election that can be in one.
async fn fill(stage: &Stage) {
    let lease = stage.lead("full", "a").await;
    stage.release_with(lease, Next::Anybody, true, None).await;
    let lease = stage.lead("full", "b").await;
    let id = stage.request("full", lease.token, Action::Resign).await;
    let refused = Answered { id, answer: Answer::Refused("busy".into()) };
    stage.release_with(lease, Next::Anybody, false, Some(refused)).await;
    let lease = stage.lead_with_names("full", "c").await;
    stage.request("full", lease.token, Action::HandOff { to: candidate("d") }).await;
    stage.pause("full", "ops", LONG).await;
    let lease = stage.lead("kept", "a").await;
    stage.release(lease, Next::Successor { candidate: candidate("b"), window: LONG }).await;
}

#[tokio::test]
async fn the_keys_are_those_of_the_page() {
    let stage = Stage::new();
    fill(&stage).await;
    let documented = documented();
    let check = |object: &str, value: &Value| {
        assert_eq!(keys(value), documented[object], "{object}: {value}");
    };
    let status = stage.run(&["status", "--json"]).json();
    assert_eq!(keys(&status), ["elections", "store"].map(str::to_owned).into());
    check("A store", &status["store"]);
    let (full, kept) = (&status["elections"][0], &status["elections"][1]);
    check("An election", full);
    check("An election", kept);
    check("A leader", &full["leader"]);
    check("A term", &full["last_term"]);
    check("A pause", &full["pause"]);
    check("A request", &full["request"]);
    check("An answer", &full["answer"]);
    check("A reservation", &kept["reservation"]);
    for (key, value) in full.as_object().unwrap() {
        let elsewhere = ["reservation", "error"].contains(&key.as_str());
        assert_eq!(value.is_null(), elsewhere, "{key} is {value}");
    }
    stage.spoil("kept");
    let status = stage.run(&["status", "--json"]).json();
    check("An election", &status["elections"][1]);

    let leader = stage.run(&["leader", "--json", "full"]).json();
    assert_eq!(keys(&leader), ["election", "is_me", "leader"].map(str::to_owned).into());
    check("A leader", &leader["leader"]);
    let history = stage.run(&["history", "--json", "full"]).json();
    assert_eq!(keys(&history), ["election", "terms"].map(str::to_owned).into());
    for term in history["terms"].as_array().unwrap() {
        check("A term", term);
    }
    let doctor = stage.run(&["doctor", "--json"]).json();
    let whole = ["findings", "healthy", "recommended_ttl_ms", "round_trip_us", "store"];
    assert_eq!(keys(&doctor), whole.map(str::to_owned).into());
    check("A store", &doctor["store"]);
    check("A finding", &doctor["findings"][0]);
}

#[tokio::test]
async fn the_keys_of_what_was_changed_are_those_of_the_page() {
    let stage = Stage::new();
    let documented = documented();
    let page = include_str!("../../../../docs/json.md");
    // What a verb writes by itself stands in its row, each key in quotes.
    let check_row = |verb: &str, value: &Value| {
        let row = page.lines().find(|line| line.starts_with(&format!("| `tenure {verb} ")));
        let (_, row) = row.unwrap_or_else(|| panic!("no row of {verb}")).split_once("one object: ").unwrap();
        for key in keys(value) {
            assert!(row.contains(&format!("`{key}`")), "{verb}: {key} is not in {row}");
        }
    };
    let lease = stage.lead("e", "a").await;
    for verb in [&["resign", "e"][..], &["handoff", "e"], &["release", "e", "--force"]] {
        let mut command = stage.command();
        let said = crate::stage::Said::of(command.args(verb).args(["--json", "--timeout", "100ms"]));
        assert_eq!(keys(&said.json()), documented["An outcome"], "{verb:?}");
    }
    let paused = stage.run(&["pause", "e", "--json", "--resign", "--timeout", "100ms"]).json();
    check_row("pause", &paused);
    assert_eq!(keys(&paused["pause"]), documented["A pause"]);
    assert_eq!(keys(&paused["resign"]), documented["An outcome"]);
    check_row("resume", &stage.run(&["resume", "e", "--json"]).json());
    check_row("repair", &stage.run(&["repair", "e", "--json"]).json());
    check_row("candidates", &stage.run(&["candidates", "e", "--json"]).json());
    stage.release(lease, Next::Anybody).await;
    check_row("token floor", &stage.run(&["token", "floor", "e", "9", "--json"]).json());
    let check = stage.run(&["token", "check", "--resource", "r", "--last", "9", "--json"]);
    check_row("token check", &check.json());
}

#[tokio::test]
async fn the_keys_of_events_are_those_of_the_page() {
    let stage = Stage::new();
    let mut lease = stage.lead_with_names("e", "a").await;
    let watch = Running::start(stage.command().args(["watch", "--json", "e"]));
    let mut seen = Keys::new();
    let mut expect = |event: &str| {
        let line = watch.next_json();
        assert_eq!(line["event"], event, "{line}");
        seen.extend(keys(&line));
    };
    expect("found");
    let id = stage.request("e", lease.token, Action::HandOff { to: candidate("b") }).await;
    expect("requested");
    let refused = Answered { id, answer: Answer::Refused("busy".into()) };
    stage.release_with(lease, Next::Anybody, false, Some(refused)).await;
    expect("answered");
    expect("released");
    lease = stage.lead("e", "a").await;
    expect("elected");
    stage.release(lease, Next::Successor { candidate: candidate("b"), window: LONG }).await;
    expect("handed_off");
    stage.pause("e", "ops", LONG).await;
    expect("paused");
    stage.resume("e").await;
    expect("resumed");
    assert_eq!(seen, documented()["An event"]);
}

#[test]
fn the_page_is_read_as_it_is_meant() {
    let documented = documented();
    let objects: Vec<_> = documented.keys().map(String::as_str).collect();
    let expected = [
        "A configured election",
        "A finding",
        "A leader",
        "A pause",
        "A request",
        "A reservation",
        "A store",
        "A term",
        "An answer",
        "An election",
        "An event",
        "An event of the demonstration",
        "An origin",
        "An outcome",
    ];
    assert_eq!(objects, expected);
    assert!(documented["A leader"].contains("time_left_ms"));
}
