//! `tenure token floor` and `tenure token check`.

use tenure::store::Next;
use tenure::{Fence, FencingToken};

use crate::stage::{LONG, Said, Stage, command};

#[tokio::test]
async fn every_later_token_is_above_the_floor() {
    let stage = Stage::new();
    let said = stage.run(&["token", "floor", "billing", "1000"]);
    assert_eq!(said.expect(0), "every later token of election \"billing\" is above 1001\n");
    let lease = stage.lead("billing", "a").await;
    assert_eq!(lease.token.0, 1002);
    stage.release(lease, Next::Anybody).await;
    let json = stage.run(&["token", "floor", "billing", "7", "--json"]).json();
    let expected = serde_json::json!({"election": "billing", "floor": 7, "token": 1002, "reason": null});
    assert_eq!(json, expected, "it is above that already");
}

#[tokio::test]
async fn a_floor_is_not_set_under_a_leader_nor_in_a_pause() {
    let stage = Stage::new();
    let lease = stage.lead("billing", "a").await;
    let said = stage.run(&["token", "floor", "billing", "1000"]);
    said.refuse(1, &["the floor 1000 was not set: a leads election \"billing\" with token 1", "hint: "]);
    let json = stage.run(&["token", "floor", "billing", "1000", "--json"]);
    json.expect(1);
    assert_eq!((&json.json()["token"], json.json()["reason"].is_string()), (&1.into(), true), "{json:?}");
    stage.release(lease, Next::CoolDown(LONG)).await;
    stage.run(&["token", "floor", "billing", "1000"]).refuse(1, &["is reserved", "hint: try again in 9m"]);
    stage.pause("billing", "ops", LONG).await;
    stage.run(&["token", "floor", "billing", "1000"]).refuse(1, &["is paused", "`tenure resume billing`"]);
    for number in ["-1", "18446744073709551615", "seven"] {
        stage.run(&["token", "floor", "billing", "--", number]).refuse(2, &[number, "<N>"]);
    }
}

#[test]
fn a_token_is_let_in_unless_a_higher_one_has_been_here() {
    let stage = Stage::new();
    let check =
        |resource: &str, token: &str| stage.run(&["token", "check", "--resource", resource, "--last", token]);
    assert_eq!(check("bills", "7").expect(0), "7\n");
    assert_eq!(check("bills", "7").expect(0), "7\n");
    check("bills", "6").refuse(1, &["token 6 is refused, 7 has been here"]);
    assert_eq!(check("bills", "9").expect(0), "9\n");
    check("bills", "7").refuse(1, &["token 7 is refused, 9 has been here"]);
    assert_eq!(check("other/bills", "1").expect(0), "1\n");

    let json = stage.run(&["token", "check", "--resource", "bills", "--last", "7", "--json"]);
    json.expect(1);
    let expected = serde_json::json!({"resource": "bills", "token": 7, "highest": 9, "is_highest": false});
    assert_eq!(json.json(), expected);
}

#[test]
fn a_fence_that_cannot_be_had_is_no_yes() {
    let stage = Stage::new();
    stage
        .run(&["token", "check", "--resource", " ", "--last", "7"])
        .refuse(2, &["\" \" is blank", "such as bills"]);
    stage.run(&["token", "check", "--resource", "bills", "--last", "x"]).refuse(2, &["'x'", "--last"]);
    let at = |directory: &str| {
        Said::of(stage.command().args([
            "token",
            "check",
            "--resource",
            "r",
            "--last",
            "1",
            "--directory",
            directory,
        ]))
    };
    at("/dev/null/x").refuse(3, &["cannot make the directory /dev/null/x"]);
    let place = stage.folder().join("fences");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("r"), "nonsense").unwrap();
    at(place.to_str().unwrap()).refuse(3, &["the highest token cannot be told"]);
}

#[test]
fn a_write_that_is_let_in_is_waited_for_but_not_for_ever() {
    let top = tempfile::tempdir().unwrap();
    let fence = Fence::open(top.path().join("r")).unwrap();
    let directory = top.path().to_str().unwrap().to_owned();
    let limited = || {
        let mut check = command(top.path());
        check.args(["token", "check", "--resource", "r", "--last", "2", "--directory", &directory]);
        Said::of(check.args(["--call-timeout", "200ms"]))
    };
    fence
        .guard(FencingToken(1), || {
            limited().refuse(3, &["has not ended within 200ms"]);
        })
        .unwrap();
    // The newer one has shut the older one out all the same.
    assert!(fence.guard(FencingToken(1), || {}).is_err());
    assert_eq!(limited().expect(0), "2\n");
}
