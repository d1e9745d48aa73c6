//! `tenure release --force`.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tenure::store::Next;

use crate::stage::{LONG, Stage};

#[test]
fn a_leader_that_answers_resigns() {
    let stage = Stage::new();
    let _a = stage.stand("billing", "a", LONG);
    let _b = stage.stand("billing", "b", LONG);
    let said = stage.run(&["release", "billing", "--force"]);
    assert!(said.expect(0).starts_with("term 1 of a is over after "), "{said:?}");
    assert!(said.stdout.ends_with("(released); b leads now, term 2\n"), "{said:?}");
    assert!(
        said.stderr.contains("asking a to resign; if it does not answer, its lease runs out in 9m"),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_leader_that_does_not_answer_is_waited_out() {
    let stage = Stage::new();
    stage.lead_with("billing", stage.bid("a", Duration::from_secs(2))).await;
    let said = stage.run(&["release", "billing", "--force", "--json"]);
    said.expect(0);
    let json = said.json();
    assert_eq!((&json["outcome"], &json["former"]["candidate"]), (&"done".into(), &"a".into()), "{json}");
    assert!(json["leader"].is_null() && json["may_act_until"].is_null(), "{json}");
    stage.run(&["leader", "billing"]).refuse(1, &["it is free"]);
}

#[tokio::test]
async fn a_lease_that_does_not_run_out_in_time_is_told() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let said = stage.run(&["release", "billing", "--force", "--timeout", "200ms"]);
    said.refuse(1, &["a has not answered within", "9m 59s are left", "--force --now` frees it at once"]);
    assert_eq!(stage.run(&["leader", "billing"]).expect(0), "a\n");
}

#[tokio::test]
async fn now_frees_it_at_once_and_says_until_when_the_old_leader_may_act() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    let said = stage.run(&["release", "billing", "--force", "--now", "--yes"]);
    let text = said.expect(0);
    assert_eq!(text, "term 1 of a is over; every later token is above 2; nobody leads yet\n");
    assert!(
        said.stderr.contains("a may act until ") && said.stderr.contains("only a fence protects"),
        "{said:?}"
    );
    let history = stage.run(&["history", "billing", "--json"]).json();
    assert_eq!(
        (&history["terms"][0]["end"], &history["terms"][1]["end"]),
        (&"superseded".into(), &"released".into())
    );
    let next = stage.lead("billing", "b").await;
    assert!(next.token.0 > 2 && next.token > lease.token);

    let json = stage.run(&["release", "billing", "--force", "--now", "--yes", "--json"]).json();
    assert_eq!((&json["outcome"], &json["former"]["candidate"]), (&"done".into(), &"b".into()));
    assert!(humantime::parse_rfc3339(json["may_act_until"].as_str().unwrap()).is_ok(), "{json}");
}

#[tokio::test]
async fn what_cannot_be_freed_is_refused() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    stage.run(&["release", "billing"]).refuse(2, &["--force"]);
    stage.run(&["release", "billing", "--force", "--yes"]).refuse(2, &["--now"]);
    let unasked = stage.run(&["release", "billing", "--force", "--now"]);
    unasked.refuse(2, &["standard input is no terminal", "hint: say that it is meant with --yes"]);
    stage.pause("billing", "ops", LONG).await;
    let paused = stage.run(&["release", "billing", "--force", "--now", "--yes"]);
    paused.refuse(1, &["is paused: nobody is elected", "hint: `tenure resume billing`"]);
    assert_eq!(stage.run(&["leader", "billing"]).expect(0), "a\n");
    stage.release(lease, Next::Anybody).await;
    stage
        .run(&["release", "billing", "--force"])
        .refuse(1, &["nobody leads election \"billing\": it is paused"]);
    stage.run(&["release", "nothing", "--force"]).refuse(1, &["there is no election \"nothing\""]);
}

/// Types an answer at a terminal; returns the exit code and what stands there.
fn typed(stage: &Stage, answer: &str) -> (Option<i32>, String) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    let mut command = stage.command();
    command.args(["release", "billing", "--force", "--now"]);
    let mut child = command
        .stdin(Stdio::from(OwnedFd::from(slave)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The terminal keeps it until it is read.
    std::fs::File::from(master.try_clone().unwrap()).write_all(answer.as_bytes()).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

#[tokio::test]
async fn whoever_sits_at_a_terminal_is_asked() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    for answer in ["\n", "n\n", "\x04"] {
        let (code, said) = typed(&stage, answer);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("a leads election \"billing\" in term 1. It may go on acting for up to 10m"),
            "{said}"
        );
        assert!(said.contains("[y/N]") && said.contains("nothing was changed"), "{said}");
    }
    assert_eq!(stage.run(&["leader", "billing"]).expect(0), "a\n");
    let (code, said) = typed(&stage, "y\n");
    assert_eq!(code, Some(0), "{said}");
    stage.run(&["leader", "billing"]).refuse(1, &["it is free"]);
}
