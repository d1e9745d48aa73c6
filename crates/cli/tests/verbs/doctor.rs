//! `tenure doctor`.

use std::collections::BTreeMap;

use serde_json::Value;
use tenure::store::LeaseStore;

use crate::stage::{Said, Stage, election};

/// Returns the verdict of each check; of several findings of one check the last.
fn verdicts(json: &Value) -> BTreeMap<&str, &str> {
    let findings = json["findings"].as_array().unwrap();
    findings
        .iter()
        .map(|found| (found["check"].as_str().unwrap(), found["verdict"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn a_store_that_works_is_tried_out_and_said_to_work() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let json = stage.run(&["doctor", "--json"]).json();
    assert_eq!(json["healthy"], true, "{json}");
    let verdicts = verdicts(&json);
    for check in ["reach", "permission", "atomic", "notifications", "file system"] {
        assert_eq!(verdicts.get(check), Some(&"good"), "{check}: {json}");
    }
    assert!(
        json["round_trip_us"].as_u64() > Some(0) && json["recommended_ttl_ms"].as_u64() >= Some(2000),
        "{json}"
    );
    assert_eq!(json["store"]["name"], "file");

    let said = stage.run(&["doctor"]);
    let table = said.expect(0);
    for words in ["What can be counted on (file: ", "one won, with a higher token each time", "boot clock"] {
        assert!(table.contains(words), "{words:?} is not in {table}");
    }
    assert!(stage.store.read(&election("billing")).await.unwrap().unwrap().leader().is_some(), "untouched");
    assert!(stage.store.read(&election("tenure-doctor")).await.unwrap().unwrap().leader().is_none());
}

#[tokio::test]
async fn whoever_only_looks_writes_nothing() {
    let stage = Stage::new();
    let json = stage.run(&["doctor", "--read-only", "--json"]).json();
    assert_eq!((json["healthy"].as_bool(), verdicts(&json)["permission"]), (Some(true), "noted"), "{json}");
    assert_eq!(stage.store.read(&election("tenure-doctor")).await.unwrap(), None);
}

#[test]
fn a_directory_of_somebody_else_is_bad_and_says_why() {
    let stage = Stage::new();
    let mut command = stage.unprivileged();
    command.env("TENURE_DIR", stage.store.path()).args(["doctor", "--json"]);
    let said = Said::of(&mut command);
    assert_eq!(said.code, Some(1), "{said:?}");
    let json: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(json["healthy"], false);
    let found = &json["findings"][0];
    assert_eq!(found["verdict"], "bad");
    assert!(found["text"].as_str().unwrap().contains("belongs to user"), "{json}");
}

#[test]
fn what_lives_in_one_process_cannot_be_tried_out() {
    let stage = Stage::new();
    let said = stage.run(&["doctor", "--store", "memory:"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("one process") && said.stderr.contains("hint:"), "{said:?}");
}
