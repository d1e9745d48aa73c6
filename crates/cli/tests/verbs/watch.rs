//! `tenure watch`.

use std::time::Duration;

use tenure::FencingToken;
use tenure::store::{Action, Next};

use crate::stage::{LONG, Running, Stage, candidate};

/// Takes the time off a line.
fn text(line: &str) -> &str {
    let (time, text) = line.split_once(' ').unwrap();
    assert!(humantime::parse_rfc3339(time).is_ok(), "{line}");
    text
}

#[tokio::test]
async fn each_change_is_a_line() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    let watch = Running::start(stage.command().args(["watch", "billing"]));
    assert!(text(&watch.next()).starts_with("billing: a leads in term 1 for "));
    let lease = stage.renew(lease).await;
    stage.release(lease, Next::Anybody).await;
    assert_eq!(text(&watch.next()), "billing: a released term 1", "a renewal is no event");
    stage.pause("billing", "ops", LONG).await;
    assert!(text(&watch.next()).starts_with("billing: paused by ops for "));
    stage.resume("billing").await;
    assert_eq!(text(&watch.next()), "billing: resumed");
    let lease = stage.lead_with_names("billing", "b").await;
    assert_eq!(text(&watch.next()), "billing: b (machine-7) elected, term 2");
    stage.request("billing", lease.token, Action::Resign).await;
    let asked = "billing: ops requested that the leader of term 2 does this: resign";
    assert_eq!(text(&watch.next()), asked);
    stage.release(lease, Next::Successor { candidate: candidate("c"), window: LONG }).await;
    let answered = "billing: the leader answered the request: refused, the term ended before it was done";
    assert_eq!(text(&watch.next()), answered, "it did not resign");
    assert_eq!(text(&watch.next()), "billing: b (machine-7) handed term 2 off to c");
}

#[tokio::test]
async fn a_lease_that_runs_out_is_seen_although_nobody_writes() {
    let stage = Stage::new();
    let watch = Running::start(stage.command().args(["watch", "--json"]));
    let waits = watch.talk.recv_timeout(crate::stage::HANG).unwrap();
    assert!(waits.starts_with("no elections; waiting"), "{waits}");
    // Long enough to be seen alive, also on a busy machine.
    let lease = stage.lead_with("billing", stage.bid("a", Duration::from_secs(5))).await;
    let first = watch.next_json();
    assert_eq!((&first["event"], &first["state"]), (&"found".into(), &"held".into()), "{first}");
    let expired = watch.next_json();
    assert_eq!(
        (&expired["event"], &expired["token"]),
        (&"expired".into(), &lease.token.0.into()),
        "{expired}"
    );
    stage.lead("billing", "b").await;
    let elected = watch.next_json();
    assert_eq!(
        (&elected["event"], &elected["candidate"]),
        (&"elected".into(), &"b".into()),
        "told once: {elected}"
    );
}

#[tokio::test]
async fn without_a_name_all_are_watched_also_those_that_begin_later() {
    let stage = Stage::new();
    stage.lead("one", "a").await;
    let watch = Running::start(stage.command().arg("watch"));
    assert!(text(&watch.next()).starts_with("one: a leads"));
    let lease = stage.lead("two", "b").await;
    assert!(text(&watch.next()).starts_with("two: b leads in term 1"));
    stage.release(lease, Next::Anybody).await;
    assert_eq!(text(&watch.next()), "two: b released term 1");
}

#[tokio::test]
async fn an_election_that_nobody_has_held_yet_can_be_watched_and_looking_is_said() {
    let stage = Stage::new();
    let watch = Running::start(stage.command().args(["watch", "billing"]));
    assert_eq!(text(&watch.next()), "billing: nobody leads (free)");
    assert_eq!(
        watch.talk.recv_timeout(crate::stage::HANG).unwrap(),
        "not every change is announced here: looking every 1s"
    );
    let lease = stage.lead("billing", "a").await;
    assert_eq!(text(&watch.next()), "billing: a elected, term 1");
    stage.release(lease, Next::Anybody).await;
    assert_eq!(text(&watch.next()), "billing: a released term 1");
}

#[tokio::test]
async fn a_broken_record_is_said_and_the_others_are_watched_on() {
    let stage = Stage::new();
    stage.lead("broken", "a").await;
    let lease = stage.lead("sound", "b").await;
    stage.spoil("broken");
    let watch = Running::start(stage.command().arg("watch"));
    assert!(text(&watch.next()).starts_with("sound: b leads"));
    let said = watch.talk.recv_timeout(crate::stage::HANG).unwrap();
    assert!(said.contains("cannot be understood"), "{said}");
    stage.release(lease, Next::Anybody).await;
    assert_eq!(text(&watch.next()), "sound: b released term 1");
    stage.store.repair(&crate::stage::election("broken")).await.unwrap();
    stage.lead("broken", "c").await;
    let elected = watch.next();
    assert!(text(&elected).starts_with("broken: c elected, term "), "{elected}");
}

#[tokio::test]
async fn whoever_reads_one_line_is_not_waited_for() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    // Nothing more happens: the command must notice by itself that nobody reads any more.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "\"$0\" watch | head -1", crate::stage::TENURE]);
    let running = Running::start(shell.env("TENURE_DIR", stage.store.path()).env_remove("TENURE_STORE"));
    assert!(text(&running.next()).starts_with("billing: a leads"));
    assert_eq!(running.lines.recv_timeout(crate::stage::HANG).ok(), None);
    assert_eq!(running.wait(), Some(0));
}

#[tokio::test]
async fn json_events_name_the_term() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    let watch = Running::start(stage.command().args(["watch", "--json", "billing"]));
    let found = watch.next_json();
    assert_eq!((&found["token"], &found["candidate"]), (&FencingToken(1).0.into(), &"a".into()));
    stage.release_with(lease, Next::Anybody, true, None).await;
    let ended = watch.next_json();
    assert_eq!((&ended["event"], &ended["election"]), (&"succeeded".into(), &"billing".into()), "{ended}");
}
