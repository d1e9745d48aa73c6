//! An object store behind two gateways, each of which stamps by a clock of its own.
//!
//! `Last-Modified` is the clock of the gateway that took the write, `Date` that of the gateway that answers the read,
//! both in whole seconds. Their difference is not an age: it is one plus or minus the skew of the two clocks.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::embedded::MemoryVersioned;
use tenure_core::store::versioned::{Age, ChangedNames, Found, Revision, VersionedStore, Written};
use tenure_core::store::{Guarantees, StoreError};
use tenure_core::{Clock, ElectionName, Random};
use tenure_testkit::VirtualClock;

use crate::fault;
use crate::network::unpoisoned;
use crate::plan::pick;
use crate::trace::{Recording, What, Who};
use crate::wrong::Wrong;

/// Both stamps are rounded down to whole seconds, each by up to one.
const ROUNDING: Duration = Duration::from_secs(2);

/// A store of byte strings behind two gateways; each request meets one of them.
pub struct Gateways {
    disk: MemoryVersioned,
    clocks: [VirtualClock; 2],
    /// What the two clocks may differ by, as the store's settings say.
    max_skew: Duration,
    stamps: Mutex<BTreeMap<ElectionName, Stamp>>,
    random: Random,
    trace: Recording,
    wrong: Option<Wrong>,
}

/// When a record was written.
#[derive(Clone, Copy)]
struct Stamp {
    last_modified: Duration,
    gateway: usize,
    true_time: Duration,
}

fn whole_seconds(d: Duration) -> Duration {
    Duration::from_secs(d.as_secs())
}

impl Gateways {
    /// Puts gateways with these clocks before `disk`.
    #[must_use]
    pub fn new(
        disk: MemoryVersioned,
        clocks: [VirtualClock; 2],
        max_skew: Duration,
        random: Random,
        trace: Recording,
        wrong: Option<Wrong>,
    ) -> Self {
        let stamps = Mutex::default();
        Self { disk: disk.without_age(), clocks, max_skew, stamps, random, trace, wrong }
    }

    /// Draws the gateway that a request meets, and reads its clock.
    fn gateway(&self) -> (usize, Duration) {
        let gateway = pick(&self.random, 2);
        (gateway, whole_seconds(self.clocks[gateway].now().boot()))
    }

    fn stamp(&self, election: &ElectionName, written: Written) -> Written {
        if let Written::Written(_) = written {
            let (gateway, last_modified) = self.gateway();
            let stamp = Stamp { last_modified, gateway, true_time: self.clocks[0].true_now() };
            unpoisoned(&self.stamps).insert(election.clone(), stamp);
        }
        written
    }

    /// Judges the age by the two stamps; too young is allowed, too old is not.
    fn age(&self, election: &ElectionName) -> Age {
        let Some(stamp) = unpoisoned(&self.stamps).get(election).copied() else { return Age::Unknown };
        let (gateway, date) = self.gateway();
        let Some(between) = date.checked_sub(stamp.last_modified) else { return Age::Unknown };
        let age = self.clocks[0].true_now().saturating_sub(stamp.true_time);
        if gateway != stamp.gateway && between > age + ROUNDING {
            self.trace.add(Who::WORLD, What::Fault(fault::LOOKED_OLDER));
        }
        if self.wrong == Some(Wrong::TrustsTwoClocks) {
            return Age::AtLeast(between);
        }
        between.checked_sub(ROUNDING + self.max_skew).map_or(Age::Unknown, Age::AtLeast)
    }
}

#[async_trait]
impl VersionedStore for Gateways {
    async fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError> {
        let found = self.disk.read(election).await?;
        Ok(found.map(|found| Found { age: self.age(election), ..found }))
    }

    async fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError> {
        Ok(self.stamp(election, self.disk.create(election, bytes).await?))
    }

    async fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        revision: &Revision,
    ) -> Result<Written, StoreError> {
        Ok(self.stamp(election, self.disk.replace(election, bytes, revision).await?))
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        self.disk.list(prefix).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<ChangedNames> {
        self.disk.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.disk.guarantees()
    }
}
