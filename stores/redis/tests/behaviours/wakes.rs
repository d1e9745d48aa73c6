//! Followers hear of what happens, and ask for nothing meanwhile.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::clock::ClockExt;
use tenure_core::elector::ElectorHandle;
use tenure_core::store::{Change, Lease, LeaseStore, Renewal};
use tenure_core::{CandidateId, Clock, Elections, Settings, SystemClock};
use tenure_testkit::proxy::{Proxy, Resp};
use tenure_testkit::resp::{self, Reply};
use tenure_testkit::servers::redis::Redis;

use crate::support::{Candidate, here, name, open, soon};

const TTL: Duration = Duration::from_secs(60);
const OPTIONS: &str = "survives_restart=true";

/// How often the script was called so far.
async fn calls(server: &Redis) -> u64 {
    let stats = server.call(&["INFO", "commandstats"]).await;
    let line = stats.line("cmdstat_evalsha").unwrap_or_default();
    line.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_moves_the_followers_timer_without_a_request() {
    let server = here(Redis::start());
    let leader = Candidate::new(open(&server.url(), OPTIONS), "leader", TTL);
    let store = open(&server.url(), OPTIONS);
    let follower = Candidate::new(store.clone(), "follower", TTL);
    let election = name("renewed");
    let mut lease = leader.win(&election).await;
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    soon("a channel", async || server.call(&["PUBSUB", "CHANNELS"]).await.list().len() == 1).await;
    let renew = async |lease: &mut Lease| {
        let renewed = leader.store.renew(&[leader.renewal(lease)]).await.remove(0).unwrap();
        let Renewal::Renewed(next, _) = renewed else { panic!("{renewed:?}") };
        *lease = next;
    };
    // An answer to what was asked before the watch stood is followed by a gap.
    loop {
        follower.acquire(&election).await;
        renew(&mut lease).await;
        if changes.next().await.unwrap() != Change::Gap {
            break;
        }
    }
    for _ in 0..5 {
        renew(&mut lease).await;
        let before = calls(&server).await;
        let change = changes.next().await.unwrap();
        let Change::Record(record) = change else { panic!("a gap while nothing was missed") };
        assert_eq!(record.holder.as_ref().unwrap().renew_count, lease.renew_count);
        assert!(record.opens_in.unwrap() > TTL - Duration::from_secs(1), "{record:?}");
        assert_eq!(record.lease_of(lease.bid).unwrap().attempt, lease.attempt);
        assert_eq!(calls(&server).await, before, "the follower asked");
    }
}

fn elections(server: &Redis, candidate: &str, ttl: Duration) -> Elections {
    Elections::builder(open(&server.url(), OPTIONS))
        .candidate(CandidateId::new(candidate).unwrap())
        .settings(Settings::ttl(ttl))
        .build()
}

async fn leader(handles: &[ElectorHandle]) -> usize {
    soon("somebody leads", async || handles.iter().any(ElectorHandle::is_leader)).await;
    handles.iter().position(ElectorHandle::is_leader).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_hands_over_at_once_and_ten_candidates_cost_little_more_than_the_renewals() {
    let server = here(Redis::start());
    let ttl = Duration::from_secs(6);
    let candidates: Vec<_> = (0..10).map(|i| elections(&server, &format!("candidate-{i}"), ttl)).collect();
    let mut handles: Vec<_> =
        candidates.iter().map(|elections| elections.elector("shared").start().unwrap()).collect();
    let first = leader(&handles).await;
    soon("all listen", async || {
        let hearing = server.call(&["PUBSUB", "NUMSUB", "{tenure:leader:shared}:changes@0"]).await;
        hearing.list()[1].text().unwrap() == "10"
    })
    .await;
    // What the beginning of the watches costs is over when the leader has renewed twice.
    let renewals = async || {
        let record = candidates[0].store().read(&name("shared")).await.unwrap().unwrap();
        record.holder.map_or(0, |holder| holder.renew_count)
    };
    soon("two renewals", async || renewals().await >= 2).await;

    let (before, from) = (calls(&server).await, renewals().await);
    SystemClock.sleep(ttl).await;
    let (after, to) = (calls(&server).await, renewals().await);
    // One of the two reads is among them.
    let asked = after - before - 1;
    assert!(to >= from + 2, "{from} to {to} renewals in a ttl");
    assert!(asked <= to - from + 1, "{asked} calls for {} renewals", to - from);

    // Well before anybody's lease could end or anybody would look.
    let released = SystemClock.now();
    let gone = handles.remove(first);
    gone.stop().await;
    leader(&handles).await;
    let took = SystemClock.now().time_since(released);
    assert!(took < ttl / 6, "the next one led after {took:?}");
    for handle in handles {
        handle.stop().await;
    }
}

/// Somebody who hears what is told on a channel, as it is told.
struct Ear {
    stream: TcpStream,
    heard: Vec<u8>,
}

impl Ear {
    fn at(server: &Redis, channel: &str) -> Self {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(&resp::request(&["SUBSCRIBE", channel])).unwrap();
        Self { stream, heard: Vec::new() }
    }

    /// Returns the next message that begins with `kind`.
    fn next(&mut self, kind: &str) -> String {
        loop {
            while let Some((reply, length)) = resp::reply(&self.heard) {
                self.heard.drain(..length);
                let text = reply.list().get(2).and_then(Reply::text);
                if let Some(text) = text.filter(|text| text.starts_with(kind)) {
                    return text;
                }
            }
            let mut more = [0; 4096];
            let length = self.stream.read(&mut more).unwrap();
            assert!(length > 0, "the server is gone");
            self.heard.extend_from_slice(&more[..length]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_tells_how_many_hear_of_it_and_each_of_them_has_its_turn() {
    const MANY: usize = 8;
    let server = here(Redis::start());
    let election = name("turns");
    let channel = "{tenure:leader:turns}:changes@0";
    let mut ear = Ear::at(&server, channel);
    let mut watches: Vec<_> = (0..MANY)
        .map(|_| {
            let store = open(&server.url(), OPTIONS);
            let changes = store.watch(std::slice::from_ref(&election)).unwrap();
            (store, changes)
        })
        .collect();
    let all = (MANY + 1).to_string();
    soon("all listen", async || {
        server.call(&["PUBSUB", "NUMSUB", channel]).await.list()[1].text().as_ref() == Some(&all)
    })
    .await;
    let leader = Candidate::new(open(&server.url(), OPTIONS), "leader", TTL);
    let lease = leader.win(&election).await;
    for (_, changes) in &mut watches {
        assert!(changes.next().await.is_some());
    }
    leader.store.release(&leader.release_of(&lease)).await.unwrap();
    let told = ear.next("released ");
    assert_eq!(told.lines().nth(1), Some(all.as_str()), "{told:?}");
    for (_, changes) in &mut watches {
        tokio::select! {
            change = changes.next() => assert!(change.is_some()),
            () = SystemClock.sleep(Duration::from_secs(20)) => panic!("somebody's turn never came"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_hears_of_what_is_watched_later_and_no_more_of_what_is_not() {
    let server = here(Redis::start());
    let store = open(&server.url(), OPTIONS);
    let watch = |election: &str| store.watch(&[name(election)]).unwrap();
    let heard = async || {
        let channels = server.call(&["PUBSUB", "CHANNELS"]).await;
        let mut channels: Vec<_> = channels.list().iter().filter_map(Reply::text).collect();
        channels.sort();
        channels
    };
    let channel = |election: &str| format!("{{tenure:leader:{election}}}:changes@0");
    let first = watch("first");
    soon("the first one", async || heard().await == [channel("first")]).await;
    let second = watch("second");
    soon("a second one", async || heard().await == [channel("first"), channel("second")]).await;
    drop(first);
    soon("only the second one", async || heard().await == [channel("second")]).await;
    let mut again = watch("first");
    soon("both again", async || heard().await == [channel("first"), channel("second")]).await;
    let leader = Candidate::new(open(&server.url(), OPTIONS), "leader", TTL);
    leader.win(&name("first")).await;
    assert!(again.next().await.is_some());
    drop((again, second));
    soon("none", async || heard().await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn news_come_again_after_a_black_hole() {
    let server = here(Redis::start());
    let proxy = Proxy::start(server.address(), Resp);
    let store = open(&server.url_by(proxy.address()), OPTIONS);
    let election = name("silent");
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    let hears = async || {
        server.call(&["PUBSUB", "NUMSUB", "{tenure:leader:silent}:changes@0"]).await.list()[1].clone()
    };
    soon("it listens", async || hears().await.text().unwrap() == "1").await;
    proxy.strand();
    let connections = proxy.counts().connections;
    proxy.wait_for("a new connection", |counts| counts.connections > connections).await;
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let (mut lease, mut heard) = (first.win(&election).await, false);
    while !heard {
        first.store.release(&first.release_of(&lease)).await.unwrap();
        lease = first.win(&election).await;
        heard = tokio::select! {
            change = changes.next() => change.is_some(),
            () = SystemClock.sleep(Duration::from_millis(100)) => false,
        };
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_call_finds_those_who_stand_by() {
    let server = here(Redis::start());
    let ttl = Duration::from_secs(30);
    let candidates: Vec<_> = (0..3).map(|i| elections(&server, &format!("candidate-{i}"), ttl)).collect();
    let handles: Vec<_> =
        candidates.iter().map(|elections| elections.elector("called").start().unwrap()).collect();
    let leader = leader(&handles).await;
    let operator = open(&server.url(), OPTIONS);
    let expected: Vec<_> = (0..3).filter(|i| *i != leader).map(|i| format!("candidate-{i}")).collect();
    soon("both others answer", async || {
        let standing_by = operator.operator().unwrap().candidates(&name("called")).await.unwrap().unwrap();
        standing_by.iter().map(CandidateId::as_str).eq(expected.iter().map(String::as_str))
    })
    .await;
    let nobody = operator.operator().unwrap().candidates(&name("unknown")).await.unwrap();
    assert_eq!(nobody, Some(Vec::new()));
    for handle in handles {
        handle.stop().await;
    }
}
