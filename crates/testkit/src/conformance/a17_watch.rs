//! A17: a watch reports releases and new holders sooner than a follower would look, also after a reconnect.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::ElectionName;
use tenure_core::store::{Change, Changes, LeaseRecord, RecordState, Wake};

use super::Trouble;
use super::cx::{Candidate, Checked, Cx};

/// A follower that watches.
struct Watcher {
    cx: Arc<Cx>,
    follower: Candidate,
    election: ElectionName,
    changes: Changes,
    /// A follower of such leases looks this often if nothing wakes it; a watch that is slower is of no use.
    limit: Duration,
}

impl Watcher {
    /// Returns the next change, if one comes soon.
    async fn next(&mut self) -> Option<Change> {
        tokio::select! {
            biased;
            change = self.changes.next() => {
                assert!(change.is_some(), "the watch ended");
                change
            }
            () = self.cx.sleep(self.cx.ttl() / 6) => None,
        }
    }

    async fn sees(&mut self, what: &str, fact: impl Fn(&LeaseRecord) -> bool + Sync) {
        let cx = Arc::clone(&self.cx);
        let changes = async {
            loop {
                match self.changes.next().await {
                    None => panic!("{what}: the watch ended"),
                    Some(Change::Record(record)) if fact(&record) => return,
                    Some(Change::Record(_)) => {}
                    // Something may have been missed: whoever watches looks for himself.
                    Some(Change::Gap) => {
                        if fact(&self.follower.record(&self.election).await) {
                            return;
                        }
                    }
                }
            }
        };
        cx.within(self.limit, what, changes).await;
    }
}

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let network = cx.network().await;
    let follower = cx.candidate_over("follower", network.handle());
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let (election, other) = (cx.election("watched"), cx.election("beside"));
    let Some(changes) = follower.store.watch(&[election.clone(), other.clone()]) else {
        let wake = follower.store.guarantees().wake;
        assert!(wake != Wake::Push, "the store says that it wakes followers, but has no watch");
        return Err("the store wakes nobody: followers look");
    };
    let mut watcher = Watcher {
        cx: Arc::clone(&cx),
        follower,
        election: election.clone(),
        changes,
        limit: cx.lasting() / 6,
    };
    warm_up(&mut watcher, &first).await;

    let lease = first.win_lasting(&election).await;
    let token = lease.token;
    watcher.sees("a new holder", |record| record.token == token && record.leader().is_some()).await;
    first.release(&lease).await;
    watcher.sees("a release", |record| record.token == token && record.state == RecordState::Free).await;
    let lease = second.win_lasting(&election).await;
    let token = lease.token;
    watcher
        .sees("another holder", |record| {
            record.token == token && record.leader().is_some_and(|holder| holder.candidate == second.id)
        })
        .await;

    // Cut off, it may hear of a gap or of nothing; connected again, it hears what has changed.
    let met = network.troubled();
    network.set(Trouble::Cut).await;
    second.release(&lease).await;
    watcher.next().await;
    network.set(Trouble::None).await;
    let lease = first.win_lasting(&election).await;
    let token = lease.token;
    watcher.sees("a new holder after a reconnect", |record| record.token == token).await;
    assert!(network.troubled() > met, "the watch was not cut");
    Ok(())
}

/// Makes changes until the first one is reported: a watch over a connection may take a moment to stand.
async fn warm_up(watcher: &mut Watcher, first: &Candidate) {
    let other = watcher.cx.election("beside");
    for _ in 0..20 {
        let lease = first.win_lasting(&other).await;
        first.release(&lease).await;
        if watcher.next().await.is_some() {
            return;
        }
    }
    panic!("the watch reported nothing of twenty terms");
}
