//! The fixtures of Redis work, and end with the test, whatever becomes of it.

#![allow(clippy::unwrap_used)] // The helpers are test code, too.

mod servers;
mod talk;

use std::future::pending;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tenure_core::clock::ClockExt;
use tenure_core::{Clock, SystemClock};
use tenure_testkit::servers::redis::{Flavour, Redis};

tests_of! { Flavour::Redis,
    one: a_started_server_answers options_take_effect a_restart_keeps_the_data_or_loses_it
        a_killed_server_finds_what_it_had_appended a_frozen_server_answers_when_it_goes_on a_dropped_server_is_gone
        independent_servers_share_nothing;
    tls: tls_lets_in_who_is_known tls_can_ask_for_a_certificate;
    sentinel: sentinels_promote_a_replica_when_the_master_dies;
    cluster: a_cluster_promotes_a_replica_when_a_master_dies a_slot_of_a_cluster_can_be_moved;
}

/// Starts one of the tests below in a process of its own.
fn other_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    command
}

#[tokio::test]
async fn a_server_ends_when_the_test_process_is_killed() {
    let mut other = other_process("starts_a_server_and_waits").stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(other.stdout.take().unwrap()).lines().map(Result::unwrap);
    let pid = lines.map_while(|line| line.split_once("@ pid ").map(|(_, pid)| pid.to_owned()).or(Some(line)));
    let pid = pid.into_iter().find(|word| word.parse::<u32>().is_ok());
    other.kill().unwrap();
    other.wait().unwrap();
    let process = Path::new("/proc").join(pid.unwrap());
    let begun = SystemClock.now();
    while process.exists() {
        assert!(SystemClock.now().time_since(begun) < Duration::from_secs(30), "it still runs");
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
#[ignore = "is the other process of a test here"]
async fn starts_a_server_and_waits() {
    let redis = Redis::start().await;
    println!("@ pid {}", redis.server().pid().unwrap());
    pending::<()>().await;
}

#[test]
fn a_test_without_its_server_fails_and_says_what_to_do() {
    let output = other_process("starts_a_server_and_waits").env("TENURE_REDIS_SERVER", "/nowhere").output();
    let output = output.unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("redis-server is missing: run scripts/setup"), "{said}");
}

#[test]
fn a_test_that_fails_shows_the_log_of_its_server() {
    let output = other_process("starts_a_server_and_fails").output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("its log ends with") && said.contains("Ready to accept connections"), "{said}");
}

#[tokio::test]
#[ignore = "is the other process of a test here"]
async fn starts_a_server_and_fails() {
    let _redis = Redis::start().await;
    panic!("as it is meant to");
}
