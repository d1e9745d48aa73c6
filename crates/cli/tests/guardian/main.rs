//! The guardian, with real processes: a test is the wrapper, by the hidden verb `__drive`.

#![allow(clippy::unwrap_used)]

mod deadlines;
mod deaths;
mod endings;
mod harness;
mod isolation;
mod record;
mod stub;
mod terminal;
mod unkillable;
