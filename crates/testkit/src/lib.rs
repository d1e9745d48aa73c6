//! What tests of Tenure and of its stores are built from.

pub mod conformance;
pub mod fault;
mod twist;
pub mod virtual_clock;

pub use twist::{Twist, Twisted};
pub use virtual_clock::VirtualClock;

/// The code of the guide compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing-your-code.md")]
struct TestingYourCode;
