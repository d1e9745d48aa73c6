//! `tenure pause` and `tenure resume`.

use serde_json::Value;

use crate::stage::{LONG, Stage, command, everything};

#[tokio::test]
async fn nobody_new_is_elected_and_the_leader_leads_on() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let said = stage.run(&["pause", "billing", "--for", "20m"]);
    assert_eq!(said.expect(0), "paused for 20m: nobody new is elected; a leads on, term 1\n");
    assert!(said.stderr.contains("hint: --resign"), "{said:?}");
    let status = stage.run(&["status", "billing"]);
    assert!(status.expect(0).contains("held, paused"), "{status:?}");

    let said = stage.run(&["resume", "billing"]);
    assert!(said.expect(0).starts_with("resumed: the pause by "), "{said:?}");
    assert!(said.stdout.ends_with(" left; a leads\n"), "{said:?}");
    let again = stage.run(&["resume", "billing"]);
    assert_eq!(again.expect(0), "election \"billing\" is not paused; a leads\n");
}

#[tokio::test]
async fn it_is_told_in_json_too() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let paused = stage.run(&["pause", "billing", "--json"]).json();
    assert_eq!((&paused["election"], &paused["resign"]), (&"billing".into(), &Value::Null), "{paused}");
    assert!(paused["pause"]["ends_in_ms"].as_u64().unwrap() > 3_590_000, "{paused}");
    assert_eq!(paused["leader"]["candidate"], "a");
    let resumed = stage.run(&["resume", "billing", "--json"]).json();
    assert!(resumed["pause"]["ends_in_ms"].is_u64() && resumed["leader"]["candidate"] == "a", "{resumed}");
    assert_eq!(stage.run(&["resume", "billing", "--json"]).json()["pause"], Value::Null);
}

#[test]
fn with_resign_nobody_leads_until_it_is_resumed() {
    let stage = Stage::new();
    let _a = stage.stand("billing", "a", LONG);
    let _b = stage.stand("billing", "b", LONG);
    let said = stage.run(&["pause", "billing", "--resign"]);
    assert!(
        said.expect(0).starts_with("paused for 1h: nobody new is elected; a resigned after "),
        "{said:?}"
    );
    stage.run(&["leader", "billing"]).refuse(1, &["it is paused"]);
    stage.run(&["resume", "billing"]).expect(0);
    while stage.run(&["leader", "billing"]).code != Some(0) {}

    let json = stage.run(&["pause", "billing", "--resign", "--json"]).json();
    assert_eq!((&json["resign"]["outcome"], &json["leader"]), (&"done".into(), &Value::Null), "{json}");
}

#[tokio::test]
async fn a_leader_that_does_not_resign_is_told_and_the_pause_stands() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let said = stage.run(&["pause", "billing", "--resign", "--timeout", "200ms"]);
    assert_eq!(said.expect(1), "paused for 1h: nobody new is elected; a leads on, term 1\n");
    assert!(said.stderr.contains("a has not answered within 200ms"), "{said:?}");
    assert!(stage.run(&["status"]).expect(0).contains("held, paused"));
}

#[test]
fn an_election_can_be_paused_before_it_is_there_but_not_resumed() {
    let top = tempfile::tempdir().unwrap();
    let place = top.path().join("store");
    let run = |args: &[&str]| crate::stage::Said::of(command(&place).args(args));
    run(&["resume", "billing"]).refuse(1, &["there is no election \"billing\"", "does not exist"]);
    assert!(everything(top.path()).is_empty(), "nothing is made to resume");
    assert_eq!(run(&["pause", "billing"]).expect(0), "paused for 1h: nobody new is elected; nobody leads\n");
    assert!(run(&["resume", "billing"]).expect(0).ends_with("whoever bids may lead\n"));
    run(&["pause", "billing", "--timeout", "1s"]).refuse(2, &["--resign"]);
    run(&["pause", "billing", "--for", "0s"]).refuse(2, &["'0s'", "more than nothing"]);
}
