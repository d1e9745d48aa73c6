//! `tenure leader`.

use serde_json::Value;
use tenure::store::Next;

use crate::stage::{LONG, Said, Stage};

#[tokio::test]
async fn the_leader_is_printed_and_nobody_is_no() {
    let stage = Stage::new();
    let lease = stage.lead_with_names("billing", "a").await;
    assert_eq!(stage.run(&["leader", "billing"]).expect(0), "a\n");
    let json = stage.run(&["leader", "billing", "--json"]).json();
    assert_eq!(json["election"], "billing");
    assert_eq!(json["leader"]["candidate"], "a");
    assert_eq!(json["leader"]["identity"], "machine-7");
    assert_eq!(json["leader"]["token"], 1);
    assert_eq!(json["is_me"], Value::Null);

    stage.release(lease, Next::Anybody).await;
    stage.run(&["leader", "billing"]).refuse(1, &["nobody leads election \"billing\": it is free"]);
    stage.pause("billing", "ops", LONG).await;
    stage.run(&["leader", "billing"]).refuse(1, &["it is paused"]);
    let json = stage.run(&["leader", "billing", "--json"]);
    json.expect(1);
    assert_eq!(json.json()["leader"], Value::Null);
}

/// Asks from inside a command of `tenure run`, as far as its environment tells.
fn inside(stage: &Stage, election: &str, candidate: &str, token: &str, args: &[&str]) -> Said {
    let mut command = stage.command();
    command.env("TENURE_ELECTION", election).env("TENURE_CANDIDATE", candidate).env("TENURE_TOKEN", token);
    Said::of(command.arg("leader").args(args))
}

#[tokio::test]
async fn me_is_the_same_candidate_in_the_same_term() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    for args in [&["--is-me"][..], &["--is-me", "billing"], &["billing", "--is-me"]] {
        assert_eq!(inside(&stage, "billing", "a", "1", args).expect(0), "a\n");
    }
    let yes = inside(&stage, "billing", "a", "1", &["--is-me", "--json"]);
    yes.expect(0);
    assert_eq!(yes.json()["is_me"], true);

    for (candidate, token) in [("b", "1"), ("a", "2")] {
        let no = inside(&stage, "billing", candidate, token, &["--is-me"]);
        assert_eq!(no.expect(1), "a\n");
        assert!(no.stderr.contains("does not lead election \"billing\": a does, in term 1"), "{no:?}");
        let no = inside(&stage, "billing", candidate, token, &["--is-me", "--json"]);
        no.expect(1);
        assert_eq!(no.json()["is_me"], false);
    }
    let nobody = inside(&stage, "another", "a", "1", &["--is-me"]);
    nobody.refuse(1, &["there is no election \"another\""]);
}

#[tokio::test]
async fn me_outside_of_a_command_of_run_is_an_error_of_usage() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let hint = "hint: use --is-me inside the command of `tenure run`";
    stage.run(&["leader", "billing", "--is-me"]).refuse(2, &["TENURE_ELECTION: is not set", hint]);
    inside(&stage, "billing", "a", "seven", &["--is-me"])
        .refuse(2, &["TENURE_TOKEN: \"seven\" is not a number"]);
    inside(&stage, "billing", " ", "1", &["--is-me"]).refuse(2, &["TENURE_CANDIDATE", "is blank"]);
    let other = inside(&stage, "billing", "a", "1", &["--is-me", "nightly"]);
    other.refuse(2, &["\"nightly\"", "runs under election \"billing\"", "hint: leave the name away"]);
}
