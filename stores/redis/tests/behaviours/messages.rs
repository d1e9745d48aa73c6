//! What a channel brings is a hint: it wakes, and whoever may publish can end no term and spoil no token by it.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::clock::ClockExt;
use tenure_core::elector::ElectorHandle;
use tenure_core::store::{Change, LeaseRecord, LeaseStore};
use tenure_core::{CandidateId, Elections, FencingToken, Settings, SystemClock};
use tenure_testkit::servers::redis::Redis;

use crate::support::{here, name, open, soon};

const TTL: Duration = Duration::from_secs(3);
const OPTIONS: &str = "survives_restart=true";

fn elections(server: &Redis, options: &str, candidate: &str) -> Elections {
    Elections::builder(open(&server.url(), &format!("{OPTIONS}&{options}")))
        .candidate(CandidateId::new(candidate).unwrap())
        .settings(Settings::ttl(TTL))
        .build()
}

async fn record(elections: &Elections, election: &str) -> LeaseRecord {
    elections.store().read(&name(election)).await.unwrap().unwrap()
}

async fn hearing(server: &Redis, channel: &str) -> String {
    server.call(&["PUBSUB", "NUMSUB", channel]).await.list()[1].text().unwrap()
}

/// Waits until the present term has been renewed `more` times.
async fn renewals(elections: &Elections, election: &str, more: u64) {
    let from = record(elections, election).await;
    let (bid, count) = from.leader().map(|holder| (holder.bid, holder.renew_count)).unwrap();
    soon("renewals of the same term", async || {
        let now = record(elections, election).await;
        let leader = now.leader().expect("somebody leads");
        assert_eq!(leader.bid, bid, "another term has begun");
        leader.renew_count >= count + more
    })
    .await;
}

/// What a grant would tell.
fn forged(token: u64) -> String {
    let id = "ab".repeat(16);
    let who = format!(r#"{{"bid":"{id}","candidate":"mallory"}}"#);
    format!("acquired 1\nmallory:{id}\n{id}\n{id}\n{token}\n1000\n0\n0\n{who}\n{{}}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn elections_of_two_databases_with_one_name_know_nothing_of_each_other() {
    let server = here(Redis::start());
    let both = [elections(&server, "db=0", "zero"), elections(&server, "db=1", "one")];
    let handles: Vec<_> = both.iter().map(|elections| elections.elector("shared").start().unwrap()).collect();
    soon("both lead", async || handles.iter().all(ElectorHandle::is_leader)).await;
    soon("both listen", async || {
        let channels = ["{tenure:leader:shared}:changes@0", "{tenure:leader:shared}:changes@1"];
        for channel in channels {
            if hearing(&server, channel).await != "1" {
                return false;
            }
        }
        true
    })
    .await;
    let tokens = [record(&both[0], "shared").await.token, record(&both[1], "shared").await.token];
    renewals(&both[0], "shared", 9).await;
    renewals(&both[1], "shared", 1).await;
    let after = [record(&both[0], "shared").await.token, record(&both[1], "shared").await.token];
    assert_eq!(tokens, after, "a term has ended");
    for handle in handles {
        handle.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_message_ends_no_term_and_raises_no_token() {
    let server = here(Redis::start());
    let both = [elections(&server, "", "first"), elections(&server, "", "second")];
    let first = both[0].elector("forged").start().unwrap();
    soon("the first one leads", async || first.is_leader()).await;
    let second = both[1].elector("forged").start().unwrap();
    let channel = "{tenure:leader:forged}:changes@0";
    soon("both listen", async || hearing(&server, channel).await == "2").await;
    renewals(&both[0], "forged", 1).await;

    let tokens = [u64::MAX, 1 << 53, (1 << 53) - 1, (1 << 53) - 3];
    for token in tokens {
        server.call(&["PUBLISH", channel, &forged(token)]).await;
        renewals(&both[0], "forged", 2).await;
        assert!(first.is_leader());
    }
    first.stop().await;
    soon("the second one leads", async || second.is_leader()).await;
    let token = record(&both[0], "forged").await.token;
    assert!(token < FencingToken((1 << 53) - 3), "{token} comes from a message");
    assert!(second.status().token < FencingToken((1 << 53) - 3));
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_watched_in_its_own_process_believes_no_message_either() {
    let server = here(Redis::start());
    let elections = elections(&server, "", "first");
    let handle = elections.elector("watched").start().unwrap();
    soon("it leads", async || handle.is_leader()).await;
    let mut changes = elections.store().watch(&[name("watched")]).unwrap();
    soon("it listens", async || hearing(&server, "{tenure:leader:watched}:changes@0").await == "1").await;
    renewals(&elections, "watched", 1).await;
    let token = record(&elections, "watched").await.token.0 + 1;
    server.call(&["PUBLISH", "{tenure:leader:watched}:changes@0", &forged(token)]).await;
    assert!(changes.next().await.is_some());
    renewals(&elections, "watched", 2).await;
    assert!(handle.is_leader());
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_no_text_makes_whoever_watches_look() {
    let server = here(Redis::start());
    let store = open(&server.url(), OPTIONS);
    let mut changes = store.watch(&[name("binary")]).unwrap();
    let channel = "{tenure:leader:binary}:changes@0";
    soon("it listens", async || hearing(&server, channel).await == "1").await;
    server.call(&[b"PUBLISH".as_slice(), channel.as_bytes(), b"view \xff"]).await;
    let change = tokio::select! {
        change = changes.next() => change,
        () = SystemClock.sleep(Duration::from_secs(20)) => panic!("nobody was woken"),
    };
    assert_eq!(change, Some(Change::Gap));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_its_store() {
    let server = here(Redis::start());
    let store = open(&server.url(), OPTIONS);
    let mut changes = store.watch(&[name("outlived")]).unwrap();
    soon("it listens", async || hearing(&server, "{tenure:leader:outlived}:changes@0").await == "1").await;
    drop(store);
    let ended = tokio::select! {
        change = changes.next() => change,
        () = SystemClock.sleep(Duration::from_secs(20)) => panic!("it never ends"),
    };
    assert_eq!(ended, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_looks_when_its_news_were_interrupted() {
    let server = here(Redis::start());
    // It renews once in hours by itself.
    let elections = Elections::builder(open(&server.url(), OPTIONS))
        .candidate(CandidateId::new("first").unwrap())
        .settings(Settings::ttl(Duration::from_secs(24 * 60 * 60)))
        .build();
    let handle = elections.elector("interrupted").start().unwrap();
    soon("it leads", async || handle.is_leader()).await;
    let channel = "{tenure:leader:interrupted}:changes@0";
    // More than what the beginning of a term may cost.
    for _ in 0..5 {
        soon("it listens", async || hearing(&server, channel).await == "1").await;
        let looks = record(&elections, "interrupted").await.leader().unwrap().renew_count;
        server.call(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        soon("it looks", async || {
            record(&elections, "interrupted").await.leader().unwrap().renew_count > looks
        })
        .await;
    }
    handle.stop().await;
}
