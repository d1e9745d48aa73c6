//! The Redis store shows every property behind sentinels, also if replicas must have what is written.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod support;

use support::fixture;
use support::sentinels::BehindSentinels;
use tenure_testkit::conformance::assert_conforms;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_store_conforms_behind_sentinels() {
    assert_conforms("redis-sentinel", || BehindSentinels::fresh(0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_store_conforms_with_replicas_that_must_have_what_is_written() {
    assert_conforms("redis-min-replicas", || BehindSentinels::fresh(1)).await;
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    fixture::other_process();
}
