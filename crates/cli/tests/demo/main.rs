//! The demonstration, as people see it: in a terminal, and as a script.

// Clippy knows tests by their attribute, and does not see that these helpers are part of them.
#![allow(clippy::unwrap_used)]

mod live;
mod refused;
mod script;
mod session;
mod stage;
