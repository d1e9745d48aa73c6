//! Leader election for everybody who runs more than one copy of a program.
//!
//! One copy leads, the others stand by; when the leader stops, crashes, hangs or is cut off, another one takes over, and
//! never do two lead at the same time.
//!
//! ```
//! use tenure::{Elector, MemoryStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let answer = Elector::new(MemoryStore::new(), "billing")
//!     .run(|leadership| async move {
//!         // Ask right before each act; hand the token to what you write to.
//!         leadership.check()?;
//!         Ok::<_, tenure::elector::NotLeader>(leadership.token())
//!     })
//!     .await??;
//! # assert_eq!(answer.0, 1);
//! # Ok(())
//! # }
//! ```
//!
//! - [`Elector::run`] runs something while leading; [`Elector::start`] calls back.
//! - [`Elections`] takes part in many elections, or leads once for one operation.
//! - [`Fence`] protects what the leader writes to, with the term's [`FencingToken`].
//! - [`open`] takes a store's URL; with the feature `config`, `config::load` reads it from a file.
//! - [`store`] is the contract for stores; [`embedded`] are those that need no server.

#[cfg(feature = "config")]
pub mod config;
mod open;

pub use open::{InvalidUrl, OpenError, SCHEMES, StoreUrl, open};
pub use tenure_core::embedded::{FileStore, MemoryStore};
pub use tenure_core::*;
/// Leases in Redis or Valkey, and a fence there.
#[cfg(feature = "redis")]
pub use tenure_redis as redis;

/// The README's code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
