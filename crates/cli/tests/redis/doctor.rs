//! `tenure doctor` on a server that works, on a young one, and on one that refuses.

use tenure_testkit::servers::redis::Options;

use crate::place::{Place, SECRET};
use crate::stage::Said;
use crate::world::tenure;

#[tokio::test]
async fn a_server_that_works_is_tried_out() {
    let place = Place::start().await;
    let said = place.ask(&["doctor"]);
    let table = said.expect(0);
    for words in [
        &format!("{} answers", place.shown()),
        "this user may bid, renew and release",
        "one won, with a higher token each time",
        "whoever waits hears of every change",
        "Assumes: ",
    ] {
        assert!(table.contains(words), "{words:?} is not in {table}");
    }
}

#[tokio::test]
async fn a_young_server_is_no_fault_but_told() {
    let server = Options::default().password(SECRET).start().await;
    let place = Place { server, options: "longest_ttl=1h" };
    let said = place.ask(&["doctor"]);
    let table = said.expect(0);
    assert!(table.contains("nobody is elected here for another"), "{table}");
    assert!(table.contains("It works; 1 to think about."), "{table}");
}

#[tokio::test]
async fn a_user_who_may_not_write_is_told_what_is_missing() {
    let rules = "resetchannels &* ~* +@all -set";
    let server = Options::default().user("app", SECRET, rules).start().await;
    let url = format!("redis://app:{SECRET}@{}?survives_restart=true", server.address());
    let said = Said::of(tenure().args(["doctor", "--store", &url]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("BAD") && said.stdout.contains("grant +set on "), "{said:?}");
    assert!(said.stdout.contains("1 to mend."), "{said:?}");
    assert!(!format!("{said:?}").contains(SECRET), "{said:?}");
}
