//! The Redis store shows every property on a real server, also behind a pointer.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod support;

use std::sync::Arc;

use support::fixture::{self, OneNode};
use tenure_testkit::conformance::assert_conforms;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_store_conforms() {
    assert_conforms("redis", || OneNode::fresh(|handle| handle)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pointer_to_the_redis_store_conforms() {
    // The pointer itself is the store under test.
    assert_conforms("redis-pointer", || OneNode::fresh(|handle| Arc::new(handle))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_store_conforms_over_tls_with_only_the_rights_that_it_needs() {
    assert_conforms("redis-tls-acl", OneNode::guarded).await;
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    fixture::other_process();
}
