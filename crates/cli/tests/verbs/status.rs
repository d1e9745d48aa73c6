//! `tenure status`.

use std::time::Duration;

use tenure::store::{Action, Answer, Answered, Next};

use crate::stage::{LONG, Stage, candidate};

/// Reads a table back: the cells of a line are two spaces or more apart.
fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[tokio::test]
async fn all_elections_stand_in_a_table() {
    let stage = Stage::new();
    let lease = stage.lead_with_names("billing", "a").await;
    stage.renew(lease).await;
    let lease = stage.lead("done", "b").await;
    stage.release(lease, Next::Anybody).await;
    let lease = stage.lead("kept", "c").await;
    stage.release(lease, Next::CoolDown(LONG)).await;
    stage.pause("off", "ops", LONG).await;
    stage.lead("on", "d").await;
    stage.pause("on", "ops", LONG).await;

    let said = stage.run(&["status"]);
    let lines: Vec<_> = said.expect(0).lines().map(cells).collect();
    assert_eq!(lines[0], ["ELECTION", "STATE", "LEADER", "TOKEN", "SINCE", "LEFT", "RENEWALS"]);
    assert_eq!(lines[1][..4], ["billing", "held", "a (machine-7)", "1"]);
    assert!(lines[1][5].starts_with("9m 5") && lines[1][6] == "1", "{:?}", lines[1]);
    assert_eq!(lines[2], ["done", "free", "-", "1", "-", "-", "-"]);
    assert_eq!(lines[3][..4], ["kept", "reserved", "-", "1"]);
    assert_eq!(lines[4][..4], ["off", "paused", "-", "0"]);
    assert_eq!(lines[5][..4], ["on", "held, paused", "d", "1"]);
    assert_eq!(said.stderr, "");
}

#[tokio::test]
async fn one_election_is_shown_with_everything_that_is_known() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "first").await;
    stage.release_with(lease, Next::Anybody, true, None).await;
    let lease = stage.lead("billing", "second").await;
    let id = stage.request("billing", lease.token, Action::Resign).await;
    let refused = Answered { id, answer: Answer::Refused("busy\x07".into()) };
    stage.release_with(lease, Next::Anybody, false, Some(refused)).await;
    let lease = stage.lead_with_names("billing", "third").await;
    stage.request("billing", lease.token, Action::HandOff { to: candidate("fourth") }).await;
    let lease = stage.renew(lease).await;
    stage.pause("billing", "o\x1bps", LONG).await;

    let said = stage.run(&["status", "billing"]);
    let text = said.expect(0);
    assert!(!text.contains('\x1b') && !text.contains('\x07'), "what others wrote moves no cursor: {text:?}");
    let value = |what: &str| {
        let line = text.lines().find(|line| line.starts_with(what));
        line.unwrap_or_else(|| panic!("no {what} in {text}"))[what.len()..].trim().to_owned()
    };
    assert_eq!(value("election"), "billing");
    assert_eq!(value("state"), "held, paused");
    assert_eq!(value("leader"), "third");
    assert_eq!(value("identity"), "machine-7");
    assert_eq!(value("token"), lease.token.to_string());
    assert!(value("since").contains("Z ("), "{}", value("since"));
    assert!(value("time left").starts_with("9m 5") && value("time left").ends_with("of 10m"));
    assert_eq!(value("renewals"), "1 in this term, 1 in all");
    assert_eq!(value("metadata"), "address = 10.0.0.7:80");
    assert!(text.contains("zone = b\\u{1b}[2J"), "{text}");
    assert!(value("last term").starts_with("2: second, released, 20"), "{}", value("last term"));
    assert!(value("last success").ends_with("ago"));
    assert!(value("paused").starts_with("by o\\u{1b}ps, for 9m"));
    assert!(value("request").starts_with("hand off to fourth, asked by ops, for 9m"));
    assert_eq!(value("last request"), "refused: busy\\u{7}");
    assert!(value("store").contains(stage.store.path().to_str().unwrap()));
    for sentence in ["Tokens always rise.", "The machine's boot clock ends a lease.", "Assumes: "] {
        assert!(text.contains(sentence), "{sentence:?} is not in {text}");
    }
}

#[tokio::test]
async fn what_keeps_others_out_is_said() {
    let stage = Stage::new();
    let lease = stage.lead("handed", "a").await;
    stage.release(lease, Next::Successor { candidate: candidate("b"), window: LONG }).await;
    let lease = stage.lead("cooling", "a").await;
    stage.release(lease, Next::CoolDown(LONG)).await;
    let handed = stage.run(&["status", "handed"]);
    assert!(handed.expect(0).contains("reserved   for b, for 9m"), "{handed:?}");
    let cooling = stage.run(&["status", "cooling"]);
    assert!(cooling.expect(0).contains("for nobody, to cool down, for 9m"), "{cooling:?}");
    assert!(cooling.stdout.contains("leader     nobody"), "{cooling:?}");
}

#[tokio::test]
async fn a_term_lasts_from_its_beginning_also_after_renewals() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    let read = || stage.run(&["status", "billing", "--json"]).json()["elections"][0]["leader"].clone();
    let first = read();
    // Time goes on by itself: what is waited for is that the store's clock shows it.
    while read()["term_ms"].as_u64() <= first["term_ms"].as_u64() {}
    stage.renew(lease).await;
    let renewed = read();
    assert!(renewed["term_ms"].as_u64() > first["term_ms"].as_u64(), "{first} {renewed}");
    assert!(renewed["time_left_ms"].as_u64() <= renewed["ttl_ms"].as_u64());
}

#[tokio::test]
async fn a_lease_that_ran_out_has_no_leader_and_counts_as_expired() {
    let stage = Stage::new();
    stage.lead_with("billing", stage.bid("a", Duration::from_millis(1))).await;
    let mut election = serde_json::Value::Null;
    while election["state"] != "free" {
        election = stage.run(&["status", "billing", "--json"]).json()["elections"][0].clone();
    }
    assert_eq!(election["leader"], serde_json::Value::Null);
    assert_eq!(election["last_term"]["candidate"], "a");
    assert_eq!(election["last_term"]["end"], "expired");
    let text = stage.run(&["status", "billing"]);
    assert!(text.expect(0).contains("last term  1: a, expired\n"), "{text:?}");
}

#[tokio::test]
async fn a_broken_record_is_shown_as_such_and_hides_no_other() {
    let stage = Stage::new();
    stage.lead("broken", "a").await;
    stage.lead("sound", "b").await;
    stage.spoil("broken");
    let said = stage.run(&["status"]);
    let lines: Vec<_> = said.expect(3).lines().map(cells).collect();
    assert_eq!(lines[1][..3], ["broken", "unreadable", "-"]);
    assert_eq!(lines[2][..3], ["sound", "held", "b"]);
    assert!(said.stderr.contains("cannot be understood"), "{said:?}");

    let said = stage.run(&["status", "broken", "--json"]);
    said.expect(3);
    assert_eq!(said.json()["elections"][0]["state"], "unreadable");
    assert!(said.json()["elections"][0]["error"].as_str().unwrap().contains("repaired"));
    for args in [["leader", "broken"], ["history", "broken"]] {
        stage.run(&args).refuse(3, &["cannot be understood", "hint: `tenure repair NAME`"]);
    }
}
