//! A good store that is wrong in one thing.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::Clock;
use tenure_core::store::LeaseStore;
use tenure_testkit::conformance::{ByHand, Fixture, Session};
use tenure_testkit::{Twist, Twisted};

/// A good fixture whose handles are all twisted in the same way.
pub struct Broken<B, T> {
    pub base: B,
    pub twist: Arc<T>,
}

impl<B: Fixture, T: Twist> Broken<B, T> {
    pub fn new(base: B, twist: T) -> Self {
        Self { base, twist: Arc::new(twist) }
    }
}

#[async_trait]
impl<B: Fixture, T: Twist> Fixture for Broken<B, T> {
    async fn handle(&self) -> Arc<dyn LeaseStore> {
        Arc::new(Twisted::sharing(self.base.handle().await, Arc::clone(&self.twist)))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.base.clock()
    }

    fn ttl(&self) -> Duration {
        self.base.ttl()
    }

    fn by_hand(&self) -> Option<&dyn ByHand> {
        self.base.by_hand()
    }

    fn session(&self) -> Option<&dyn Session> {
        self.base.session()
    }
}
