//! A server that forgets: tokens rise all the same, and a server that began lately grants nothing.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::clock::ClockExt;
use tenure_core::store::{Acquisition, Bid, Change, LeaseStore, RecordState, Renewal};
use tenure_core::{Clock, SystemClock};
use tenure_testkit::servers::redis::{Data, Redis};

use crate::support::fixture::keys;
use crate::support::{Candidate, here, name, open, soon};

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

/// Waits until a lease of `ttl` cannot live any more that a server had before it began.
async fn is_old(server: &Redis, ttl: Duration) {
    soon("the server is old enough", async || {
        let uptime = server.call(&["INFO", "server"]).await.line("uptime_in_seconds").unwrap();
        uptime.parse::<u64>().unwrap() > ttl.as_secs() + 2
    })
    .await;
}

fn refused_for(answer: &Acquisition) -> Duration {
    match answer {
        Acquisition::Refused(record) => record.opens_in.unwrap(),
        Acquisition::Acquired(lease) => panic!("granted: {lease:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_the_place_of_his_earlier_process_waits_for_a_young_server_too() {
    let server = here(Redis::start());
    let ttl = Duration::from_secs(60);
    let election = name("superseded");
    let before =
        Candidate::new(open(&server.url(), "survives_restart=true"), "before", Duration::from_secs(30));
    let lease = before.win(&election).await;
    // The lease that the server shows may be one from before the one that it forgot.
    let after = Candidate::new(open(&server.url(), ""), "after", ttl);
    let bid = Bid { supersedes: Some(lease.bid), ..after.bid() };
    let answer = after.store.acquire(&election, &bid).await.unwrap();
    assert!(refused_for(&answer) > Duration::from_secs(40), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ttl_that_was_only_heard_of_counts() {
    let server = here(Redis::start());
    let (short, long) = (Duration::from_millis(100), Duration::from_secs(60));
    let election = name("heard");
    let store = open(&server.url(), "");
    let follower = Candidate::new(store.clone(), "follower", short);
    let first = Candidate::new(open(&server.url(), "survives_restart=true"), "first", short);
    let leader = Candidate::new(open(&server.url(), "survives_restart=true"), "leader", long);
    let lease = first.win(&election).await;
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    follower.store.read(&election).await.unwrap();
    soon("it listens", async || server.call(&["PUBSUB", "CHANNELS"]).await.list().len() == 1).await;
    first.store.release(&first.release_of(&lease)).await.unwrap();
    leader.campaign(&election).await;
    loop {
        if let Some(Change::Record(record)) = changes.next().await
            && record.leader().is_some_and(|holder| holder.candidate == leader.id)
        {
            break;
        }
    }
    here(server.restart(Data::Lost));
    is_old(&server, short).await;
    soon("it answers", async || store.read(&election).await.is_ok()).await;
    let answer = follower.acquire(&election).await;
    assert!(refused_for(&answer) > Duration::from_secs(30), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ttl_in_the_record_counts() {
    let server = here(Redis::start());
    let (short, long) = (Duration::from_millis(100), Duration::from_secs(60));
    let election = name("recorded");
    let leader = Candidate::new(open(&server.url(), "survives_restart=true"), "leader", long);
    leader.win(&election).await;
    // As a server has it that comes back with older data: the lease ended there, a later renewal is forgotten.
    server.call(&["DEL", &keys(&election).lease]).await;
    is_old(&server, short).await;
    let next = Candidate::new(open(&server.url(), ""), "next", short);
    let answer = next.acquire(&election).await;
    assert!(refused_for(&answer) > Duration::from_secs(30), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_in_the_same_place_grants_nothing_while_a_lease_of_the_first_may_live() {
    let (one, other) = (here(Redis::start()), here(Redis::start()));
    let ttl = Duration::from_secs(2);
    is_old(&one, ttl).await;
    is_old(&other, ttl).await;
    // The place: a name that leads to one server, and later to the other.
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("place");
    std::os::unix::fs::symlink(one.socket(), &place).unwrap();
    let url = format!("redis+unix://{}", place.display());
    let election = name("replaced");
    let leader = Candidate::new(open(&one.url(), ""), "leader", ttl);
    let lease = leader.campaign(&election).await;
    let follower = Candidate::new(open(&url, ""), "follower", ttl);
    assert!(matches!(follower.acquire(&election).await, Acquisition::Refused(_)));

    std::fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink(other.socket(), &place).unwrap();
    let renewed = SystemClock.now();
    let answer = leader.store.renew(&[leader.renewal(&lease)]).await.remove(0);
    assert!(matches!(answer, Ok(Renewal::Renewed(..))), "{answer:?}");
    one.kill().await;
    soon("the other one answers", async || follower.store.read(&election).await.is_ok()).await;
    follower.campaign(&election).await;
    let waited = SystemClock.now().time_since(renewed);
    assert!(waited >= ttl, "granted {waited:?} after the last renewal of a lease of {ttl:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_older_data_came_back_nobody_is_told_who_led_before() {
    let server = here(Redis::start());
    let ttl = Duration::from_millis(100);
    let election = name("older");
    let record = keys(&election).record;
    let first = Candidate::new(open(&server.url(), ""), "first", ttl);
    let lease = first.campaign(&election).await;
    first.store.release(&first.release_of(&lease)).await.unwrap();
    let next = first.campaign(&election).await;
    assert_eq!(next.previous.as_ref().map(|term| term.token), Some(lease.token), "nothing was lost so far");
    first.store.release(&first.release_of(&next)).await.unwrap();
    let older = server.call(&["HGETALL", &record]).await;
    let older: Vec<_> = older.list().iter().map(|field| field.text().unwrap()).collect();

    let second = Candidate::new(open(&server.url(), ""), "second", ttl);
    let forgotten = second.campaign(&election).await;
    second.store.release(&second.release_of(&forgotten)).await.unwrap();
    here(server.restart(Data::Lost));
    let command: Vec<_> = ["HSET".to_owned(), record].into_iter().chain(older).collect();
    server.call(&command).await;
    soon("it answers", async || first.store.read(&election).await.is_ok()).await;
    let bid = loop {
        let bid = Bid { floor: next.token, ..first.bid() };
        match first.store.acquire(&election, &bid).await.unwrap() {
            Acquisition::Acquired(lease) => break lease,
            Acquisition::Refused(_) => SystemClock.sleep(Duration::from_millis(20)).await,
        }
    };
    assert_eq!(bid.previous, None, "the second one led since");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_clock_was_set_back_before_its_start_counts_as_young() {
    let server = here(Redis::start());
    for uptime in ["uptime_in_seconds:-7", "uptime_in_seconds:0", "nothing"] {
        let script = include_str!("../../src/lease.lua");
        let script = script.replace("call('INFO', 'server')", &format!("'{uptime}'"));
        let bid = "ab".repeat(16);
        let who = format!(r#"{{"bid":"{bid}","candidate":"c"}}"#);
        let value = format!("c:{bid}");
        let call = [
            "EVAL", &script, "2", "lease", "record", "acquire", "mark", "e", "channel", &bid, &value, "c",
            &who, "{}", "5000", "0", "", "5000", "0", "", "run",
        ];
        let answer = server.call(&call).await;
        assert_eq!(answer.list()[1].text().as_deref(), Some("refused"), "{answer:?}");
        assert_eq!(answer.list()[2].list()[3].text().as_deref(), Some("6000"), "{answer:?}");
    }
}
