//! Stores that break A16 and A30, which only some stores have.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::store::{ErrorKind, LeaseStore, Renew, Renewal, StoreError};
use tenure_core::{Clock, ElectionName};
use tenure_testkit::Twist;
use tenure_testkit::conformance::{ByHand, Fixture, Property, Refusal, Session};
use tenure_testkit::fault::{Fault, Faulty, Verb};

use crate::broken::Broken;
use crate::fails_only;
use crate::fixtures::{Memory, Records};

/// A memory store that can also be opened with a wrong password.
struct Guarded {
    base: Memory,
    /// The kind of error that it then answers with.
    kind: ErrorKind,
}

impl Guarded {
    async fn answering(kind: ErrorKind) -> Self {
        let base = Memory::fresh(|store, _| Arc::new(store)).await;
        Self { base, kind }
    }
}

#[async_trait]
impl Fixture for Guarded {
    async fn handle(&self) -> Arc<dyn LeaseStore> {
        self.base.handle().await
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.base.clock()
    }

    fn ttl(&self) -> Duration {
        self.base.ttl()
    }

    async fn refusals(&self) -> Vec<Refusal> {
        let guarded = Faulty::new(self.base.handle().await, self.clock());
        guarded.faults().always(Verb::Acquire, Fault::Before(self.kind));
        vec![Refusal {
            what: "a wrong password",
            handle: Arc::new(guarded),
            kind: ErrorKind::Denied,
            hint: "lost",
        }]
    }
}

#[tokio::test(start_paused = true)]
async fn a16_a_wrong_password_looks_like_an_outage() {
    fails_only(&[], || Guarded::answering(ErrorKind::Denied)).await;
    fails_only(&[(Property::A16, "a wrong password")], || Guarded::answering(ErrorKind::Unavailable)).await;
}

/// Records whose handles all stand for one session.
struct OneSession {
    records: Records,
    handle: Arc<dyn LeaseStore>,
}

#[async_trait]
impl Session for OneSession {
    fn handle(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.handle)
    }

    async fn remove(&self, election: &ElectionName) {
        self.records.put(election, None).await;
    }

    async fn elections(&self) -> Vec<ElectionName> {
        let mut held = Vec::new();
        for election in self.handle.operator().unwrap().list("").await.unwrap() {
            let record = self.handle.read(&election).await.unwrap();
            if record.is_some_and(|record| record.leader().is_some()) {
                held.push(election);
            }
        }
        held
    }
}

/// A store with sessions, right but for `twist`.
struct Sessions<T> {
    broken: Broken<Records, T>,
    session: OneSession,
}

impl<T: Twist> Sessions<T> {
    async fn fresh(twist: T) -> Self {
        let broken = Broken::new(Records::fresh().await, twist);
        let records = broken.base.clone();
        let handle = broken.handle().await;
        Self { broken, session: OneSession { records, handle } }
    }
}

#[async_trait]
impl<T: Twist> Fixture for Sessions<T> {
    async fn handle(&self) -> Arc<dyn LeaseStore> {
        self.broken.handle().await
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.broken.clock()
    }

    fn ttl(&self) -> Duration {
        self.broken.ttl()
    }

    fn by_hand(&self) -> Option<&dyn ByHand> {
        self.broken.by_hand()
    }

    fn session(&self) -> Option<&dyn Session> {
        Some(&self.session)
    }
}

/// Believes that a lease lives as long as its session does. Only in this property's elections: a record that was
/// deleted by hand (A9) and one that was removed under a living session are the same to a store whose leases do not
/// really hang on one.
struct SessionIsEnough;

#[async_trait]
impl Twist for SessionIsEnough {
    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        match inner.renew(std::slice::from_ref(renewal)).await.remove(0)? {
            Renewal::Lost(None) if renewal.lease.election.as_str().starts_with("a30-") => {
                Ok(Renewal::Renewed(renewal.lease.clone(), None))
            }
            answer => Ok(answer),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a30_a_session_keeps_a_lease_whose_record_is_gone() {
    fails_only(&[], || Sessions::fresh(crate::Straight)).await;
    fails_only(&[(Property::A30, r#"should have lost "a30-removed""#)], || Sessions::fresh(SessionIsEnough))
        .await;
}
