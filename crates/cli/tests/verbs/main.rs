//! The verbs, as people and programs use them: the real command on real directories.

// Clippy knows tests by their attribute, and does not see that these helpers are part of them.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod candidates;
mod company;
mod config;
mod doctor;
mod documents;
mod handoff;
mod history;
mod json;
mod leader;
mod list;
mod manners;
mod nothing_there;
mod pages;
mod pause;
mod release;
mod repair;
mod resign;
mod stage;
mod status;
mod token;
mod watch;
