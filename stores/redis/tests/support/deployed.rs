//! What every deployment of servers shows the conformance suite alike.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::clock::ClockExt;
use tenure_core::store::LeaseStore;
use tenure_core::{Clock, ElectionName, SystemClock};
use tenure_redis::RedisConfig;
use tenure_testkit::conformance::{ByHand, Fixture, Freezer, Network, Property, Refusal, Restart};
use tenure_testkit::process::Process;
use tenure_testkit::servers::redis::{Data, Redis};

use super::fixture::{get_by_hand, grown_up, in_a_later_format, put_by_hand};

/// Opens the store at a URL.
pub fn open_url(url: &str) -> Arc<dyn LeaseStore> {
    tenure_redis::open(RedisConfig::from_url(url).unwrap()).unwrap()
}

/// What differs from one deployment to the other.
#[async_trait]
pub trait Deployed: Send + Sync + 'static {
    /// Returns the URL of the store, with its settings.
    fn url(&self) -> String;

    /// Opens the store, as another process would.
    fn open(&self) -> Arc<dyn LeaseStore> {
        open_url(&self.url())
    }

    fn ttl(&self) -> Duration;

    fn limit(&self) -> Duration {
        Duration::from_secs(60)
    }

    /// Returns the servers in which an election is kept.
    fn keepers(&self, election: &ElectionName) -> Vec<&Redis>;

    /// Restarts the servers and waits until they serve; returns those that nothing may have told of a lease.
    fn restart(&self, data: Data) -> Vec<&Redis>;

    fn network(&self) -> Option<Arc<dyn Network>> {
        None
    }

    async fn refusals(&self) -> Vec<Refusal>;
}

/// A deployment for the conformance suite; each handle connects once more, as another process would.
pub struct Conforming<D> {
    deployed: D,
    frozen: Mutex<Vec<Process>>,
}

impl<D: Deployed> Conforming<D> {
    pub fn new(deployed: D) -> Self {
        Self { deployed, frozen: Mutex::default() }
    }
}

#[async_trait]
impl<D: Deployed> Fixture for Conforming<D> {
    async fn handle(&self) -> Arc<dyn LeaseStore> {
        self.deployed.open()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn ttl(&self) -> Duration {
        self.deployed.ttl()
    }

    fn limit(&self) -> Duration {
        self.deployed.limit()
    }

    fn applies(&self, property: Property) -> Result<(), &'static str> {
        match property {
            Property::A30 => Err("leases hang on no session"),
            _ => Ok(()),
        }
    }

    fn by_hand(&self) -> Option<&dyn ByHand> {
        Some(self)
    }

    fn restart(&self) -> Option<&dyn Restart> {
        Some(self)
    }

    fn network(&self) -> Option<Arc<dyn Network>> {
        self.deployed.network()
    }

    async fn refusals(&self) -> Vec<Refusal> {
        self.deployed.refusals().await
    }

    fn freezer(&self) -> Option<&dyn Freezer> {
        Some(self)
    }
}

/// The record's place is the hash beside the lease; what something else writes into the lease's own place is a foreign
/// holder, which has tests of its own.
#[async_trait]
impl<D: Deployed> ByHand for Conforming<D> {
    async fn get(&self, election: &ElectionName) -> Option<Vec<u8>> {
        get_by_hand(self.deployed.keepers(election)[0], election).await
    }

    async fn put(&self, election: &ElectionName, bytes: Option<Vec<u8>>) {
        for server in self.deployed.keepers(election) {
            put_by_hand(server, election, bytes.clone()).await;
        }
    }

    fn in_a_later_format(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        in_a_later_format(bytes)
    }
}

#[async_trait]
impl<D: Deployed> Restart for Conforming<D> {
    async fn keeping_data(&self) -> bool {
        self.deployed.restart(Data::Kept);
        true
    }

    async fn losing_data(&self) -> bool {
        for server in self.deployed.restart(Data::Lost) {
            grown_up(server).await;
        }
        true
    }
}

#[async_trait]
impl<D: Deployed> Freezer for Conforming<D> {
    async fn freeze(&self, election: &ElectionName, after: Duration) {
        let other =
            Process::leading("other_process", &self.deployed.url(), election, self.deployed.ttl()).await;
        SystemClock.sleep(after).await;
        other.stop().await;
        self.frozen.lock().unwrap().push(other);
    }

    async fn end(&self) {
        self.frozen.lock().unwrap().clear();
    }
}
