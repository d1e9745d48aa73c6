//! The command on a real Redis server, end to end.

#![allow(clippy::unwrap_used)] // Tests, and what they share.

mod control;
mod doctor;
mod foreign;
mod leads;
mod other;
mod place;
mod refuses;
mod young;

// Candidates and what they say, as in the tests of `run`; what verbs say, as in theirs.
#[allow(dead_code)]
#[path = "../verbs/stage.rs"]
mod stage;
#[allow(dead_code)]
#[path = "../run/world.rs"]
mod world;
