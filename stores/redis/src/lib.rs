//! Leases in Redis.
//!
//! What the store promises, what it needs and what it cannot do stands in `docs/stores/redis.md`.

mod cluster;
mod config;
mod connect;
mod error;
mod fence;
mod keys;
mod link;
mod listen;
mod open;
mod operator;
mod record;
mod redlock;
mod script;
mod sentinel;
mod store;
mod turns;
mod wait;
mod watch;

pub use config::{Address, Host, InvalidConfig, RedisConfig, SCHEMES, Tls};
pub use fence::{RedisFence, RedisFenceError, Written};
pub use keys::{DEFAULT_PREFIX, DEFAULT_TEMPLATE};
pub use open::open;
pub use redlock::RedlockStore;
pub use store::RedisStore;

/// The code of the guide compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/stores/redis.md")]
struct Guide;
