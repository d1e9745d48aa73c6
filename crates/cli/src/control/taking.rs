//! An election that an operator takes and gives back at once: its token rises, and whoever held it is out.
//!
//! No store needs a verb of its own for it. A bid that supersedes the holder's is granted by every store, and a release
//! keeps the token; should the release not arrive, the lease ends by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure::store::{Acquisition, Bid, LeaseRecord, Next, Origin, Release};
use tenure::{BidId, CandidateId, ElectionName, FencingToken};

use super::Control;
use crate::reading::Failure;
use crate::{duration, talk};

/// How long the operator's lease lasts if its release does not arrive: enough for a few tries.
const TTL: Duration = Duration::from_secs(5);

/// What came of it.
pub(crate) enum Taken {
    /// The election is free, and this is its highest token.
    Free(FencingToken),
    /// It was not to be had; the record says why.
    Refused(Box<LeaseRecord>),
}

/// Takes an election and gives it back.
pub(crate) async fn take(
    control: &Control,
    election: &ElectionName,
    floor: FencingToken,
    supersedes: Option<BidId>,
) -> Result<Taken, Failure> {
    let store = &control.reader.store;
    let mut bid = Bid {
        id: BidId::new(&control.random),
        attempt: control.attempt(),
        open: Vec::new(),
        candidate: CandidateId::of_this_process(&control.random),
        identity: None,
        origin: Origin::default(),
        ttl: TTL.max(store.guarantees().min_ttl),
        metadata: BTreeMap::from([("operator".into(), control.by.clone())]),
        floor,
        supersedes,
    };
    let acquire = || {
        let this = bid.clone();
        // Whatever is sent next must tell that this one may not have been answered.
        bid.open.push(std::mem::replace(&mut bid.attempt, control.attempt()));
        async move { store.acquire(election, &this).await }
    };
    let lease = match control.call("acquire", acquire).await? {
        Acquisition::Acquired(lease) => lease,
        Acquisition::Refused(record) => return Ok(Taken::Refused(record)),
    };
    let token = lease.token;
    let attempt = control.attempt();
    let release =
        Release { lease, attempt, open: Vec::new(), next: Next::Anybody, succeeded: false, answer: None };
    // Not held any more is as good: then somebody else has it, or it has run out.
    if let Err(error) = control.call("release", || store.release(&release)).await {
        talk::say(&format!(
            "the election is taken, and free in {} by itself",
            duration::show(release.lease.ttl)
        ));
        return Err(error.into());
    }
    Ok(Taken::Free(token))
}
