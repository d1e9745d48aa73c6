//! A master with replicas and sentinels.

use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{Flavour, Options, SentinelOptions};

use crate::talk::{Connection, ok, value};

pub async fn sentinels_promote_a_replica_when_the_master_dies(flavour: Flavour) {
    let options = SentinelOptions {
        servers: Options::default().flavour(flavour).password("of-servers"),
        sentinel_password: Some("of-sentinels".to_owned()),
        ..SentinelOptions::default()
    };
    let sentinels = options.start().await;
    let old = sentinels.master().await;
    assert_eq!(old.port(), sentinels.servers()[0].port());

    let mut candidate = Connection::open(old.address()).await;
    assert_eq!(candidate.call(&["AUTH", "of-servers"]).await, ok());
    assert_eq!(candidate.call(&["SET", "a", "1"]).await, ok());
    assert_eq!(candidate.call(&["WAIT", "2", "10000"]).await, Reply::Integer(2));
    old.kill().await;
    let new = sentinels.new_master(old).await;

    let mut sentinel = Connection::open(sentinels.addresses()[0]).await;
    assert_eq!(sentinel.call(&["AUTH", "of-sentinels"]).await, ok());
    let told = sentinel.call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinels.name()]).await;
    assert_eq!(told.list()[1].text(), Some(new.port().to_string()));
    let mut candidate = Connection::open(new.address()).await;
    assert_eq!(candidate.call(&["AUTH", "of-servers"]).await, ok());
    assert_eq!(candidate.call(&["GET", "a"]).await, value("1"));
    assert_eq!(candidate.call(&["SET", "a", "2"]).await, ok());

    old.start_again().await;
    sentinels.wait_until_ready().await;
    assert_eq!(sentinels.master().await.port(), new.port(), "the old master is a replica now");
    assert_eq!(old.call(&["GET", "a"]).await, value("2"));
    assert!(old.call(&["SET", "a", "3"]).await.text().unwrap().starts_with("READONLY"));

    new.freeze().await;
    let newest = sentinels.new_master(new).await;
    assert_eq!(newest.call(&["GET", "a"]).await, value("2"));
    new.thaw().await;
    sentinels.wait_until_ready().await;
}
