//! The doors of a store in one process: over the network, and with everything written down.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::store::versioned::{ChangedNames, Found, Revision, VersionedStore, Written};
use tenure_core::store::{
    Acquisition, Bid, Change, Changes, ErrorKind, Guarantees, LeaseRecord, LeaseStore, Next, Operator,
    Release, Released, Renew, Renewal, StoreError,
};
use tenure_core::{BidId, Clock, ElectionName, FencingToken};

use crate::fault;
use crate::gate::ProcessClock;
use crate::network::{Link, unpoisoned};
use crate::server::Server;
use crate::trace::{Outcome, Verb, What, Who};

tokio::task_local! {
    /// Which call of the contract a step belongs to: an adaptor makes several steps of one call.
    static VERB: Verb;
}

/// The contract of a server that decides by itself, over the network.
pub struct NetStore {
    /// The way there.
    pub link: Arc<Link>,
}

/// The bytes of a server, over the network.
pub struct NetVersioned {
    /// The way there.
    pub link: Arc<Link>,
    /// The store over there.
    pub door: Arc<dyn VersionedStore>,
    /// Conditions are not looked at (a wrong store).
    pub unconditional: bool,
}

fn no_leases() -> StoreError {
    StoreError::new(ErrorKind::Invalid, "simulated", "call", "this server keeps bytes, not leases")
}

impl NetStore {
    fn here(&self) -> Arc<dyn LeaseStore> {
        self.link.server().leases().unwrap_or_else(|| unreachable!("only made for servers that decide"))
    }
}

#[async_trait]
impl LeaseStore for NetStore {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        let (call, link) = (Arc::new((election.clone(), bid.clone())), Arc::clone(&self.link));
        let serve = move |server: Server| {
            let (call, link) = (Arc::clone(&call), Arc::clone(&link));
            async move {
                let store = server.leases().ok_or_else(no_leases)?;
                let answer = store.acquire(&call.0, &call.1).await;
                if let Ok(Acquisition::Refused(record)) = &answer
                    && record.last_terms.iter().any(|term| term.bid == call.1.id)
                {
                    link.net.trace.add(link.who, What::Fault(fault::LATE_WRITE));
                }
                answer
            }
        };
        self.link.call(Verb::Acquire, false, serve).await?
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let (call, link) = (Arc::new(renewals.to_vec()), Arc::clone(&self.link));
        let serve = move |server: Server| {
            let (call, link) = (Arc::clone(&call), Arc::clone(&link));
            async move {
                let Some(store) = server.leases() else { return Vec::new() };
                let answers = store.renew(&call).await;
                for (renewal, answer) in call.iter().zip(&answers) {
                    if let Ok(Renewal::Lost(Some(record))) = answer
                        && record.token > renewal.lease.token
                    {
                        link.net.trace.add(link.who, What::Fault(fault::LATE_WRITE));
                    }
                }
                answers
            }
        };
        match self.link.call(Verb::Renew, false, serve).await {
            Ok(answers) => answers,
            Err(error) => renewals.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let (call, link) = (Arc::new(release.clone()), Arc::clone(&self.link));
        let serve = move |server: Server| {
            let (call, link) = (Arc::clone(&call), Arc::clone(&link));
            async move {
                let store = server.leases().ok_or_else(no_leases)?;
                let answer = store.release(&call).await;
                let newer = server.peek(&call.lease.election).is_some_and(|now| now.token > call.lease.token);
                if newer {
                    link.net.trace.add(link.who, What::Fault(fault::LATE_WRITE));
                }
                answer
            }
        };
        self.link.call(Verb::Release, false, serve).await?
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let election = election.clone();
        let serve = move |server: Server| {
            let election = election.clone();
            async move { server.leases().ok_or_else(no_leases)?.read(&election).await }
        };
        self.link.call(Verb::Read, false, serve).await?
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        Some(self.link.watch(self.here().watch(elections)?, || Change::Gap))
    }

    fn guarantees(&self) -> Guarantees {
        self.here().guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}

/// Returns the call of the contract that runs.
pub(crate) fn verb() -> Verb {
    VERB.try_with(|verb| *verb).unwrap_or(Verb::Watch)
}

#[async_trait]
impl VersionedStore for NetVersioned {
    async fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError> {
        let (door, election) = (Arc::clone(&self.door), election.clone());
        let serve = move |_| {
            let (door, election) = (Arc::clone(&door), election.clone());
            async move { door.read(&election).await }
        };
        self.link.call(verb(), false, serve).await?
    }

    async fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError> {
        let (door, election) = (Arc::clone(&self.door), election.clone());
        let serve = move |_| {
            let (door, election, bytes) = (Arc::clone(&door), election.clone(), bytes.clone());
            async move { door.create(&election, bytes).await }
        };
        self.link.call(verb(), true, serve).await?
    }

