//! What the Redlock store does beyond the conformance suite, on real servers.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod attempts;
mod chaos;
mod forgetting;
mod majorities;
mod requests;
mod silence;
mod split_votes;
mod votes;
mod wakes;

use std::net::SocketAddr;

use support::here;
use tenure_testkit::proxy::{Proxies, Resp};
use tenure_testkit::servers::redis::{Options, Redis};

/// Nodes that have kept everything, as far as anybody knows.
const KEPT: &str = "survives_restart=true&call_timeout=20s";

/// Starts nodes with a proxy in front of each.
fn behind_proxies(count: usize) -> (Vec<Redis>, Proxies) {
    let nodes = here(Redis::start_many(count, &Options::default()));
    let proxies = Proxies::start(&addresses(&nodes), Resp);
    (nodes, proxies)
}

fn addresses(nodes: &[Redis]) -> Vec<SocketAddr> {
    nodes.iter().map(Redis::address).collect()
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    support::fixture::other_process();
}
