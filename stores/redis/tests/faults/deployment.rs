//! Where candidates meet.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::LeaseStore;
use tenure_redis::RedisConfig;
use tenure_testkit::proxy::{Proxies, Resp};
use tenure_testkit::servers::redis::{Options, Redis};

use crate::arena::TTL;

/// How many candidates there are.
pub const SEATS: usize = 3;

/// What a deployment promises, whatever happens to it here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// At most one leads.
    Exclusion,
    /// Two may lead for a while; what they write to refuses the older one.
    Fence,
}

/// Servers that a store runs on.
pub trait Deployment {
    /// What it promises.
    fn promise(&self) -> Promise;

    /// The ttl of the leases.
    fn ttl(&self) -> Duration {
        TTL
    }

    /// The URL for a candidate, by its way if it has one.
    fn url(&self, seat: usize) -> String;

    /// The store, past all ways: to look at.
    fn observer(&self) -> &dyn LeaseStore;
}

/// A deployment with a way for each candidate that can be disturbed.
pub trait ByWays: Deployment {
    /// The way of a candidate.
    fn way(&self, seat: usize) -> &Proxies;
}

/// Opens the store that a URL of a deployment names.
pub fn open(url: &str) -> Arc<dyn LeaseStore> {
    tenure_redis::open(RedisConfig::from_url(url).unwrap()).unwrap()
}

/// What a server finds after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// All that it had, which candidates know.
    Keeps,
    /// Nothing, which candidates know.
    Forgets,
    /// Nothing, while candidates are told that it keeps all: a wrong configuration.
    Denies,
}

/// One server.
pub struct OneServer {
    pub server: Redis,
    memory: Memory,
    ways: Vec<Proxies>,
    observer: Arc<dyn LeaseStore>,
}

impl OneServer {
    pub async fn start(memory: Memory) -> Self {
        let options = Options::default();
        let options = if memory == Memory::Keeps { options.append_only() } else { options };
        let server = options.start().await;
        let ways = (0..SEATS).map(|_| Proxies::start(&[server.address()], Resp)).collect();
        let observer = open(&server.url());
        Self { server, memory, ways, observer }
    }
}

impl Deployment for OneServer {
    fn promise(&self) -> Promise {
        if self.memory == Memory::Denies { Promise::Fence } else { Promise::Exclusion }
    }

    fn url(&self, seat: usize) -> String {
        let survives_restart = self.memory != Memory::Forgets;
        let by = self.server.url_by(self.ways[seat].addresses()[0]);
        format!("{by}?survives_restart={survives_restart}")
    }

    fn observer(&self) -> &dyn LeaseStore {
        &*self.observer
    }
}

impl ByWays for OneServer {
    fn way(&self, seat: usize) -> &Proxies {
        &self.ways[seat]
    }
}
