//! The servers of a run: shipped stores, a ledger where data must get lost, and models of stores that are to come.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tenure_core::embedded::{MemoryStore, MemoryTtl, MemoryVersioned};
use tenure_core::store::record::{Record, Sight};
use tenure_core::store::ttl::Ttl;
use tenure_core::store::versioned::{Age, VersionedStore};
use tenure_core::store::{LeaseRecord, LeaseStore, RecordState};
use tenure_core::{Clock, ElectionName, Random};
use tenure_testkit::VirtualClock;

use crate::hash_revisions::HashRevisions;
use crate::ledger::Ledger;
use crate::model::gateways::Gateways;
use crate::model::pool::Pool;
use crate::model::queue;
use crate::model::redlock::Machines;
use crate::plan::{Plan, spread};
use crate::trace::{Recording, State, Stored};
use crate::wrong::Wrong;

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
    /// Plain verbs on values that end by themselves: the shipped adaptor decides in each process.
    Ttl,
    /// A server that can lose data.
    Ledger,
    /// Object storage behind two gateways with clocks of their own (a model).
    Gateways,
    /// Rows of a database behind a pooler (a model).
    Pool,
    /// Several machines, of which a majority decides (a model).
    Redlock,
    /// Keys that hang on sessions, in a queue (a model).
    Queue,
}

/// One server.
#[derive(Clone)]
pub enum Server {
    /// Decides by itself.
    Memory(MemoryStore),
    /// Decides by itself, and can lose data.
    Ledger(Ledger),
    /// Decides by itself, behind a pooler.
    Pool(Pool),
    /// Several machines that decide together.
    Machines(Machines),
    /// Keeps keys that hang on sessions.
    Sessions(queue::Server),
    /// Keeps values that end by themselves.
    Values {
        /// What processes talk to.
        values: MemoryTtl,
        /// What the adaptor makes of it.
        leases: Ttl<MemoryTtl>,
    },
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

/// What a server is made of.
pub struct Making<'a> {
    /// The plan of the run.
    pub plan: &'a Plan,
    /// The clock that ends leases there.
    pub clock: &'a VirtualClock,
    /// The server's own draws.
    pub random: Random,
    /// Where faults of its own are written down.
    pub trace: Recording,
    /// How it is wrong.
    pub wrong: Option<Wrong>,
}

impl Making<'_> {
    fn draws(&self) -> Random {
        Random::from_seed(self.random.next_u64())
    }

    /// Makes the clock of another machine of the server, which is up to `skew` ahead of the first one's.
    fn clock_beside(&self, skew: Duration) -> VirtualClock {
        let first = self.clock.now().boot();
        let beside = self.clock.beside();
        let offset = first.saturating_sub(beside.now().boot()) + self.random.up_to(skew);
        let ppm = spread(&self.random, self.plan.clocks.server_ppm);
        beside.with_offset(offset).with_rates(ppm, ppm)
    }

    fn bytes(&self) -> Server {
        let kind = self.plan.kind;
        let disk = MemoryVersioned::new(Arc::new(self.clock.clone()));
        let door: Arc<dyn VersionedStore> = match kind {
            Kind::VersionedWithAge => Arc::new(disk.clone()),
            Kind::HashRevisions => Arc::new(HashRevisions::new(disk.clone().without_age())),
            Kind::Gateways => {
                let skew = self.plan.gateway_skew;
                let clocks = [self.clock_beside(Duration::ZERO), self.clock_beside(skew)];
                let (random, trace) = (self.draws(), self.trace.clone());
                Arc::new(Gateways::new(disk.clone(), clocks, skew, random, trace, self.wrong))
            }
            _ => Arc::new(disk.clone().without_age()),
        };
        Server::Bytes { door, disk, tells_age: kind == Kind::VersionedWithAge }
    }
}

impl Server {
    /// Makes an empty server.
    #[must_use]
    pub fn new(making: &Making<'_>) -> Self {
        let Making { plan, clock, wrong, .. } = *making;
        let ledger = || Ledger::new(clock.clone(), wrong);
        match plan.kind {
            Kind::Memory => Self::Memory(MemoryStore::with_clock(Arc::new(clock.clone()))),
            Kind::Ledger => Self::Ledger(ledger()),
            Kind::Pool => Self::Pool(Pool::new(ledger(), making.draws(), making.trace.clone(), wrong)),
            Kind::Redlock => {
                // As far apart as the clocks of machines that ask the same time servers.
                let skew = Duration::from_millis(50);
                let clocks = (0..plan.machines).map(|_| making.clock_beside(skew)).collect();
                Self::Machines(Machines::new(clocks, plan.ttl, wrong))
            }
            Kind::Queue => Self::Sessions(queue::Server::new(clock.clone())),
            Kind::Ttl => {
                let values = MemoryTtl::new(Arc::new(clock.clone()));
                let leases = Ttl::with_clock(values.clone(), Arc::new(clock.clone()));
                Self::Values { values, leases }
            }
            Kind::VersionedWithAge | Kind::VersionedWithoutAge | Kind::HashRevisions | Kind::Gateways => {
                making.bytes()
            }
        }
    }

    /// Tells whether the server decides, and not the processes.
    #[must_use]
    pub fn decides(&self) -> bool {
        matches!(self, Self::Memory(_) | Self::Ledger(_) | Self::Pool(_))
    }

    /// Returns the contract of a server that decides by itself.
    #[must_use]
    pub fn leases(&self) -> Option<Arc<dyn LeaseStore>> {
        match self {
            Self::Memory(store) => Some(Arc::new(store.clone())),
            Self::Ledger(ledger) => Some(Arc::new(ledger.clone())),
            Self::Pool(pool) => Some(Arc::new(pool.clone())),
            Self::Machines(_) | Self::Sessions(_) | Self::Values { .. } | Self::Bytes { .. } => None,
        }
    }

    /// Looks at the record without going through any network.
    #[must_use]
    pub fn peek(&self, election: &ElectionName) -> Option<LeaseRecord> {
        // Memory never waits.
        match self {
            Self::Memory(store) => store.read(election).now_or_never()?.ok()?,
            Self::Ledger(ledger) => ledger.peek(election),
            Self::Pool(pool) => pool.peek(election),
            Self::Machines(machines) => machines.peek(),
            Self::Sessions(server) => queue::peek(server, election),
            Self::Values { leases, .. } => leases.read(election).now_or_never()?.ok()?,
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
            RecordState::Held if record.holder.is_none() => State::Asked,
            RecordState::Held => State::Held,
            RecordState::Reserved { .. } | RecordState::Recovering => State::Reserved,
            RecordState::Paused => State::Paused,
            RecordState::Free => State::Free,
        };
        // The lease is an entry of its own there, and the record goes on naming the last holder when that has ended.
        let named = !matches!(self, Self::Values { .. }) || state == State::Held;
        let holder = record.holder.as_ref().filter(|_| named);
        Some(Stored {
            server,
            state,
            token: record.token,
            holder: holder.map(|holder| (holder.bid, holder.attempt)),
            left: if self.tells_age() { Some(record.time_left.unwrap_or(Duration::ZERO)) } else { None },
            request: record.request.as_ref().map(|request| request.id),
            answered: record.answer.as_ref().map(|answered| answered.id),
        })
    }
}
