//! The Redis store shows every property on a real cluster of three masters and three replicas.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod support;

use std::sync::Arc;

use support::cluster::{InCluster, guarded};
use support::{fixture, here};
use tenure_testkit::conformance::assert_conforms;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_store_conforms_in_a_cluster() {
    // One for all properties, emptied for each: six servers need seconds until they are one cluster.
    let cluster = Arc::new(here(guarded()));
    assert_conforms("redis-cluster", || InCluster::emptied(Arc::clone(&cluster))).await;
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    fixture::other_process();
}
