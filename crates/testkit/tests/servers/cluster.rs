//! A cluster.

use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{ClusterOptions, Flavour, Options};

use crate::talk::{Connection, ok, value};

pub async fn a_cluster_promotes_a_replica_when_a_master_dies(flavour: Flavour) {
    let options =
        ClusterOptions { servers: Options::default().flavour(flavour), ..ClusterOptions::default() };
    let cluster = options.start().await;
    assert_eq!(cluster.addresses().len(), 6);
    let slot = cluster.slot_of("a").await;
    let old = cluster.master_of(slot).await;
    assert_eq!(Connection::open(old.address()).await.call(&["SET", "a", "1"]).await, ok());

    let other = cluster.servers().iter().find(|server| server.port() != old.port()).unwrap();
    let sent_away = Connection::open(other.address()).await.call(&["SET", "a", "2"]).await;
    let moved = format!("MOVED {slot} 127.0.0.1:{}", old.port());
    assert_eq!(sent_away, Reply::Error(moved));

    let mut writer = Connection::open(old.address()).await;
    assert_eq!(writer.call(&["SET", "a", "2"]).await, ok());
    assert_eq!(writer.call(&["WAIT", "1", "10000"]).await, Reply::Integer(1));
    old.kill().await;
    let new = cluster.new_master_of(slot, old).await;
    assert_eq!(new.call(&["GET", "a"]).await, value("2"));
    old.start_again().await;
    cluster.wait_until_ready().await;
    assert_eq!(cluster.master_of(slot).await.port(), new.port(), "the old master is a replica now");

    new.freeze().await;
    cluster.new_master_of(slot, new).await;
    new.thaw().await;
    cluster.wait_until_ready().await;
}

pub async fn a_slot_of_a_cluster_can_be_moved(flavour: Flavour) {
    let options =
        ClusterOptions { servers: Options::default().flavour(flavour), ..ClusterOptions::default() };
    let cluster = options.start().await;
    let slot = cluster.slot_of("{a}").await;
    let from = cluster.master_of(slot).await;
    let to = cluster.servers()[..3].iter().find(|server| server.port() != from.port()).unwrap();
    assert_eq!(from.call(&["SET", "{a}:here", "1"]).await, ok());

    cluster.begin_move(slot, to).await;
    assert_eq!(from.call(&["GET", "{a}:here"]).await, value("1"), "still here");
    let elsewhere = from.call(&["GET", "{a}:new"]).await;
    assert_eq!(elsewhere, Reply::Error(format!("ASK {slot} 127.0.0.1:{}", to.port())));
    cluster.finish_move(slot, to).await;
    assert_eq!(to.call(&["GET", "{a}:here"]).await, value("1"));
    let moved = from.call(&["GET", "{a}:here"]).await;
    assert_eq!(moved, Reply::Error(format!("MOVED {slot} 127.0.0.1:{}", to.port())));
}
