//! Stores that this project does not have yet, as small models: what such a server does, and the store's side as it
//! has to be.
//!
//! The elector and the rules of a record in here are the shipped ones. What a model fixes is the interleaving: which
//! messages there are, what may come between them, and what the store has to do about it. The real store crate takes
//! its order of steps from here, and its scenarios are there before it is.

pub mod gateways;
pub mod pool;
pub mod queue;
pub mod redlock;
pub mod sessions;
