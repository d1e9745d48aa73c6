//! A database behind a pooler, which gives each statement whatever connection is free.
//!
//! The rule that this fixes: a lease is a row, judged by bid, token and nonce in one statement. Nothing may hang on the
//! connection: a lock of the session is granted again to whoever comes over the same connection next, and stays behind
//! with it when its holder is gone.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tenure_core::store::{
    Acquisition, Bid, Changes, Guarantees, LeaseRecord, LeaseStore, Operator, Release, Released, Renew,
    Renewal, StoreError,
};
use tenure_core::{CandidateId, ElectionName, Random};

use crate::fault;
use crate::ledger::Ledger;
use crate::network::unpoisoned;
use crate::plan::pick;
use crate::trace::{Recording, What, Who};
use crate::wrong::Wrong;

/// How many connections the pooler keeps to the database: fewer than there are candidates.
const CONNECTIONS: usize = 2;

/// Rows behind a pooler; clones share them.
#[derive(Clone)]
pub struct Pool {
    rows: Ledger,
    shared: Arc<Shared>,
}

struct Shared {
    connections: Mutex<Connections>,
    random: Random,
    trace: Recording,
    wrong: Option<Wrong>,
}

#[derive(Default)]
struct Connections {
    /// Who spoke over each of them last.
    last: [Option<CandidateId>; CONNECTIONS],
    /// Which of them has the session's lock (used by a wrong store only).
    locked_by: Option<usize>,
}

impl Pool {
    /// Puts a pooler before `rows`.
    #[must_use]
    pub fn new(rows: Ledger, random: Random, trace: Recording, wrong: Option<Wrong>) -> Self {
        let shared = Shared { connections: Mutex::default(), random, trace, wrong };
        Self { rows, shared: Arc::new(shared) }
    }

    /// Looks without going through any network.
    #[must_use]
    pub fn peek(&self, election: &ElectionName) -> Option<LeaseRecord> {
        self.rows.peek(election)
    }

    /// Gives the statement of `candidate` a connection.
    fn connect(&self, election: &ElectionName, candidate: &CandidateId) -> usize {
        let free = pick(&self.shared.random, CONNECTIONS);
        let before = unpoisoned(&self.shared.connections).last[free].replace(candidate.clone());
        let leader = self.rows.peek(election).and_then(|record| Some(record.leader()?.candidate.clone()));
        if before.is_some() && before == leader && leader.as_ref() != Some(candidate) {
            self.shared.trace.add(Who::WORLD, What::Fault(fault::HANDED_ON));
        }
        free
    }
}

#[async_trait]
impl LeaseStore for Pool {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        let connection = self.connect(election, &bid.candidate);
        if self.shared.wrong != Some(Wrong::LockOfConnection) {
            return self.rows.acquire(election, bid).await;
        }
        // The session has the lock already: the database grants it once more.
        let again = unpoisoned(&self.shared.connections).locked_by == Some(connection);
        let answer = self.rows.acquire_if(election, bid, again);
        if let Acquisition::Acquired(_) = answer {
            unpoisoned(&self.shared.connections).locked_by = Some(connection);
        }
        Ok(answer)
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        for Renew { lease, .. } in renewals {
            self.connect(&lease.election, &lease.candidate);
        }
        self.rows.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.connect(&release.lease.election, &release.lease.candidate);
        self.rows.release(release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        self.rows.read(election).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        self.rows.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees { store: "pool", ..self.rows.guarantees() }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        self.rows.operator()
    }
}
