//! Whatever happens to the leader, to the way to its server and to the server: nobody leads beside it.
//!
//! Candidates are real processes that run the shipped elector ([`candidate`]). Each stamps its permission a thousand times a
//! second by the boot clock, which all processes of a machine share, and writes through a fence while it leads. A fault
//! ([`faults`]) hits a [`deployment`] round after round; in the end [`judge`] reads all stamps and all writes.
//!
//! A further deployment implements [`deployment::Deployment`] and names the faults that it has to stand; where it cannot
//! promise exclusion it says so, and its rounds show that the fence refuses the old leader.

#![allow(clippy::unwrap_used)]
// What is shared here leaves the program as little as its tests do.
#![allow(unreachable_pub)]

mod arena;
mod candidate;
mod deployment;
mod failover;
mod faults;
mod judge;
mod one_server;
mod redlock;
mod stamps;

#[test]
#[ignore = "is a candidate of the tests here"]
fn candidate_process() {
    candidate::run();
}
