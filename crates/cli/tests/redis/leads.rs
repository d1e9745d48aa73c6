//! One leads, the next takes over, and everybody sees it.

use rustix::process::Signal;
use serde_json::Value;

use crate::place::{Place, SECRET};
use crate::world::{Candidate, eventually};

/// Short, so that what has to wait for an expiry does not wait long.
const QUICK: &[&str] = &["--ttl", "2s"];

/// Takes the time off a line of `watch`.
fn text(line: &str) -> &str {
    line.split_once(' ').unwrap().1
}

#[tokio::test]
async fn a_second_candidate_takes_over_when_the_first_is_killed() {
    let place = Place::start().await;
    let mut first = place.candidate(QUICK);
    let token = first.leads();
    let second = place.candidate(QUICK);
    assert!(second.says("standing by: ").ends_with(&format!("{} leads, term {token}", first.name())));
    first.signal(Signal::KILL);
    assert_eq!(first.exits(), 128 + 9);
    let next = second.leads();
    assert!(next > token, "{next} follows {token}");
    let history = place.ask(&["history", "billing", "--json"]).json();
    assert_eq!(history["terms"][0]["end"], "expired", "{history}");
}

#[tokio::test]
async fn a_second_candidate_takes_over_when_the_first_is_interrupted() {
    let place = Place::start().await;
    // Nobody would wait so long: the lease is given back.
    let mut first = place.candidate(&["--ttl", "1h"]);
    let token = first.leads();
    let second = place.candidate(&["--ttl", "1h"]);
    second.stands_by();
    first.signal(Signal::INT);
    // The command's own, which had no time to clean up.
    assert_eq!(first.exits(), 128 + 15);
    assert!(second.leads() > token);
    for candidate in [&first, &second] {
        let said = candidate.said().join("\n");
        assert!(said.contains(&place.shown()) && !said.contains(SECRET), "{said}");
    }
}

#[tokio::test]
async fn the_command_is_told_where_it_is_without_the_password() {
    let place = Place::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = place.run(&["--once"]);
    command.args(["--", "sh", "-c", "env > told"]).current_dir(folder.path());
    command.env("TENURE_STORE", place.url());
    assert_eq!(Candidate::start(command).exits(), 0);
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert!(told.contains(&format!("TENURE_STORE={}\n", place.shown())), "{told}");
    assert!(!told.contains(SECRET), "{told}");
}

#[tokio::test]
async fn every_verb_shows_who_leads() {
    let place = Place::start().await;
    assert!(place.ask(&["list"]).stderr.contains("no elections"));
    let watch = place.keep_asking(&["watch", "billing"]);
    assert_eq!(text(&watch.next()), "billing: nobody leads (free)");
    let mut first = place.candidate(&[]);
    let token = first.leads();
    let leader = first.name();
    assert_eq!(text(&watch.next()), format!("billing: {leader} elected, term {token}"));
    let watch_json = place.keep_asking(&["watch", "--json"]);
    let found = watch_json.next_json();
    assert_eq!(
        (&found["event"], &found["candidate"], &found["token"]),
        (&"found".into(), &leader.as_str().into(), &token.into()),
        "{found}"
    );

    assert_eq!(place.ask(&["list"]).expect(0), "billing\n");
    assert_eq!(place.ask(&["list", "--json"]).json()["elections"], serde_json::json!(["billing"]));
    assert_eq!(place.ask(&["leader", "billing"]).expect(0), format!("{leader}\n"));
    let answer = place.ask(&["leader", "billing", "--json"]).json();
    assert_eq!(answer["leader"]["token"], token, "{answer}");
    let table = place.ask(&["status"]);
    let row: Vec<_> = table.expect(0).lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..4], ["billing", "held", &leader, &token.to_string()]);
    let detail = place.ask(&["status", "billing"]);
    for words in [&leader, &place.shown(), "Z (", " of 30s", "Followers are told of every change."] {
        assert!(detail.expect(0).contains(words), "{words:?} is not in {detail:?}");
    }
    let status = place.ask(&["status", "billing", "--json"]).json();
    let election = &status["elections"][0];
    assert_eq!((&election["state"], &status["store"]["name"]), (&"held".into(), &"redis".into()));
    assert!(election["leader"]["term_ms"].is_u64() && election["leader"]["acquired_at"].is_string());

    first.signal(Signal::INT);
    first.exits();
    assert_eq!(text(&watch.next()), format!("billing: {leader} released term {token}"));
    let released = watch_json.next_json();
    assert_eq!((&released["event"], &released["token"]), (&"released".into(), &token.into()));
    let history = place.ask(&["history", "billing"]);
    let row: Vec<_> = history.expect(0).lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[5]), (token.to_string().as_str(), leader.as_str(), "released"));
    assert_eq!(place.ask(&["leader", "billing"]).code, Some(1));
    assert_eq!(place.ask(&["leader", "billing", "--json"]).json()["leader"], Value::Null);
}

#[tokio::test]
async fn a_candidate_that_was_first_leads_when_the_server_comes() {
    let place = Place::start().await;
    place.server.kill().await;
    let candidate = place.candidate(QUICK);
    candidate.says("cannot stand: ");
    place.server.start_again().await;
    candidate.leads();
    eventually("it is seen", || (place.ask(&["leader", "billing"]).code == Some(0)).then_some(()));
}
