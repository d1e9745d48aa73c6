//! One server.

use std::path::Path;
use std::time::Duration;

use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{Data, Flavour, Options, Redis};

use crate::talk::{Connection, ok, value};

pub async fn a_started_server_answers(flavour: Flavour) {
    let redis = Options::default().flavour(flavour).start().await;
    let mut connection = Connection::open(redis.address()).await;
    assert_eq!(connection.call(&["SET", "a", "1"]).await, ok());
    assert_eq!(redis.call(&["GET", "a"]).await, value("1"), "by hand");
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    let info = redis.call(&["INFO", "server"]).await;
    let is_valkey = info.line("server_name").as_deref() == Some("valkey");
    assert_eq!(is_valkey, flavour == Flavour::Valkey, "another server than was asked for");
}

pub async fn options_take_effect(flavour: Flavour) {
    let options = Options::default()
        .flavour(flavour)
        .append_only()
        .password("secret")
        .set("maxmemory-policy", "allkeys-lru")
        .set("notify-keyspace-events", "KEA");
    let redis = options.start().await;
    for (name, wanted) in
        [("appendonly", "yes"), ("maxmemory-policy", "allkeys-lru"), ("requirepass", "secret")]
    {
        let set = redis.call(&["CONFIG", "GET", name]).await;
        assert_eq!(set.field(name).as_deref(), Some(wanted), "{name}");
    }
    let notify = redis.call(&["CONFIG", "GET", "notify-keyspace-events"]).await;
    assert!(!notify.field("notify-keyspace-events").unwrap().is_empty());

    let mut connection = Connection::open(redis.address()).await;
    assert!(connection.call(&["PING"]).await.text().unwrap().starts_with("NOAUTH"));
    assert_eq!(connection.call(&["AUTH", "secret"]).await, ok());
    assert_eq!(redis.url(), format!("redis://:secret@127.0.0.1:{}", redis.port()));
    assert!(redis.socket().exists());
}

pub async fn a_restart_keeps_the_data_or_loses_it(flavour: Flavour) {
    for options in [Options::default(), Options::default().append_only()] {
        let redis = options.flavour(flavour).start().await;
        let address = redis.address();
        assert_eq!(redis.call(&["SET", "a", "1"]).await, ok());
        redis.restart(Data::Kept).await;
        assert_eq!(redis.call(&["GET", "a"]).await, value("1"));
        redis.restart(Data::Lost).await;
        assert_eq!(redis.call(&["GET", "a"]).await, Reply::Null);
        let again = Connection::open(address).await.call(&["PING"]).await;
        assert_eq!(again, Reply::Text("PONG".to_owned()), "on the same port");
    }
}

pub async fn a_killed_server_finds_what_it_had_appended(flavour: Flavour) {
    let redis = Options::default().flavour(flavour).append_only().start().await;
    assert_eq!(redis.call(&["SET", "a", "1"]).await, ok());
    redis.kill().await;
    assert!(redis.try_call(&["PING"]).await.is_err());
    redis.start_again().await;
    assert_eq!(redis.call(&["GET", "a"]).await, value("1"));
}

pub async fn a_frozen_server_answers_when_it_goes_on(flavour: Flavour) {
    let redis = Options::default().flavour(flavour).start().await;
    let mut connection = Connection::open(redis.address()).await;
    redis.freeze().await;
    connection.send(&["SET", "a", "1"]).await;
    assert!(!connection.is_answered_within(Duration::from_millis(200)).await);
    redis.thaw().await;
    assert_eq!(connection.reply().await, ok());
    redis.freeze().await;
    redis.kill().await;
    assert!(redis.try_call(&["PING"]).await.is_err(), "a frozen server can be killed");
}

pub async fn a_dropped_server_is_gone(flavour: Flavour) {
    let redis = Options::default().flavour(flavour).start().await;
    redis.freeze().await;
    let (pid, directory) = (redis.server().pid().unwrap(), redis.server().directory().to_owned());
    assert!(Path::new("/proc").join(pid.to_string()).exists() && directory.exists());
    drop(redis);
    assert!(!Path::new("/proc").join(pid.to_string()).exists(), "its process");
    assert!(!directory.exists(), "its directory");
}

pub async fn independent_servers_share_nothing(flavour: Flavour) {
    let servers = Redis::start_many(5, &Options::default().flavour(flavour)).await;
    assert_eq!(servers.len(), 5);
    assert_eq!(servers[0].call(&["SET", "a", "1"]).await, ok());
    for server in &servers[1..] {
        assert_eq!(server.call(&["GET", "a"]).await, Reply::Null);
    }
    servers[1].kill().await;
    assert_eq!(servers[2].call(&["SET", "a", "2"]).await, ok());
}
