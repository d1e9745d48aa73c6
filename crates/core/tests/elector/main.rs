//! The elector's behaviours, in virtual time on the memory store.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod b01_elected_and_stopped;
mod b10_stable_identity;
mod late_answer_of_the_bid_that_leads;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::embedded::MemoryStore;
use tenure_core::{CandidateId, Elections, Settings};
use tenure_testkit::VirtualClock;

/// A store and a clock that moves by itself while everybody waits.
struct World {
    clock: VirtualClock,
    store: MemoryStore,
}

impl World {
    fn new() -> Self {
        let clock = VirtualClock::new();
        let store = MemoryStore::with_clock(Arc::new(clock.clone()));
        Self { clock, store }
    }

    /// A process that takes part.
    fn candidate(&self, name: &str) -> Elections {
        Elections::builder(self.store.clone())
            .clock(Arc::new(self.clock.clone()))
            .candidate(CandidateId::new(name).unwrap())
            .settings(Settings::ttl(Duration::from_secs(30)))
            .seed(name.bytes().map(u64::from).sum())
            .build()
    }
}
