//! What goes wrong is named, with the way out.

use std::time::Duration;

use tenure_core::SystemClock;
use tenure_core::clock::ClockExt;
use tenure_core::store::{ErrorKind, Renewal, StoreError};
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::{Candidate, here, name, open, soon};

const TTL: Duration = Duration::from_secs(60);

async fn refusal(url: &str, options: &str) -> StoreError {
    let first = Candidate::new(open(url, &format!("survives_restart=true&{options}")), "first", TTL);
    first.store.acquire(&name("refused"), &first.bid()).await.unwrap_err()
}

fn says(error: &StoreError, kind: ErrorKind, hint: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(hint), "{hint:?} is missing: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there() {
    let server = here(Redis::start());
    server.kill().await;
    says(&refusal(&server.url(), "call_timeout=1s").await, ErrorKind::Unavailable, "is the server running");
    says(
        &refusal("redis+unix:///nowhere/socket", "call_timeout=1s").await,
        ErrorKind::Unavailable,
        "is the server running",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_cluster() {
    let server = here(Options::default().set("cluster-enabled", "yes").start());
    says(&refusal(&server.url(), "").await, ErrorKind::Invalid, "redis+cluster://");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_there() {
    let server = here(Redis::start());
    says(&refusal(&server.url(), "db=99").await, ErrorKind::Invalid, "lower number");
    let url = format!("redis+unix://{}", server.socket().display());
    let first = Candidate::new(open(&url, "survives_restart=true&db=3"), "first", TTL);
    first.win(&name("over a socket")).await;
    assert!(server.call(&["INFO", "keyspace"]).await.line("db3").is_some(), "it lies in database 3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_held_up_by_a_script() {
    let server = here(Options::default().set("busy-reply-threshold", "50").start());
    let first = Candidate::new(open(&server.url(), "survives_restart=true&call_timeout=5s"), "first", TTL);
    let lease = first.win(&name("held up")).await;
    let slow = async { server.call(&["EVAL", "while true do end", "0"]).await };
    let meanwhile = async {
        let mut said = None;
        while said.is_none() {
            match first.store.renew(&[first.renewal(&lease)]).await.remove(0) {
                Err(error) => said = Some(error),
                Ok(_) => SystemClock.sleep(Duration::from_millis(5)).await,
            }
        }
        server.call(&["SCRIPT", "KILL"]).await;
        said.unwrap()
    };
    let (_, error) = tokio::join!(slow, meanwhile);
    says(&error, ErrorKind::Unavailable, "SCRIPT KILL");
    soon("the same handle works again", async || {
        first.store.renew(&[first.renewal(&lease)]).await.remove(0).is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_a_held_lease_is_renewed_and_released() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), "survives_restart=true"), "first", TTL);
    let lease = first.win(&name("held")).await;
    server.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let error = first.store.acquire(&name("new"), &first.bid()).await.unwrap_err();
    says(&error, ErrorKind::Unavailable, "raise maxmemory");
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap();
    let Renewal::Renewed(lease, _) = renewed else { panic!("{renewed:?}") };
    first.store.release(&first.release_of(&lease)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn eviction_is_refused_unless_it_is_asked_for() {
    let server = here(Options::default().set("maxmemory-policy", "volatile-lru").start());
    says(&refusal(&server.url(), "").await, ErrorKind::Invalid, "volatile-lru");
    let first =
        Candidate::new(open(&server.url(), "survives_restart=true&allow_eviction=true"), "first", TTL);
    first.win(&name("risky")).await;
    let assumptions = first.store.guarantees().assumptions;
    assert!(
        assumptions.iter().any(|assumption| assumption.contains("never removes a lease")),
        "{assumptions:?}"
    );
}
