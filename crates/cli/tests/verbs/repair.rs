//! `tenure repair`.

use std::fs;

use crate::stage::{Said, Stage, election};

#[tokio::test]
async fn a_broken_record_is_mended_and_tokens_go_on_rising() {
    let stage = Stage::new();
    let before = stage.lead("billing", "a").await;
    stage.spoil("billing");
    assert_eq!(stage.run(&["leader", "billing"]).code, Some(3));
    let said = stage.run(&["repair", "billing"]);
    assert!(
        said.expect(0).starts_with("mended: election \"billing\" is free, and every later token is above "),
        "{said:?}"
    );
    assert!(said.stderr.contains("may act until its next renewal"), "{said:?}");
    let next = stage.lead("billing", "b").await;
    assert!(next.token > before.token, "{} {}", next.token, before.token);
}

#[tokio::test]
async fn the_names_of_files_tell_the_highest_token_too() {
    let stage = Stage::new();
    let bid = stage.bid("a", crate::stage::LONG);
    let lease =
        stage.lead_with("billing", tenure::store::Bid { floor: tenure::FencingToken(41), ..bid }).await;
    assert_eq!(lease.token.0, 42);
    // Every record is gone but the broken one; what was granted stands in a name alone.
    let newest = stage.store.record_file(&election("billing")).unwrap();
    for entry in fs::read_dir(newest.parent().unwrap()).unwrap() {
        fs::write(entry.unwrap().path(), "").unwrap();
    }
    let json = stage.run(&["repair", "billing", "--json"]).json();
    assert_eq!((&json["election"], &json["repaired"]), (&"billing".into(), &true.into()), "{json}");
    assert!(json["token"].as_u64().unwrap() >= 42, "{json}");
    assert!(stage.lead("billing", "b").await.token.0 > 42);
}

#[tokio::test]
async fn a_sound_record_is_left_alone_and_other_stores_are_refused() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let said = stage.run(&["repair", "billing"]);
    assert_eq!(said.expect(0), "nothing to mend: the record of election \"billing\" can be understood\n");
    let json = stage.run(&["repair", "billing", "--json"]).json();
    assert_eq!((&json["repaired"], &json["token"]), (&false.into(), &1.into()));
    assert_eq!(stage.run(&["leader", "billing"]).expect(0), "a\n");
    stage.run(&["repair", "nothing"]).refuse(1, &["there is no election \"nothing\""]);
    let url = "redis://app:secret@localhost:1";
    let other = Said::of(stage.command().args(["repair", "billing", "--store", url]));
    other.refuse(2, &["redis://localhost:1/0 is no directory", "hint: ", "`tenure token floor NAME N`"]);
    assert!(!other.stderr.contains("secret"), "{other:?}");
}
