//! Redis and Valkey: one server, with TLS and users, behind sentinels, as a cluster, as many independent ones.
//!
//! | what is started | how |
//! |---|---|
//! | one server | [`Redis::start`], or with [`Options`]: `Options::default().append_only().start()` |
//! | TLS and users | `Options::default().tls(ClientCertificates::Optional).without_default_user().user("app", "pw", "~* &* +@all")` |
//! | several independent servers | [`Redis::start_many`] |
//! | 1 master, 2 replicas, 3 sentinels | [`Sentinels::start`] |
//! | cluster of 3 masters and 3 replicas | [`Cluster::start`] |
//!
//! Valkey: `Options::default().flavour(Flavour::Valkey)`; [`SentinelOptions`] and [`ClusterOptions`] take such options.
//!
//! [`Redis::call`] sends a request by hand, past TLS, passwords and proxies.

mod certificates;
mod cluster;
mod flavour;
mod one;
mod options;
mod sentinel;

pub use certificates::Certificates;
pub use cluster::{Cluster, ClusterOptions};
pub use flavour::Flavour;
pub use one::{Data, Redis};
pub use options::{ClientCertificates, Options};
pub use sentinel::{SentinelOptions, Sentinels};
