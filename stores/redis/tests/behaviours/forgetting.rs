//! A server that forgets: tokens rise all the same, and a server that began lately grants nothing.

use std::time::Duration;

use tenure_core::clock::ClockExt;
use tenure_core::store::{Acquisition, RecordState, Renewal};
use tenure_core::{Clock, SystemClock};
use tenure_testkit::servers::redis::{Data, Redis};

use crate::support::{Candidate, here, name, open};

#[tokio::test(flavor = "multi_thread")]
async fn flushed_leases_are_lost_and_tokens_rise() {
    let server = here(Redis::start());
    let first =
        Candidate::new(open(&server.url(), "survives_restart=true"), "first", Duration::from_secs(60));
    let election = name("flushed");
    let lease = first.win(&election).await;
    server.call(&["FLUSHALL"]).await;
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap();
    assert!(matches!(renewed, Renewal::Lost(None)), "{renewed:?}");
    let next = first.win(&election).await;
    assert!(next.token > lease.token, "{:?} follows {:?}", next.token, lease.token);
    assert_eq!(next.previous, None, "nobody knows who led before");
    // Flushed scripts come back by themselves, also for many renewals at once.
    server.call(&["SCRIPT", "FLUSH"]).await;
    let other = first.win(&name("beside")).await;
    server.call(&["SCRIPT", "FLUSH"]).await;
    for answer in first.store.renew(&[first.renewal(&next), first.renewal(&other)]).await {
        assert!(matches!(answer, Ok(Renewal::Renewed(..))), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_forgotten_by_a_restart_is_granted_to_nobody_else_while_it_may_live() {
    let server = here(Redis::start());
    let ttl = Duration::from_millis(2500);
    let first = Candidate::new(open(&server.url(), ""), "first", ttl);
    let election = name("restarted");
    // A new server is a young one, too.
    let Acquisition::Refused(record) = first.acquire(&election).await else { panic!("it has just begun") };
    assert_eq!(record.state, RecordState::Recovering);
    let opens_in = record.opens_in.unwrap();
    assert!(opens_in > Duration::ZERO && opens_in <= ttl + Duration::from_secs(1), "{opens_in:?}");

    let lease = first.campaign(&election).await;
    let renewed = SystemClock.now();
    let answer = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
    assert!(matches!(answer, Ok(Renewal::Renewed(..))), "{answer:?}");
    here(server.restart(Data::Lost));
    let second = Candidate::new(open(&server.url(), ""), "second", ttl);
    let next = second.campaign(&election).await;
    let waited = SystemClock.now().time_since(renewed);
    assert!(waited >= ttl, "granted {waited:?} after the last renewal of a lease of {ttl:?}");
    assert!(next.token > lease.token, "{:?} follows {:?}", next.token, lease.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_ttl_of_anybody_counts() {
    let server = here(Redis::start());
    let short = Duration::from_millis(100);
    let told = Candidate::new(open(&server.url(), "longest_ttl=60s"), "told", short);
    let untold = Candidate::new(open(&server.url(), ""), "untold", short);
    // By then a lease of a tenth of a second cannot live any more.
    while !matches!(untold.acquire(&name("short")).await, Acquisition::Acquired(_)) {
        SystemClock.sleep(Duration::from_millis(20)).await;
    }
    let Acquisition::Refused(record) = told.acquire(&name("long")).await else {
        panic!("a minute has passed?")
    };
    assert!(record.opens_in.unwrap() > Duration::from_secs(30), "{record:?}");
}
