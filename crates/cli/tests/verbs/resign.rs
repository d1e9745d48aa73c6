//! `tenure resign`.

use std::time::Duration;

use serde_json::Value;
use tenure::store::{Action, Answer, Answered, Next};

use crate::stage::{LONG, Running, Stage};

#[test]
fn the_leader_resigns_and_the_other_one_leads() {
    let stage = Stage::new();
    let _a = stage.stand("billing", "a", LONG);
    let _b = stage.stand("billing", "b", LONG);
    let said = stage.run(&["resign", "billing"]);
    let text = said.expect(0);
    assert!(text.starts_with("a resigned after "), "{said:?}");
    assert!(text.ends_with("s; b leads now, term 2\n"), "{said:?}");
    assert_eq!(stage.run(&["leader", "billing"]).expect(0), "b\n");
}

#[test]
fn it_is_told_in_json_too() {
    let stage = Stage::new();
    let _a = stage.stand("billing", "a", LONG);
    let _b = stage.stand("billing", "b", LONG);
    let said = stage.run(&["resign", "billing", "--json"]);
    said.expect(0);
    let json = said.json();
    assert_eq!((&json["election"], &json["outcome"]), (&"billing".into(), &"done".into()), "{json}");
    assert_eq!((&json["former"]["candidate"], &json["former"]["token"]), (&"a".into(), &1.into()));
    assert_eq!((&json["leader"]["candidate"], &json["leader"]["token"]), (&"b".into(), &2.into()));
    assert!(json["took_ms"].as_u64().unwrap() <= json["taken_over_ms"].as_u64().unwrap(), "{json}");
    assert_eq!((&json["reason"], &json["successor"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn nobody_who_leads_is_no() {
    let stage = Stage::new();
    stage.run(&["resign", "billing"]).refuse(1, &["there is no election \"billing\"", "hint: `tenure list`"]);
    let lease = stage.lead("billing", "a").await;
    stage.release(lease, Next::Anybody).await;
    stage.run(&["resign", "billing"]).refuse(1, &["nobody leads election \"billing\": it is free"]);
    let json = stage.run(&["resign", "billing", "--json"]);
    json.expect(1);
    assert_eq!((&json.json()["outcome"], &json.json()["took_ms"]), (&"not_asked".into(), &Value::Null));
    assert!(json.json()["reason"].as_str().unwrap().contains("nobody leads"), "{json:?}");
}

#[tokio::test]
async fn a_leader_that_does_not_answer_leads_on() {
    let stage = Stage::new();
    stage.lead_with_names("billing", "a").await;
    let said = stage.run(&["resign", "billing", "--timeout", "200ms"]);
    said.refuse(1, &["a (machine-7) has not answered within 200ms", "a (machine-7) leads now, term 1"]);
    said.refuse(1, &["hint: ", "--timeout", "`tenure release billing --force`"]);
    let json = stage.run(&["resign", "billing", "--timeout", "200ms", "--json"]);
    json.expect(1);
    assert_eq!(
        (&json.json()["outcome"], &json.json()["leader"]["candidate"]),
        (&"unanswered".into(), &"a".into())
    );
}

#[tokio::test]
async fn a_leader_that_refuses_is_told_with_its_reason() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    let running = Running::start(stage.command().args(["resign", "billing"]));
    let request = stage.asked("billing").await;
    assert_eq!((request.action, request.token), (Action::Resign, lease.token));
    let answer = Answered { id: request.id, answer: Answer::Refused("busy\x07".into()) };
    stage.renew_with(lease, Some(answer)).await;
    running.said().refuse(1, &["a refused after ", ": busy\\u{7}; it leads on"]);
}

#[tokio::test]
async fn a_term_that_ends_for_another_reason_is_told() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    let running = Running::start(stage.command().args(["resign", "billing"]));
    stage.asked("billing").await;
    stage.release(lease, Next::Anybody).await;
    running.said().refuse(1, &["a refused after ", "the term ended before it was done; nobody leads yet"]);
}

#[tokio::test]
async fn a_lease_that_runs_out_while_it_is_asked_is_told() {
    let stage = Stage::new();
    stage.lead_with("billing", stage.bid("a", Duration::from_secs(3))).await;
    let said = stage.run(&["resign", "billing", "--timeout", "1m"]);
    said.refuse(1, &["term 1 of a ended without an answer after ", "(expired); nobody leads yet"]);
}

#[tokio::test]
async fn one_request_at_a_time() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    stage.request("billing", lease.token, Action::Resign).await;
    let said = stage.run(&["resign", "billing"]);
    said.refuse(1, &["another request waits for a already: resign, asked by ops, for 9m", "hint: ask again"]);
}
