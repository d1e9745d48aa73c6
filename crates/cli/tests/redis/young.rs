//! On a server that began lately nobody leads yet, and `run` says why and for how long.

use tenure_testkit::servers::redis::Options;

use crate::place::{Place, SECRET, assert_ends};

#[tokio::test]
async fn whoever_waits_for_a_young_server_is_told_so() {
    let server = Options::default().password(SECRET).start().await;
    let place = Place { server, options: "" };
    assert_ends(
        place.candidate(&["--try", "--ttl", "1h"]),
        75,
        &[
            "nobody may lead now: the store began lately and may have forgotten a lease that still lives, for ",
        ],
    );
    let long = place.candidate(&["--ttl", "1h"]);
    let line = long.says("waiting, nobody may lead now: the store began lately");
    assert!(line.contains(", for 59m") || line.contains(", for 1h"), "{line}");
    let short = place.candidate(&["--ttl", "3s"]);
    short.says("the store began lately");
    short.leads();
}

#[tokio::test]
async fn a_pause_is_told_too() {
    let place = Place::start().await;
    let store = tenure::open(&place.url()).unwrap();
    let election = crate::stage::election("billing");
    let pause = tenure::store::Pause { by: "ops".into(), ends_in: crate::stage::LONG };
    let attempt = tenure::Attempt::new(&tenure::Random::from_os());
    store.operator().unwrap().pause(&election, attempt, pause).await.unwrap();
    let candidate = place.candidate(&[]);
    candidate.says("waiting, nobody may lead now: an operator paused the election, for 9m");
    store.operator().unwrap().resume(&election, attempt).await.unwrap();
    candidate.leads();
}
