//! `tenure history`.

use tenure::store::Next;

use crate::stage::{LONG, Stage};

#[tokio::test]
async fn the_last_terms_stand_in_order_the_present_one_last() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    stage.release(lease, Next::Anybody).await;
    let lease = stage.lead_with_names("billing", "b").await;
    stage.release_with(lease, Next::Anybody, true, None).await;
    stage.lead("billing", "c").await;

    let said = stage.run(&["history", "billing"]);
    let lines: Vec<Vec<_>> = said.expect(0).lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["TOKEN", "CANDIDATE", "IDENTITY", "BEGAN", "ENDED", "HOW"]);
    assert_eq!((lines[1][..3].to_vec(), lines[1][5]), (vec!["1", "a", "-"], "released"));
    assert_eq!((lines[2][..3].to_vec(), lines[2][5]), (vec!["2", "b", "machine-7"], "succeeded"));
    assert_eq!((lines[3][..3].to_vec(), &lines[3][4..]), (vec!["3", "c", "-"], &["-", "leads"][..]));
    assert!(humantime::parse_rfc3339(lines[1][3]).is_ok() && humantime::parse_rfc3339(lines[1][4]).is_ok());

    let json = stage.run(&["history", "billing", "--json"]).json();
    assert_eq!(json["election"], "billing");
    let ends: Vec<_> = json["terms"].as_array().unwrap().iter().map(|term| term["end"].clone()).collect();
    assert_eq!(serde_json::Value::from(ends), serde_json::json!(["released", "succeeded", null]));
    assert!(humantime::parse_rfc3339(json["terms"][0]["acquired_at"].as_str().unwrap()).is_ok());
}

#[tokio::test]
async fn an_election_that_was_only_paused_has_no_terms() {
    let stage = Stage::new();
    stage.pause("billing", "ops", LONG).await;
    let said = stage.run(&["history", "billing"]);
    assert_eq!(said.expect(0), "");
    assert!(said.stderr.contains("has had no term yet"), "{said:?}");
}
