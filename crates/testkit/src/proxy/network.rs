//! The conformance suite's network, made of proxies.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::store::LeaseStore;

use super::{Fault, Proxies, Requests, Then};
use crate::conformance::{Network, Trouble};

/// The [`Network`] of a fixture: a handle behind proxies.
///
/// When a trouble ends, the connections that it has touched are cut; see [`Proxies::clear`].
pub struct ProxyNetwork {
    proxies: Arc<Proxies>,
    handle: Arc<dyn LeaseStore>,
    call_limit: Duration,
    requests: Requests,
}

impl ProxyNetwork {
    /// Takes the way of `handle`, which was opened with the addresses of `proxies`, and whose calls take `call_limit` at
    /// most.
    ///
    /// `requests` are those that are lost or held back, or whose answers are lost: those of the store's work, so that a
    /// new connection can be set up meanwhile ([`Requests::of_work`]).
    pub fn new(
        proxies: Arc<Proxies>,
        handle: Arc<dyn LeaseStore>,
        call_limit: Duration,
        requests: Requests,
    ) -> Self {
        Self { proxies, handle, call_limit, requests }
    }
}

#[async_trait]
impl Network for ProxyNetwork {
    fn handle(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.handle)
    }

    fn call_limit(&self) -> Duration {
        self.call_limit
    }

    async fn set(&self, trouble: Trouble) {
        self.proxies.clear().await;
        let requests = self.requests.clone();
        match trouble {
            Trouble::None => {}
            Trouble::RequestsLost => self.proxies.inject(&Fault::LoseRequests(requests, Then::Silence)),
            Trouble::AnswersLost => self.proxies.inject(&Fault::LoseAnswers(requests, Then::Silence)),
            Trouble::RequestsHeld => self.proxies.inject(&Fault::HoldBack(requests)),
            Trouble::Hung => self.proxies.inject(&Fault::BlackHole),
            Trouble::Cut => self.proxies.turn_away().await,
        }
    }

    async fn deliver(&self) {
        self.proxies.deliver_late().await;
    }

    fn troubled(&self) -> u64 {
        self.proxies.counts().troubled()
    }
}
