//! Renewing on a majority, and letting nodes that missed a term have it.

use std::sync::Arc;

use tenure_core::store::{Lease, LeaseRecord, Renew, Renewal, StoreError};
use tokio::sync::Semaphore;

use super::merge::{Quorum, Shown};
use super::nodes::{Asked, Patience, unanswered};
use super::{RedlockStore, Shared};
use crate::store::Among;

/// Leases that are brought to nodes at once; the others' turn comes with their next renewals.
pub(super) const TAKEN_BACK_AT_ONCE: usize = 16;

/// What one node says to all renewals, each in its place.
type Answers = Vec<Result<Renewal, StoreError>>;

impl RedlockStore {
    pub(super) async fn renew_all(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        if renewals.is_empty() {
            return Vec::new();
        }
        let nodes = &self.shared.nodes;
        let quorum = nodes.quorum();
        let call: Arc<(Vec<Renew>, String)> = Arc::new((renewals.to_vec(), nodes.node(0).now_ms()));
        let mut asked: Asked<Answers> = nodes.ask(|node| {
            let call = Arc::clone(&call);
            async move { Ok(node.shared.renew(&call.0, &call.1, Among::Several).await) }
        });
        let decided = |answers: &[Option<Result<Answers, StoreError>>]| {
            let said: Vec<&Answers> = answers.iter().flatten().flatten().collect();
            said.len() >= quorum.majority()
                && (0..renewals.len()).all(|place| {
                    let count = |is: fn(&Renewal) -> bool| {
                        said.iter().filter(|said| said[place].as_ref().is_ok_and(is)).count()
                    };
                    count(is_renewed) >= quorum.majority() || count(is_lost) > quorum.minority()
                })
        };
        asked.wait(&nodes.clock, Patience::Long, decided).await;
        let verdicts = renewals.iter().enumerate().map(|(place, renewal)| {
            let said: Vec<_> = asked.good().map(|(_, said)| &said[place]).collect();
            verdict(quorum, renewal, &said)
        });
        let verdicts: Vec<_> = verdicts.collect();
        bring_back(&self.shared, asked, &verdicts);
        verdicts
    }
}

fn is_renewed(renewal: &Renewal) -> bool {
    matches!(renewal, Renewal::Renewed(..))
}

fn is_lost(renewal: &Renewal) -> bool {
    matches!(renewal, Renewal::Lost(_))
}

/// Says what a majority says.
fn verdict(
    quorum: Quorum,
    renewal: &Renew,
    said: &[&Result<Renewal, StoreError>],
) -> Result<Renewal, StoreError> {
    let (mut renewed, mut request, mut lost) = (Vec::new(), None, Vec::new());
    for answer in said.iter().filter_map(|answer| answer.as_ref().ok()) {
        match answer {
            Renewal::Renewed(lease, asked) => {
                renewed.push(lease);
                // Any two majorities share a node: whoever has the request shows it.
                request = request.or_else(|| asked.clone());
            }
            Renewal::Lost(record) => lost.push(record.as_deref().cloned()),
        }
    }
    if renewed.len() >= quorum.majority()
        && let Some(newest) = renewed.iter().max_by_key(|lease| lease.renew_count)
    {
        return Ok(Renewal::Renewed((*newest).clone(), request));
    }
    if lost.len() > quorum.minority() {
        return Ok(Renewal::Lost(instead(quorum, &renewal.lease, &lost).map(Box::new)));
    }
    let troubles = said.iter().filter_map(|answer| answer.as_ref().err());
    Err(unanswered(quorum.nodes, renewed.len() + lost.len(), "renew", troubles))
}

/// Returns what was found instead of the lease. Of a term that has no majority any more nobody may read that it is held.
fn instead(quorum: Quorum, lease: &Lease, lost: &[Shown]) -> Option<LeaseRecord> {
    let own = lost.iter().flatten().filter(|record| record.lease_of(lease.bid).is_some()).count();
    let record = quorum.together(lost)?;
    (own >= quorum.majority() || record.lease_of(lease.bid).is_none()).then_some(record)
}

/// Brings renewed leases to the nodes that do not have them (any more), in the background: a node that was away, or that has
/// lost its data. Else the term would end with the next node that fails.
fn bring_back(shared: &Arc<Shared>, mut asked: Asked<Answers>, verdicts: &[Result<Renewal, StoreError>]) {
    let leases: Vec<Option<Lease>> = verdicts
        .iter()
        .map(|verdict| match verdict {
            Ok(Renewal::Renewed(lease, _)) => Some(lease.clone()),
            _ => None,
        })
        .collect();
    if leases.iter().all(Option::is_none) {
        return;
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        while let Some((node, answer)) = asked.next().await {
            asked.answers[node] = Some(answer);
        }
        for (place, lease) in leases.iter().enumerate() {
            let Some(lease) = lease else { continue };
            let missing = |(_, said): &(usize, &Answers)| matches!(&said[place], Ok(Renewal::Lost(record)) if lacks(record.as_deref(), lease));
            let Some(source) = asked
                .good()
                .find(|(_, said)| matches!(&said[place], Ok(Renewal::Renewed(..))))
                .map(|(node, _)| node)
            else {
                continue;
            };
            for (node, _) in asked.good().filter(missing) {
                take_back(&shared, lease, source, node);
            }
        }
    });
}

/// Tells whether a node has not got the term. One that is merely behind takes the next renewal by itself.
fn lacks(record: Option<&LeaseRecord>, lease: &Lease) -> bool {
    record.is_none_or(|record| record.lease_of(lease.bid).is_none() && record.token <= lease.token)
}

fn take_back(shared: &Arc<Shared>, lease: &Lease, source: usize, node: usize) {
    let Ok(permit) = Arc::clone(&shared.taken_back).try_acquire_owned() else { return };
    let (source, node) = (Arc::clone(shared.nodes.node(source)), Arc::clone(shared.nodes.node(node)));
    let lease = lease.clone();
    tokio::spawn(async move {
        let _permit = permit;
        let taken = async {
            let look = source.look("renew", &lease.election, false, source.config.call_timeout).await?;
            let same = look.record.as_ref().and_then(|record| record.lease_of(lease.bid));
            match look.view {
                Some(view) if same.is_some_and(|same| same.token == lease.token) => {
                    node.take_back(&lease.election, &view).await.map(Some)
                }
                _ => Ok(None),
            }
        };
        match taken.await {
            Ok(answer) => {
                let taken = answer.is_some_and(|answer| answer.name() == "done");
                tracing::debug!(election = %lease.election, taken, "a node had missed a term");
            }
            Err(error) => tracing::debug!(election = %lease.election, %error, "a node still misses a term"),
        }
    });
}

pub(super) fn permits() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(TAKEN_BACK_AT_ONCE))
}
