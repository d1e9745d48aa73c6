//! A server that refuses, or is not there: what is said, with which code, and never a password.

use tenure_testkit::servers::redis::Options;

use crate::place::{Place, SECRET, assert_ends};
use crate::stage::Said;
use crate::world::{Candidate, tenure};

/// Every verb that looks, and one of those that look first.
const LOOKS: &[&[&str]] = &[
    &["status"],
    &["status", "billing"],
    &["status", "billing", "--json"],
    &["list"],
    &["leader", "billing"],
    &["history", "billing"],
    &["watch", "billing"],
    &["resign", "billing"],
];

fn all_refuse(place: &Place, code: i32, words: &[&str]) {
    for look in LOOKS {
        place.ask(look).refuse(code, words);
    }
}

/// Replaces the password by a wrong one, which is as secret.
fn with_wrong_password(place: &Place) -> String {
    place.url().replace(SECRET, &format!("{SECRET}-not"))
}

#[tokio::test]
async fn a_wrong_password() {
    let place = Place::start().await;
    let words = ["refuses the user or the password", "check both", &place.shown()];
    for look in LOOKS {
        let said = Said::of(tenure().args(*look).args(["--store", &with_wrong_password(&place)]));
        said.refuse(3, &words);
        assert!(!said.stderr.contains(SECRET) && !said.stderr.contains("root"), "{said:?}");
    }
    for more in [&[][..], &["--json", "--verbose"]] {
        let mut command = tenure();
        command.args(["run", "--store", &with_wrong_password(&place), "--election", "billing", "--try"]);
        command.args(more).args(["--", "true"]);
        assert_ends(Candidate::start(command), 125, &words);
    }
}

#[tokio::test]
async fn a_right_that_is_missing() {
    let server =
        Options::default().without_default_user().user("app", SECRET, "~* &* +@all -hset").start().await;
    let mut place = Place { server, options: "survives_restart=true" };
    assert_eq!(place.ask(&["list"]).code, Some(0), "looking needs no right to write");
    assert_ends(place.candidate(&["--try"]), 125, &["grant +hset"]);
    // It goes on trying: an operator may grant the right.
    let candidate = place.candidate(&[]);
    candidate.says("cannot stand: ");
    place.server.call(&["ACL", "SETUSER", "app", "+hset"]).await;
    candidate.leads();

    let server = Options::default().user("app", SECRET, "~* &* +@all -evalsha").start().await;
    place = Place { server, options: "survives_restart=true" };
    for look in LOOKS.iter().filter(|look| look.len() > 1) {
        place.ask(look).refuse(3, &["grant +evalsha"]);
    }
}

#[tokio::test]
async fn a_server_that_is_not_there() {
    let place = Place::start().await;
    place.server.kill().await;
    all_refuse(&place, 3, &["is the server running", &place.shown()]);
    assert_ends(place.candidate(&["--try", "--ttl", "2s"]), 125, &["is the server running"]);
}

#[tokio::test]
async fn a_server_that_gives_no_answer() {
    let place = Place { options: "survives_restart=true&call_timeout=300ms", ..Place::start().await };
    place.server.freeze().await;
    for look in [&["status"][..], &["leader", "billing"]] {
        place.ask(look).refuse(3, &["gave no answer within 300 ms", "call_timeout="]);
    }
    assert_ends(place.candidate(&["--try", "--ttl", "2s"]), 125, &["no answer"]);
    place.server.thaw().await;
}

#[tokio::test]
async fn a_server_that_leases_must_not_lie_in() {
    let server = Options::default().password(SECRET).set("maxmemory-policy", "allkeys-lru").start().await;
    let place = Place { server, options: "survives_restart=true" };
    all_refuse(&place, 2, &["allow_eviction=true"]);
    assert_ends(place.candidate(&["--try"]), 125, &["allow_eviction=true"]);
}

#[tokio::test]
async fn a_url_that_breaks_a_rule() {
    let mut place = Place::start().await;
    place.options = "survives_restart=perhaps";
    all_refuse(&place, 2, &["write true or false"]);
    assert_ends(place.candidate(&["--try"]), 125, &["write true or false"]);
}
