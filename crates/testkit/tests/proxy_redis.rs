//! The proxy knows the requests to Redis and what they are answered with.

#![allow(clippy::unwrap_used)] // The helpers are test code, too.

mod talk;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use talk::{Connection, ok, value};
use tenure_core::embedded::MemoryStore;
use tenure_testkit::conformance::{Network, Trouble};
use tenure_testkit::proxy::{Fault, Proxies, Proxy, ProxyNetwork, Raw, Requests, Resp, Then};
use tenure_testkit::resp::{Reply, request};
use tenure_testkit::servers::Program;
use tenure_testkit::servers::redis::{ClientCertificates, Cluster, Options, Redis, Sentinels};

async fn start() -> (Redis, Proxy) {
    let redis = Redis::start().await;
    let proxy = Proxy::start(redis.address(), Resp);
    (redis, proxy)
}

#[tokio::test]
async fn requests_are_counted_however_they_are_sent() {
    let (_redis, proxy) = start().await;
    let mut connection = Connection::open(proxy.address()).await;
    let pipelined = [request(&["SET", "a", "1"]), request(&["INCR", "a"]), request(&["GET", "a"])].concat();
    connection.send_bytes(&pipelined).await;
    assert_eq!(connection.reply().await, ok());
    assert_eq!(connection.reply().await, Reply::Integer(2));
    assert_eq!(connection.reply().await, value("2"));
    for byte in request(&["GET", "a"]) {
        connection.send_bytes(&[byte]).await;
    }
    assert_eq!(connection.reply().await, value("2"));
    let big = "x".repeat(1_000_000);
    assert_eq!(connection.call(&["SET", "b", &big]).await, ok());
    assert_eq!(connection.call(&["GET", "b"]).await, value(&big));
    let counts = proxy.counts();
    assert_eq!((counts.requests, counts.replies), (6, 6));
}

#[tokio::test]
async fn the_answer_to_one_command_is_lost_after_it_was_applied() {
    let (redis, proxy) = start().await;
    let script = redis.call(&["SCRIPT", "LOAD", "return redis.call('INCR', KEYS[1])"]).await.text().unwrap();
    let mut connection = Connection::open(proxy.address()).await;
    proxy.inject(Fault::LoseAnswers(Requests::commands(&["EVALSHA", "FCALL"]).next(1), Then::Cut));
    assert_eq!(connection.call(&["SET", "a", "7"]).await, ok());
    // The one before it is answered.
    let both = [request(&["GET", "a"]), request(&["evalsha", &script, "1", "a"])].concat();
    connection.send_bytes(&both).await;
    assert_eq!(connection.reply().await, value("7"));
    connection.is_reset().await;
    assert_eq!(redis.call(&["GET", "a"]).await, value("8"), "it was applied");
    assert_eq!(proxy.counts().replies_lost, 1);
    let mut again = Connection::open(proxy.address()).await;
    assert_eq!(again.call(&["EVALSHA", &script, "1", "a"]).await, Reply::Integer(9));
}

#[tokio::test]
async fn messages_of_subscriptions_are_no_answers() {
    for hello in ["2", "3"] {
        let (redis, proxy) = start().await;
        let mut connection = Connection::open(proxy.address()).await;
        connection.call(&["HELLO", hello]).await;
        connection.call(&["SUBSCRIBE", "news"]).await;
        assert_eq!(redis.call(&["PUBLISH", "news", "first"]).await, Reply::Integer(1));
        assert_eq!(connection.reply().await.list()[2], value("first"));
        proxy.inject(Fault::LoseAnswers(Requests::commands(&["PING"]), Then::Silence));
        assert_eq!(redis.call(&["PUBLISH", "news", "second"]).await, Reply::Integer(1));
        assert_eq!(connection.reply().await.list()[2], value("second"));
        connection.send(&["PING"]).await;
        proxy.wait_for("the answer", |counts| counts.replies_lost == 1).await;
        redis.call(&["PUBLISH", "news", "third"]).await;
        proxy.wait_for("what follows it", |counts| counts.replies_lost == 2).await;
        assert!(!connection.is_answered_within(Duration::from_millis(50)).await);
    }
}

#[tokio::test]
async fn a_held_back_command_is_applied_when_it_is_delivered() {
    let (redis, proxy) = start().await;
    let mut sender = Connection::open(proxy.address()).await;
    assert_eq!(sender.call(&["SET", "a", "1"]).await, ok());
    proxy.inject(Fault::HoldBack(Requests::of_work()));
    assert_eq!(sender.call(&["CLIENT", "SETNAME", "late"]).await, ok());
    sender.send_bytes(&[request(&["INCR", "a"]), request(&["INCR", "a"])].concat()).await;
    proxy.wait_for("both requests", |counts| counts.requests_held == 2).await;
    proxy.clear().await;
    sender.is_reset().await;

    let mut other = Connection::open(proxy.address()).await;
    assert_eq!(other.call(&["SET", "a", "10"]).await, ok());
    assert_eq!(proxy.deliver_late().await, 2);
    assert_eq!(redis.call(&["GET", "a"]).await, value("12"), "when the command returns, the server is done");
}

