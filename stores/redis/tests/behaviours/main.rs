//! What the Redis store does beyond the conformance suite, on real servers.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod access;
mod by_hand;
mod cluster;
mod connections;
mod errors;
mod fence;
mod foreign;
mod forgetting;
mod messages;
mod plain_script;
mod replicas;
mod script_time;
mod sentinels;
mod tls;
mod tokens;
mod wakes;

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    support::fixture::other_process();
}
