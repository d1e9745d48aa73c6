//! What tests of Tenure and of its stores are built from.
//!
//! Behind cargo features, since not every user of the conformance suite has a network: `servers` (feature `servers`)
//! starts real servers, `proxy` (feature `proxy`) disturbs the way to them, `process` (feature `process`) starts the test
//! program once more, to be killed or stopped.

pub mod conformance;
pub mod fault;
#[cfg(feature = "process")]
pub mod process;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(any(feature = "proxy", feature = "servers"))]
pub mod resp;
#[cfg(feature = "servers")]
pub mod servers;
pub mod terms;
mod twist;
pub mod virtual_clock;
#[cfg(any(feature = "proxy", feature = "servers"))]
mod wait;

pub use twist::{Twist, Twisted};
pub use virtual_clock::VirtualClock;

/// The code of the guide compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing-your-code.md")]
struct TestingYourCode;
