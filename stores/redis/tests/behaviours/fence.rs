//! A fence in the server refuses whoever led before, in the same step as the write.

use tenure_core::FencingToken;
use tenure_core::store::ErrorKind;
use tenure_redis::{RedisConfig, RedisFence, RedisFenceError, Written};
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::here;

fn fence(server: &Redis) -> RedisFence {
    RedisFence::new(RedisConfig::from_url(&server.url()).unwrap(), "{job}:fence").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_token_writes_nothing_and_learns_the_newer_one() {
    let server = here(Redis::start());
    let fence = fence(&server);
    // Beyond what a script's numbers can tell apart.
    let (old, new) = (FencingToken(u64::MAX - 1), FencingToken(u64::MAX));
    assert_eq!(fence.write(FencingToken(9), "SET", "{job}:state", &["a"]).await.unwrap(), Written::Done);
    assert_eq!(
        fence.write(FencingToken(10), "HINCRBY", "{job}:n", &["x", "2"]).await.unwrap(),
        Written::Number(2)
    );
    assert_eq!(
        fence.write(old, "GET", "{job}:state", &[""; 0]).await.unwrap(),
        Written::Bytes(b"a".to_vec())
    );
    assert_eq!(fence.write(old, "SET", "{job}:state", &["b"]).await.unwrap(), Written::Done);
    assert_eq!(fence.write(old, "GET", "{job}:nothing", &[""; 0]).await.unwrap(), Written::Done);
    fence.write(new, "SET", "{job}:state", &["c"]).await.unwrap();

    for late in [FencingToken(9), old] {
        match fence.write(late, "SET", "{job}:state", &["late"]).await {
            Err(RedisFenceError::Refused { token, highest }) => assert_eq!((token, highest), (late, new)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(server.call(&["GET", "{job}:state"]).await.text().unwrap(), "c");
    server.call(&["SCRIPT", "FLUSH"]).await;
    assert_eq!(
        fence.write(new, "SET", "{job}:state", &["d"]).await.unwrap(),
        Written::Done,
        "a forgotten script"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_written_is_said_and_raises_the_mark_all_the_same() {
    let server = here(Redis::start());
    let fence = fence(&server);
    server.call(&["RPUSH", "{job}:list", "x"]).await;
    let error = fence.write(FencingToken(5), "SET", "{job}:list", &["v", "NX", "XX"]).await.unwrap_err();
    assert!(matches!(error, RedisFenceError::Server(_)), "{error}");
    let late = fence.write(FencingToken(4), "RPUSH", "{job}:list", &["y"]).await;
    assert!(matches!(late, Err(RedisFenceError::Refused { .. })), "{late:?}");

    server.call(&["SET", "{job}:fence", "garbage"]).await;
    match fence.write(FencingToken(6), "SET", "{job}:state", &["v"]).await {
        Err(RedisFenceError::Server(error)) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_may_be_removed_is_refused() {
    let server = here(Options::default().set("maxmemory-policy", "allkeys-lru").start());
    let error = fence(&server).write(FencingToken(1), "SET", "{job}:state", &["v"]).await.unwrap_err();
    assert!(error.to_string().contains("allow_eviction"), "{error}");
}
