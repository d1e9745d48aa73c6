//! One connection for calls and one for news, whatever the number of elections; a dead one is noticed and replaced.

use std::time::Duration;

use tenure_core::store::{Acquisition, Bid, Changes, ErrorKind, LeaseStore, Renewal};
use tenure_core::{Clock, SystemClock};
use tenure_testkit::proxy::{Proxy, Resp};
use tenure_testkit::servers::redis::{Data, Redis};

use crate::support::{Candidate, here, name, open, soon};

const TTL: Duration = Duration::from_secs(60);

async fn connections(server: &Redis) -> usize {
    let list = server.call(&["CLIENT", "LIST"]).await.text().unwrap();
    list.lines().filter(|line| line.contains(&format!("name=tenure-{} ", std::process::id()))).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_has_two_connections_for_all_its_elections() {
    let server = here(Redis::start());
    let store = open(&server.url(), "survives_restart=true");
    let first = Candidate::new(store.clone(), "first", TTL);
    let mut watches: Vec<Changes> = Vec::new();
    for i in 0..300 {
        let election = name(&format!("many-{i}"));
        watches.push(store.watch(std::slice::from_ref(&election)).unwrap());
        first.win(&election).await;
    }
    let channels = async || server.call(&["PUBSUB", "CHANNELS"]).await.list().len();
    soon("a channel for each election", async || channels().await == 300).await;
    assert_eq!(connections(&server).await, 2);
    watches.truncate(100);
    soon("no channel that nobody watches", async || channels().await == 100).await;
    watches.clear();
    soon("no connection that nobody needs", async || connections(&server).await == 1).await;
    drop((first, store));
    soon("no connection of a store that is gone", async || connections(&server).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_hole_costs_one_call_and_a_repeated_call_does_not_even_wait() {
    let server = here(Redis::start());
    let proxy = Proxy::start(server.address(), Resp);
    let url = server.url_by(proxy.address());
    let first = Candidate::new(open(&url, "survives_restart=true&call_timeout=2s"), "first", TTL);
    let election = name("black-hole");
    let lease = first.win(&election).await;

    // What has a connection has lost it without a sign; new ones are served.
    proxy.strand();
    let renewal = first.renewal(&lease);
    let error = first.store.renew(std::slice::from_ref(&renewal)).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    let mut again = first.renewal(&lease);
    again.open.push(renewal.attempt);
    let answer = first.store.renew(&[again]).await.remove(0);
    assert!(matches!(answer, Ok(Renewal::Renewed(..))), "{answer:?}");

    // Its repetition goes over a new connection while the first one still hangs.
    proxy.strand();
    let store = first.store.clone();
    let (bid, hanging) = (first.bid(), name("hanging"));
    let repeated = Bid { attempt: first.attempt(), open: vec![bid.attempt], ..bid.clone() };
    let call = tokio::spawn({
        let hanging = hanging.clone();
        async move { store.acquire(&hanging, &bid).await }
    });
    let sent = SystemClock.now();
    soon("the first one hangs", async || SystemClock.now().time_since(sent) > Duration::from_millis(200))
        .await;
    let answer = first.store.acquire(&hanging, &repeated).await.unwrap();
    assert!(matches!(answer, Acquisition::Acquired(_)), "{answer:?}");
    assert!(!call.is_finished(), "the first one was to hang for longer");
    assert_eq!(call.await.unwrap().unwrap_err().kind(), ErrorKind::Timeout);

    // Without a word about repeating: a sign of life is asked for first.
    proxy.strand();
    first.store.read(&election).await.unwrap_err();
    first.store.read(&election).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_found_again_by_the_same_handle() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), "survives_restart=true"), "first", TTL);
    let election = name("restart");
    first.win(&election).await;
    server.kill().await;
    let error = first.store.read(&election).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    here(server.start_again());
    here(server.restart(Data::Lost));
    soon("it works again", async || first.store.read(&election).await.is_ok()).await;
}
