//! The configuration of Tenure: flags before the environment before a file before defaults, each value with its origin.
//!
//! A file is TOML, JSON, YAML or HCL; it is the one that was named, else `./tenure.toml` (or `.json`, `.yaml`, `.yml`,
//! `.hcl`, `.honua`), else the one in `/etc/tenure`. Settings at its top hold for all of its elections:
//!
//! ```toml
//! store = "redis://redis.example:6379"
//! ttl = "10s"
//!
//! [elections.billing]
//! command = ["./worker", "--queue", "bills"]
//!
//! [elections.nightly]
//! once = true
//! min_interval = "20h"
//! command = "./report.sh | mail -s report ops"
//! ```
//!
//! Each of them has a variable of the environment, such as `TENURE_TTL`. Settings of some other software are understood
//! where nothing of ours says a store, so that both contest the same lease while one takes the other's place.

mod config;
pub mod duration;
mod find;
mod keys;
mod layer;
mod load;
mod mistake;
mod origin;
mod other;
mod parse;
pub mod percent;
mod read;
mod schema;
mod secret;
mod show;
mod sources;
mod suggest;
mod tree;
mod values;

pub use config::{Config, Election};
pub use mistake::{Mistake, Mistakes};
pub use origin::Origin;
pub use show::Row;
pub use sources::{Sources, StoreRule};
pub use values::{Store, Values};
