//! The file store between real processes, on real clocks.

// Clippy knows tests by their attribute, and does not see that these helpers are part of them.
#![allow(clippy::unwrap_used)]

mod lives;
mod other;
mod reader;
mod refused;
mod stopped;
mod support;