    async fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        revision: &Revision,
    ) -> Result<Written, StoreError> {
        let (door, election, revision) = (Arc::clone(&self.door), election.clone(), revision.clone());
        let unconditional = self.unconditional;
        let serve = move |_| {
            let (door, election, bytes) = (Arc::clone(&door), election.clone(), bytes.clone());
            let mut revision = revision.clone();
            async move {
                if unconditional && let Some(found) = door.read(&election).await? {
                    revision = found.revision;
                }
                door.replace(&election, bytes, &revision).await
            }
        };
        self.link.call(verb(), true, serve).await?
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        self.door.list(prefix).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<ChangedNames> {
        Some(self.link.watch(self.door.watch(elections)?, || None))
    }

    fn guarantees(&self) -> Guarantees {
        self.door.guarantees()
    }
}

/// Finds the process that has a candidate's name.
pub type Names = Arc<dyn Fn(&str) -> Who + Send + Sync>;

/// Writes down every call of the contract as its process makes it, and every answer as the process hears it.
pub struct Recorder {
    /// What is called.
    pub inner: Arc<dyn LeaseStore>,
    /// Whose calls.
    pub link: Arc<Link>,
    /// The process's clock.
    pub clock: ProcessClock,
    /// How long after a send the process trusts.
    pub trust: Duration,
    /// Who is called what.
    pub names: Names,
    /// The bid that the process is at.
    pub bid: Mutex<Option<BidId>>,
}

impl Recorder {
    fn add(&self, what: What) {
        self.link.net.trace.add(self.link.who, what);
    }

    fn sent(&self, verb: Verb, bid: BidId, attempt: tenure_core::Attempt, token: FencingToken) {
        self.add(What::Sent { verb, bid, attempt, moment: self.clock.now(), token });
    }

    fn answered(&self, verb: Verb, bid: BidId, attempt: tenure_core::Attempt, outcome: Outcome) {
        self.add(What::Answered { verb, bid, attempt, outcome });
    }
}

#[async_trait]
impl LeaseStore for Recorder {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.sent(Verb::Acquire, bid.id, bid.attempt, bid.floor);
        *unpoisoned(&self.bid) = Some(bid.id);
        let sent = self.clock.now();
        let answer = VERB.scope(Verb::Acquire, self.inner.acquire(election, bid)).await;
        let outcome = match &answer {
            Ok(Acquisition::Acquired(lease)) => {
                if lease.attempt != bid.attempt {
                    self.add(What::Fault(fault::FOUND_BY_RETRY));
                }
                if self.clock.now().time_since(sent) >= self.trust {
                    self.add(What::Fault(fault::LATE_WIN));
                }
                Outcome::Yes
            }
            Ok(Acquisition::Refused(record)) => {
                if record.leader().is_some_and(|holder| holder.ttl != bid.ttl) {
                    self.add(What::Fault(fault::OTHER_TTL));
                }
                Outcome::No
            }
            Err(_) => Outcome::Unknown,
        };
        self.answered(Verb::Acquire, bid.id, bid.attempt, outcome);
        answer
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        for renewal in renewals {
            self.sent(Verb::Renew, renewal.lease.bid, renewal.attempt, renewal.lease.token);
        }
        let answers = VERB.scope(Verb::Renew, self.inner.renew(renewals)).await;
        for (renewal, answer) in renewals.iter().zip(&answers) {
            let outcome = match answer {
                Ok(Renewal::Renewed(..)) => Outcome::Yes,
                // A later attempt of ours that overtook this one is in the record: nothing is lost.
                Ok(Renewal::Lost(Some(record))) if record.lease_of(renewal.lease.bid).is_some() => {
                    Outcome::Unknown
                }
                Ok(Renewal::Lost(_)) => Outcome::No,
                Err(_) => Outcome::Unknown,
            };
            if *unpoisoned(&self.bid) != Some(renewal.lease.bid) {
                self.add(What::Fault(fault::STALE_ANSWER));
            }
            self.answered(Verb::Renew, renewal.lease.bid, renewal.attempt, outcome);
        }
        answers
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.sent(Verb::Release, release.lease.bid, release.attempt, release.lease.token);
        if let Next::Successor { candidate, window } = &release.next {
            let (token, successor) = (release.lease.token, (self.names)(candidate.as_str()));
            self.add(What::Reserved { token, successor, window: *window });
        }
        let answer = VERB.scope(Verb::Release, self.inner.release(release)).await;
        let outcome = match answer {
            Ok(Released::Released) => Outcome::Yes,
            Ok(Released::NotHeld) => Outcome::No,
            Err(_) => Outcome::Unknown,
        };
        self.answered(Verb::Release, release.lease.bid, release.attempt, outcome);
        answer
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        VERB.scope(Verb::Read, self.inner.read(election)).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        self.inner.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}