#[tokio::test]
async fn a_frozen_server_is_behind_a_proxy_as_without_one() {
    let (redis, proxy) = start().await;
    let mut connection = Connection::open(proxy.address()).await;
    redis.freeze().await;
    connection.send(&["PING"]).await;
    assert!(!connection.is_answered_within(Duration::from_millis(100)).await);
    proxy.cut().await;
    connection.is_reset().await;
    redis.thaw().await;
    let mut connection = Connection::open(proxy.address()).await;
    assert_eq!(connection.call(&["PING"]).await, Reply::Text("PONG".to_owned()));
    redis.kill().await;
    assert!(connection.try_reply().await.is_err());
    redis.start_again().await;
    let mut connection = Connection::open(proxy.address()).await;
    assert_eq!(connection.call(&["PING"]).await, Reply::Text("PONG".to_owned()));
}

#[tokio::test]
async fn tls_passes_and_can_be_swallowed() {
    let redis = Options::default().tls(ClientCertificates::Optional).start().await;
    let proxy = Proxy::start(redis.address(), Raw);
    let program = Program::find("redis-cli", "TENURE_REDIS_CLI");
    let mut ping = Command::new(program.path());
    ping.args(["-h", "127.0.0.1", "-p", &proxy.address().port().to_string(), "--tls", "--cacert"])
        .arg(redis.certificates().unwrap().authority())
        .arg("PING");
    // The proxy runs on this thread, so that another one has to wait.
    let run = |mut ping: Command| tokio::task::spawn_blocking(move || ping.output().unwrap());
    let mut copy = Command::new(program.path());
    copy.args(ping.get_args());
    let output = run(ping).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "PONG");

    proxy.inject(Fault::BlackHole);
    let waits = run(copy);
    proxy.wait_for("its greeting", |counts| counts.requests_lost > 0).await;
    // It would try again.
    proxy.turn_away().await;
    assert!(!waits.await.unwrap().status.success());
}

#[tokio::test]
async fn a_cluster_names_the_proxies_in_front_of_its_servers() {
    let cluster = Cluster::start().await;
    let proxies = Proxies::start(&cluster.addresses(), Resp);
    let slot = cluster.slot_of("a").await;
    let master = cluster.master_of(slot).await;
    let other = cluster.servers().iter().find(|server| server.port() != master.port()).unwrap();
    let mut lost = Connection::open(proxies.before(other.address()).address()).await;
    let by = proxies.before(master.address()).address();
    assert_eq!(lost.call(&["SET", "a", "1"]).await, Reply::Error(format!("MOVED {slot} {by}")));
    assert_eq!(Connection::open(by).await.call(&["SET", "a", "1"]).await, ok());

    let slots = lost.call(&["CLUSTER", "SLOTS"]).await;
    let of_proxies: Vec<_> = proxies.addresses().iter().map(|address| address.port().to_string()).collect();
    for range in slots.list() {
        let port = range.list()[2].list()[1].text().unwrap();
        assert!(of_proxies.contains(&port), "{range:?}");
    }
}

#[tokio::test]
async fn sentinels_name_the_proxies_in_front_of_the_servers() {
    let sentinels = Sentinels::start().await;
    let servers = sentinels.servers().iter().chain(sentinels.sentinels()).map(Redis::address);
    let proxies = Proxies::start(&servers.collect::<Vec<_>>(), Resp);
    let sentinel = proxies.before(sentinels.addresses()[0]).address();
    let mut sentinel = Connection::open(sentinel).await;
    let master = sentinels.master().await;
    let by = proxies.before(master.address()).address().port().to_string();
    let named = sentinel.call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.name()]).await;
    assert_eq!(named.list()[1].text().as_ref(), Some(&by));
    let masters = sentinel.call(&["SENTINEL", "MASTERS"]).await;
    assert_eq!(masters.list()[0].field("port").as_ref(), Some(&by));
}

#[tokio::test]
async fn every_trouble_of_the_suite_can_be_made() {
    let (redis, call_limit) = (Redis::start().await, Duration::from_secs(1));
    let proxies = Arc::new(Proxies::start(&[redis.address()], Resp));
    let address = proxies.addresses()[0];
    let handle = Arc::new(MemoryStore::new());
    let network = ProxyNetwork::new(Arc::clone(&proxies), handle, call_limit, Requests::of_work());
    let mut met = 0;
    for trouble in [
        Trouble::RequestsLost,
        Trouble::AnswersLost,
        Trouble::RequestsHeld,
        Trouble::Hung,
        Trouble::Cut,
        Trouble::None,
    ] {
        assert_eq!(redis.call(&["SET", "a", "0"]).await, ok());
        let mut old = Connection::open(address).await;
        assert_eq!(old.call(&["PING"]).await, Reply::Text("PONG".to_owned()));
        network.set(trouble).await;
        let found = match trouble {
            Trouble::None => {
                assert_eq!(old.call(&["INCR", "a"]).await, Reply::Integer(1));
                "1"
            }
            Trouble::Cut => {
                old.is_reset().await;
                "0"
            }
            _ => {
                old.send(&["INCR", "a"]).await;
                proxies.all()[0].wait_for("the trouble", |counts| counts.troubled() > met).await;
                if trouble == Trouble::AnswersLost { "1" } else { "0" }
            }
        };
        assert_eq!(redis.call(&["GET", "a"]).await, value(found), "{trouble:?}");
        network.set(Trouble::None).await;
        let mut new = Connection::open(address).await;
        assert_eq!(new.call(&["GET", "a"]).await, value(found), "after {trouble:?}");
        network.deliver().await;
        let late = if trouble == Trouble::RequestsHeld { "1" } else { found };
        assert_eq!(redis.call(&["GET", "a"]).await, value(late), "late, after {trouble:?}");
        met = network.troubled();
    }
}
