//! The Redis store shows every property on a real Valkey server. `scripts/test` leaves this out, and says so, where Valkey
//! cannot be had.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod support;

use support::fixture::{self, OneNode};
use tenure_testkit::conformance::assert_conforms;
use tenure_testkit::servers::redis::Flavour;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_redis_store_conforms_on_valkey() {
    assert_conforms("valkey", || OneNode::of_flavour(Flavour::Valkey)).await;
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    fixture::other_process();
}
