//! What tests of Tenure and of its stores are built from.

pub mod fault;
pub mod virtual_clock;

pub use virtual_clock::VirtualClock;
