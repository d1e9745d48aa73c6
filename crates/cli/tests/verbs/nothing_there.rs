//! A store that nobody has used yet, and reading that leaves no trace.

use crate::stage::{Running, Said, Stage, command, everything};

#[test]
fn a_directory_that_is_not_there_has_no_elections_and_is_not_made() {
    let top = tempfile::tempdir().unwrap();
    let place = top.path().join("a/b");
    let run = |args: &[&str]| Said::of(command(&place).args(args));
    assert_eq!(run(&["list"]).expect(0), "");
    assert_eq!(run(&["status"]).expect(0), "");
    let missing = format!("the directory {} does not exist", place.display());
    for verb in ["list", "status"] {
        let said = run(&[verb]);
        assert!(
            said.stderr.starts_with(&format!("no elections: {missing}\nhint: name the store")),
            "{said:?}"
        );
    }
    assert_eq!(run(&["list", "--json"]).json(), serde_json::json!({"elections": []}));
    assert_eq!(run(&["status", "--json"]).json()["elections"], serde_json::json!([]));
    for verb in ["status", "leader", "history", "resign", "handoff", "resume", "repair"] {
        let said = run(&[verb, "billing"]);
        said.refuse(1, &["there is no election \"billing\"", &missing, "hint: name the store"]);
    }
    let said = run(&["leader", "--json", "billing"]);
    said.expect(1);
    assert_eq!(said.json()["leader"], serde_json::Value::Null);
    assert!(everything(top.path()).is_empty());
}

#[tokio::test]
async fn reading_leaves_no_trace() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let before = everything(stage.folder());
    for args in
        [&["status"][..], &["status", "billing"], &["list"], &["leader", "billing"], &["history", "billing"]]
    {
        stage.run(args).expect(0);
        assert_eq!(everything(stage.folder()), before, "{args:?}");
    }
    let watch = Running::start(stage.command().args(["watch", "billing", "another"]));
    watch.next();
    watch.next();
    assert_eq!(everything(stage.folder()), before, "watch");
}
