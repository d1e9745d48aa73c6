//! `tenure handoff`, where the store cannot tell who stands by; how names are found is tested beside the code, and over Redis.

use std::time::Duration;

use crate::stage::{LONG, Stage};

#[test]
fn the_leader_hands_off_to_whoever_is_named() {
    let stage = Stage::new();
    let (a, b, c) = ("host-1_1_aaaaaaaa", "host-2_2_bbbbbbbb", "host-3_3_cccccccc");
    let _all = [a, b, c].map(|who| stage.stand("billing", who, LONG));
    let said = stage.run(&["handoff", "billing", "--to", c]);
    let text = said.expect(0);
    assert!(text.starts_with("host-1_1_aaaaaaaa handed off after "), "{said:?}");
    assert!(text.ends_with("; host-3_3_cccccccc leads now, term 2\n"), "{said:?}");
    let json = stage.run(&["handoff", "billing", "--to", b, "--json"]);
    json.expect(0);
    let json = json.json();
    assert_eq!((&json["outcome"], &json["successor"]), (&"done".into(), &b.into()), "{json}");
    assert_eq!((&json["former"]["candidate"], &json["leader"]["candidate"]), (&c.into(), &b.into()));
    assert!(json["took_ms"].as_u64().unwrap() <= json["taken_over_ms"].as_u64().unwrap(), "{json}");
}

#[test]
fn without_a_name_anybody_but_the_leader_takes_over() {
    let stage = Stage::new();
    let _a = stage.stand("billing", "a", LONG);
    let _b = stage.stand("billing", "b", LONG);
    let said = stage.run(&["handoff", "billing"]);
    assert!(said.expect(0).ends_with("; b leads now, term 2\n"), "{said:?}");
}

#[tokio::test]
async fn while_it_is_paused_nobody_is_stopped_for_it() {
    let stage = Stage::new();
    let _a = stage.stand("billing", "a", LONG);
    let _b = stage.stand("billing", "b", LONG);
    stage.run(&["pause", "billing", "--for", "1h"]).expect(0);
    stage
        .run(&["handoff", "billing"])
        .refuse(1, &["is paused for 59m", "hint: `tenure resume billing` first"]);
    assert_eq!(stage.run(&["leader", "billing"]).expect(0).trim(), "a", "it leads on");
}

#[test]
fn somebody_who_does_not_come_is_told_with_who_leads_instead() {
    let stage = Stage::new();
    let _a = stage.stand("billing", "a", Duration::from_secs(2));
    let said = stage.run(&["handoff", "billing", "--to", "gone_9_00000000", "--json"]);
    said.expect(1);
    assert_eq!(said.json()["outcome"], "not_taken_over", "{said:?}");
    for words in ["a gave the lease back after ", "but gone_9_00000000 did not take it", "hint: see that"] {
        assert!(said.stderr.contains(words), "{words:?} is not in {said:?}");
    }
}

#[tokio::test]
async fn names_that_cannot_be_meant_stop_nobody() {
    let stage = Stage::new();
    stage.lead_with_names("billing", "a").await;
    for (who, words) in [
        ("a", "a leads already"),
        ("machine-7", "machine-7 leads already"),
        ("host-2", "\"host-2\" is not the whole name of a candidate (host_pid_random)"),
    ] {
        let said = stage.run(&["handoff", "billing", "--to", who]);
        said.refuse(1, &[words]);
    }
    let record = stage.run(&["status", "billing", "--json"]).json();
    assert!(
        record["elections"][0]["request"].is_null() && record["elections"][0]["answer"].is_null(),
        "{record}"
    );
    stage.run(&["handoff", "nobody-leads"]).refuse(1, &["there is no election \"nobody-leads\""]);
}
