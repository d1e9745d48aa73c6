//! Watching all nodes: what a majority shows is told, once.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use tenure_core::name::RequestId;
use tenure_core::store::{Change, RecordState};
use tenure_core::{Attempt, BidId, ElectionName, FencingToken};

use super::merge::{Quorum, Shown};
use crate::watch::Watching;

/// The changes of some elections on all nodes.
pub(super) struct WatchingAll {
    quorum: Quorum,
    nodes: Vec<Watching>,
    told: BTreeMap<ElectionName, Told>,
}

/// What was told last.
#[derive(Default)]
struct Told {
    /// What all show together.
    together: Option<Essence>,
    /// What each of them shows, renewals aside: where there is no majority for anything, a change of these is worth a look.
    each: Vec<Option<(RecordState, FencingToken, Option<BidId>)>>,
}

/// What makes a difference to whoever watches.
#[derive(PartialEq, Eq)]
struct Essence {
    state: RecordState,
    token: FencingToken,
    bid: Option<BidId>,
    /// The attempt that a majority has: with it the time left has grown.
    attempt: Option<Attempt>,
    paused_by: Option<String>,
    request: Option<RequestId>,
    answered: Option<RequestId>,
}

impl WatchingAll {
    pub(super) fn new(nodes: Vec<Watching>) -> Self {
        Self { quorum: Quorum { nodes: nodes.len() }, nodes, told: BTreeMap::new() }
    }

    /// Returns what there is to tell of an election after the node `number` has told something.
    fn news(&mut self, number: usize, election: &ElectionName) -> Option<Change> {
        let known: Vec<Option<Change>> = self.nodes.iter().map(|node| node.known(election)).collect();
        let shown: Vec<Shown> = known
            .iter()
            .filter_map(|known| match known {
                Some(Change::Record(record)) => Some(Some((**record).clone())),
                _ => None,
            })
            .collect();
        let each = known.iter().map(|known| match known {
            Some(Change::Record(record)) => {
                let bid = record.leader().map(|holder| holder.bid);
                Some((record.state.clone(), record.token, bid))
            }
            _ => None,
        });
        let each: Vec<_> = each.collect();
        let told = self.told.entry(election.clone()).or_default();
        // A node that rings and shows nothing says that something was missed, also if it showed nothing before: that is how
        // a leader, which needs no view of itself, hears that another bid has its place.
        let missed = matches!(known.get(number), Some(Some(Change::Gap)));
        let changed = std::mem::replace(&mut told.each, each) != told.each || missed;
        if !self.quorum.is_settled(&shown) {
            told.together = None;
            return changed.then_some(Change::Gap);
        }
        let record = self.quorum.together(&shown)?;
        let counted = self.quorum.counted(&shown).and_then(|record| record.holder.as_ref());
        let essence = Essence {
            state: record.state.clone(),
            token: record.token,
            bid: record.leader().map(|holder| holder.bid),
            attempt: counted.map(|holder| holder.attempt),
            paused_by: record.pause.as_ref().map(|pause| pause.by.clone()),
            request: record.request.as_ref().map(|request| request.id),
            answered: record.answer.as_ref().map(|answered| answered.id),
        };
        if told.together.as_ref() == Some(&essence) {
            return None;
        }
        told.together = Some(essence);
        Some(Change::Record(Box::new(record)))
    }

    /// Tells whether too many nodes refuse to tell this user anything.
    fn is_denied(&self, election: &ElectionName) -> bool {
        let denied = self.nodes.iter().filter(|node| node.known(election).is_none()).count();
        denied > self.quorum.minority()
    }
}

impl Stream for WatchingAll {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Change>> {
        for number in 0..self.nodes.len() {
            while let Poll::Ready(election) = self.nodes[number].poll_changed(context) {
                if self.is_denied(&election) {
                    return Poll::Ready(None);
                }
                if let Some(change) = self.news(number, &election) {
                    return Poll::Ready(Some(change));
                }
            }
        }
        Poll::Pending
    }
}
