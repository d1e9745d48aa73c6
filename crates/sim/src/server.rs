//! The servers of a run: shipped stores, and a ledger where data must get lost.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tenure_core::ElectionName;
use tenure_core::embedded::{MemoryStore, MemoryVersioned};
use tenure_core::store::record::{Record, Sight};
use tenure_core::store::versioned::{Age, VersionedStore};
use tenure_core::store::{LeaseRecord, LeaseStore, RecordState};
use tenure_testkit::VirtualClock;

use crate::hash_revisions::HashRevisions;
use crate::ledger::{Ledger, Wrong};
use crate::trace::{State, Stored};

/// Which store a run is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The shipped memory store: the server decides, by its own clock.
    Memory,
    /// Compare-and-swap with ages: the shipped adaptor decides in each process.
    VersionedWithAge,
    /// Compare-and-swap without ages: each process times records itself.
    VersionedWithoutAge,
    /// As before, and the revisions are content hashes.
    HashRevisions,
    /// A server that can lose data.
    Ledger,
}

/// One server.
#[derive(Clone)]
pub enum Server {
    /// Decides by itself.
    Memory(MemoryStore),
    /// Decides by itself, and can lose data.
    Ledger(Ledger),
    /// Keeps bytes.
    Bytes {
        /// What processes talk to.
        door: Arc<dyn VersionedStore>,
        /// What lies behind it, with ages.
        disk: MemoryVersioned,
        /// The server tells ages to everybody.
        tells_age: bool,
    },
}

impl Server {
    /// Makes an empty server whose leases end by `clock`.
    #[must_use]
    pub fn new(kind: Kind, clock: &VirtualClock, wrong: Option<Wrong>) -> Self {
        let shared = Arc::new(clock.clone());
        match kind {
            Kind::Memory => Self::Memory(MemoryStore::with_clock(shared)),
            Kind::Ledger => Self::Ledger(Ledger::new(clock.clone(), wrong)),
            Kind::VersionedWithAge | Kind::VersionedWithoutAge | Kind::HashRevisions => {
                let disk = MemoryVersioned::new(shared);
                let door: Arc<dyn VersionedStore> = match kind {
                    Kind::VersionedWithAge => Arc::new(disk.clone()),
                    Kind::HashRevisions => Arc::new(HashRevisions::new(disk.clone().without_age())),
                    _ => Arc::new(disk.clone().without_age()),
                };
                Self::Bytes { door, disk, tells_age: kind == Kind::VersionedWithAge }
            }
        }
    }

    /// Returns the contract of a server that decides by itself.
    #[must_use]
    pub fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        match self {
            Self::Memory(store) => Some(Arc::new(store.clone())),
            Self::Ledger(ledger) => Some(Arc::new(ledger.clone())),
            Self::Bytes { .. } => None,
        }
    }

    /// Looks at the record without going through any network.
    #[must_use]
    pub fn peek(&self, election: &ElectionName) -> Option<LeaseRecord> {
        // Memory never waits.
        match self {
            Self::Memory(store) => store.read(election).now_or_never()?.ok()?,
            Self::Ledger(ledger) => ledger.peek(election),
            Self::Bytes { disk, .. } => {
                let found = disk.read(election).now_or_never()?.ok()??;
                let record = Record::decode(election, &found.bytes).ok()?;
                let Age::AtLeast(age) = found.age else { return None };
                Some(record.view(&Sight::exact(age, std::time::SystemTime::UNIX_EPOCH)))
            }
        }
    }

    fn tells_age(&self) -> bool {
        !matches!(self, Self::Bytes { tells_age: false, .. })
    }

    /// Looks at the record as the trace keeps it.
    #[must_use]
    pub fn stored(&self, election: &ElectionName, server: u8) -> Option<Stored> {
        let record = self.peek(election)?;
        let state = match record.state {
            RecordState::Held => State::Held,
            RecordState::Reserved { .. } => State::Reserved,
            RecordState::Paused => State::Paused,
            RecordState::Free => State::Free,
        };
        Some(Stored {
            server,
            state,
            token: record.token,
            holder: record.holder.as_ref().map(|holder| (holder.bid, holder.attempt)),
            left: if self.tells_age() { Some(record.time_left.unwrap_or(Duration::ZERO)) } else { None },
            request: record.request.as_ref().map(|request| request.id),
            answered: record.answer.as_ref().map(|answered| answered.id),
        })
    }
}
