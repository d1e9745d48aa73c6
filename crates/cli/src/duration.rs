//! Durations as people write them, the same in flags and in files.

pub(crate) use tenure::config::duration::{above_zero, brief, parse, show};
