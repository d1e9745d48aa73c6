//! Other software that holds the lease is shown as what it is: a name and a time, and no term.

use serde_json::Value;

use crate::place::{Place, assert_ends};

const LEASE: &str = "tenure:leader:billing";

#[tokio::test]
async fn other_software_that_holds_the_lease_is_shown_with_its_value_and_its_time() {
    let place = Place::start().await;
    place.server.call(&["SET", LEASE, "kim", "NX", "PX", "600000"]).await;
    let detail = place.ask(&["status", "billing"]);
    let detail = detail.expect(0);
    let line = |what: &str| {
        let line = detail.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap_or_else(|| panic!("no {what} in {detail}")).trim().to_owned()
    };
    assert_eq!((line("state"), line("leader")), ("held".into(), "kim".into()));
    assert_eq!(line("since"), "unknown: other software holds the lease, outside of all terms");
    assert!(line("time left").starts_with("9m 5") && !line("time left").contains("of"));
    assert_eq!(line("metadata"), "foreign = kim");
    assert!(!detail.contains("1970") && !detail.contains("renewals"), "{detail}");

    let leader = place.ask(&["leader", "billing", "--json"]).json()["leader"].clone();
    assert_eq!((&leader["candidate"], &leader["metadata"]["foreign"]), (&"kim".into(), &"kim".into()));
    assert!(leader["time_left_ms"].as_u64().unwrap() > 590_000, "{leader}");
    for unknown in ["token", "acquired_at", "renewed_at", "term_ms", "ttl_ms", "renew_count"] {
        assert_eq!(leader[unknown], Value::Null, "{unknown}: {leader}");
    }
    assert_eq!(place.ask(&["leader", "billing"]).expect(0), "kim\n");
    let history = place.ask(&["history", "billing"]);
    assert_eq!((history.expect(0), history.stderr.contains("no term yet")), ("", true));

    assert_ends(place.candidate(&["--try"]), 75, &["kim holds the lease (other software)"]);
    // Now that one of ours has met it there is a record.
    let table = place.ask(&["status"]);
    let row = table.expect(0).lines().nth(1).unwrap();
    let row: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    assert_eq!(row[..3], ["billing", "held", "kim (other software)"], "{table:?}");
    assert_eq!((row[4], row[6]), ("-", "-"), "{table:?}");

    place.server.call(&["PERSIST", LEASE]).await;
    assert!(place.ask(&["status", "billing"]).expect(0).contains("time left  without end"));
}

#[tokio::test]
async fn a_watch_tells_when_other_software_takes_the_lease_and_leaves_it() {
    let place = Place::start().await;
    // Without this everybody would wait for the time that was left.
    place.server.call(&["CONFIG", "SET", "notify-keyspace-events", "Kgx"]).await;
    let mut first = place.candidate(&["--once", "--wait", "1h"]);
    let token = first.leads();
    let watch = place.keep_asking(&["watch", "--json", "billing"]);
    assert_eq!(watch.next_json()["event"], "found");
    first.signal(rustix::process::Signal::INT);
    first.exits();
    assert_eq!(watch.next_json()["event"], "released");

    place.server.call(&["SET", LEASE, "kim", "NX", "PX", "600000"]).await;
    let second = place.candidate(&[]);
    second.says("standing by: kim holds the lease (other software)");
    let watch_now = place.keep_asking(&["watch", "billing"]);
    let line = watch_now.next();
    assert!(line.ends_with("billing: kim holds the lease, outside of all terms (other software)"), "{line}");
    place.server.call(&["DEL", LEASE]).await;
    let next = second.leads();
    assert!(next > token);
    let mut line = watch_now.next();
    if line.contains("nobody leads") {
        // It looked between the two.
        line = watch_now.next();
    }
    assert!(line.ends_with(&format!("elected, term {next}")), "{line}");
    let mut last = watch.next_json();
    while last["event"] == "found" {
        last = watch.next_json();
    }
    assert_eq!((&last["event"], &last["token"]), (&"elected".into(), &next.into()), "told twice: {last}");
}
