//! What every test here needs.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::embedded::FileStore;
use tenure_core::store::{
    Acquisition, Bid, Lease, LeaseStore, Next, Origin, Release, Released, Renew, Renewal, StoreError,
};
use tenure_core::{
    Attempt, BidId, CandidateId, Clock, ElectionName, FencingToken, Moment, Random, SystemClock,
};

pub(crate) fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

pub(crate) fn now() -> Moment {
    SystemClock.now()
}

pub(crate) fn bid(ttl: Duration) -> Bid {
    let random = Random::from_os();
    Bid {
        id: BidId::new(&random),
        attempt: Attempt::new(&random),
        open: Vec::new(),
        candidate: CandidateId::of_this_process(&random),
        identity: None,
        origin: Origin::default(),
        ttl,
        metadata: BTreeMap::new(),
        floor: FencingToken::ZERO,
        supersedes: None,
    }
}

pub(crate) async fn try_lead(
    store: &FileStore,
    election: &ElectionName,
    ttl: Duration,
) -> Result<Option<Lease>, StoreError> {
    Ok(match store.acquire(election, &bid(ttl)).await? {
        Acquisition::Acquired(lease) => Some(lease),
        Acquisition::Refused(_) => None,
    })
}

/// Bids until the election is won, waiting for its opening in between.
pub(crate) async fn lead(store: &FileStore, election: &ElectionName, ttl: Duration) -> Lease {
    loop {
        let opens_in = match store.acquire(election, &bid(ttl)).await.unwrap() {
            Acquisition::Acquired(lease) => return lease,
            Acquisition::Refused(record) => record.opens_in.unwrap(),
        };
        SystemClock.sleep_until(now().plus(opens_in)).await;
    }
}

pub(crate) async fn renew(store: &FileStore, lease: &Lease) -> Result<Renewal, StoreError> {
    let renewal = Renew {
        lease: lease.clone(),
        attempt: Attempt::new(&Random::from_os()),
        open: Vec::new(),
        answer: None,
    };
    store.renew(&[renewal]).await.remove(0)
}

pub(crate) async fn release(store: &FileStore, lease: &Lease) -> Result<Released, StoreError> {
    let release = Release {
        lease: lease.clone(),
        attempt: Attempt::new(&Random::from_os()),
        open: Vec::new(),
        next: Next::Anybody,
        succeeded: false,
        answer: None,
    };
    store.release(&release).await
}

/// Waits for something that must come soon, so that its failure is told and not waited for.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        answer = future => answer,
        () = SystemClock.sleep_until(now().plus(Duration::from_secs(60))) => panic!("{what} did not happen"),
    }
}

/// The middle of some measurements.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
