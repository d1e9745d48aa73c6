//! Deterministic simulation of Tenure: the shipped elector and adaptors on simulated machines, networks and servers.
//!
//! One run is one seed: it decides the candidates, their clocks, every delay, loss, pause and crash. The same seed
//! gives the same trace, to the byte. A [scenario] says what goes wrong, the [invariants](invariant) say what
//! must hold all the same; they see the [trace] only. [Flaws](flaw) are known mistakes that show that the invariants
//! would notice.

pub mod batch;
pub mod cli;
pub mod doors;
pub mod fault;
pub mod flaw;
pub mod gate;
pub mod hash_revisions;
pub mod home;
pub mod invariant;
pub mod ledger;
pub mod model;
pub mod net_ttl;
pub mod network;
pub mod plan;
pub mod process;
pub mod run;
pub mod scenario;
pub mod server;
pub mod trace;
pub mod twin;
mod work;
pub mod world;
pub mod wrong;
