//! The Redlock store shows every property on real servers, also with as many of them down as may be.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod support;

use support::fixture;
use support::independent::Independent;
use tenure_testkit::conformance::assert_conforms;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redlock_store_conforms() {
    assert_conforms("redlock", || Independent::fresh(5, 0)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redlock_store_conforms_with_two_of_five_nodes_down() {
    assert_conforms("redlock-2-down", || Independent::fresh(5, 2)).await;
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    fixture::other_process();
}
