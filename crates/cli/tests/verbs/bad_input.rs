//! What cannot be answered is refused with the value, the rule and a way out.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::stage::{Said, Stage, TENURE};

#[test]
fn stores_that_are_none_are_errors_of_usage() {
    let stage = Stage::new();
    for (url, words) in [
        ("cassandra://user:secret@host/", &["cassandra://", "it knows file:, memory:"][..]),
        ("/var/lib/leases", &["\"/var/lib/leases\"", "file:///path"]),
        ("file:leases", &["file:///absolute/path"]),
        ("file://host/leases", &["names a host"]),
        ("file:///a?x=1", &["allow_unknown_file_system=true"]),
        ("memory:", &["lives inside one process", "hint: name the store"]),
        ("file:///dev/null", &["is a file", "name one"]),
        ("file:///proc", &["file system of type", "choose a directory"]),
    ] {
        for verb in [
            &["status"][..],
            &["watch"],
            &["list"],
            &["leader", "e"],
            &["history", "e"],
            &["candidates", "e"],
            &["resign", "e"],
            &["handoff", "e"],
            &["pause", "e"],
            &["resume", "e"],
            &["release", "e", "--force"],
            &["token", "floor", "e", "1"],
        ] {
            let said = Said::of(stage.command().args(verb).args(["--store", url]));
            said.refuse(2, words);
            assert!(!said.stderr.contains("secret"), "{said:?}");
        }
    }
    let environment = Said::of(stage.command().arg("list").env("TENURE_STORE", "nothing"));
    environment.refuse(2, &["\"nothing\" has no scheme"]);
}

#[test]
fn names_that_are_none_are_errors_of_usage() {
    let stage = Stage::new();
    let long = "x".repeat(256);
    for (name, words) in [
        ("", "is blank"),
        (" \t", "is blank"),
        (&long, "longer than 255 bytes"),
        ("a\nb", "control character"),
    ] {
        for verb in ["status", "watch", "leader", "history", "resign", "handoff", "pause", "repair"] {
            stage.run(&[verb, name]).refuse(2, &[words, "election name"]);
        }
    }
}

#[test]
fn unknown_flags_and_verbs_get_a_suggestion() {
    let stage = Stage::new();
    stage.run(&["status", "--jsn"]).refuse(2, &["--jsn", "similar", "--json"]);
    stage.run(&["statsu"]).refuse(2, &["statsu", "similar", "status"]);
    stage.run(&["leader"]).refuse(2, &["<NAME>", "--help"]);
    stage.run(&["history"]).refuse(2, &["<NAME>"]);
    stage.run(&["status", "a", "b"]).refuse(2, &["'b'"]);
    stage.run(&["status", "--call-timeout", "soon"]).refuse(2, &["'soon'", "500ms, 30s"]);
    stage.run(&["status", "--call-timeout", "0s"]).refuse(2, &["'0s'", "more than nothing"]);
}

#[test]
fn a_missing_verb_prints_the_help() {
    let stage = Stage::new();
    stage.run(&[]).refuse(2, &["Usage: tenure <COMMAND>", "status", "history"]);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_unavailable() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    // Whoever reads a pipe that nobody writes to waits for ever.
    let record = stage.store.record_file(&crate::stage::election("billing")).unwrap();
    fs::remove_file(&record).unwrap();
    assert!(Command::new("mkfifo").arg(&record).status().unwrap().success());
    for verb in [
        &["status"][..],
        &["watch"],
        &["leader", "billing"],
        &["history", "billing"],
        &["resign", "billing"],
        &["pause", "billing"],
    ] {
        let said = Said::of(stage.command().args(verb).args(["--call-timeout", "200ms"]));
        said.refuse(3, &["no answer within 200ms", "hint: --call-timeout"]);
    }
}

#[tokio::test]
async fn a_store_that_may_not_be_read_is_unavailable() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let place = stage.store.path();
    let mode = |mode| fs::set_permissions(place, Permissions::from_mode(mode)).unwrap();
    mode(0o000);
    let said = Said::of(stage.unprivileged().arg("list").env("TENURE_DIR", place));
    mode(0o700);
    said.refuse(3, &["cannot look into", place.to_str().unwrap(), "denied", "hint: run this as the user"]);
}

#[tokio::test]
async fn a_store_that_may_not_be_written_is_read() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let script = "mount --bind \"$TENURE_DIR\" \"$TENURE_DIR\" && mount -o remount,ro,bind \"$TENURE_DIR\" && exec \"$@\"";
    let mut unshare = Command::new("unshare");
    unshare.arg("--mount");
    if !rustix::process::geteuid().is_root() {
        unshare.arg("--map-root-user");
    }
    unshare.args(["sh", "-c", script, "sh", TENURE, "leader", "billing"]);
    let said = Said::of(unshare.env("TENURE_DIR", stage.store.path()).env_remove("TENURE_STORE"));
    assert_eq!(said.expect(0), "a\n");
}

#[test]
fn an_environment_without_a_place_for_the_default_store_is_an_error_of_configuration() {
    let stage = Stage::new();
    let mut bare = stage.unprivileged();
    for name in ["TENURE_DIR", "XDG_STATE_HOME", "HOME"] {
        bare.env_remove(name);
    }
    Said::of(bare.arg("list")).refuse(2, &["set TENURE_DIR"]);
}
