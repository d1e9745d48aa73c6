//! `tenure run`, end to end: the real binary, real processes, a directory as the store.
#![allow(clippy::unwrap_used)] // Tests, and what they share.

mod all;
mod faults;
mod handoff;
mod interval;
mod lifecycle;
mod manners;
mod world;
