//! A27: a participant that is frozen anywhere, also inside a call, stops nobody else.

use std::sync::Arc;

use super::cx::{Candidate, Checked, Cx};
use super::stepwise::{MOST_STEPS, Step, about_to, walk};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    // A call that is never polled again is what a frozen task looks like to all the others.
    let mut frozen = Vec::new();
    let mut elections = Vec::new();
    for step in Step::ALL {
        for polls in 0..MOST_STEPS {
            let election = cx.election(&format!("{step:?}-{polls}"));
            let stopped = cx.candidate("frozen").await;
            let (_, mut call) = about_to(step, &stopped, &election).await;
            elections.push(election);
            if walk(&cx, &mut call, polls).await {
                break;
            }
            frozen.push(call);
            let other = cx.candidate("other").await;
            goes_on(&cx, &other).await;
        }
    }
    // What the frozen ones hold ends like every lease that nobody renews, all of them at about the same time.
    let other = cx.candidate("other").await;
    for election in &elections {
        cx.within(other.longest() * 2, "a frozen holder's election", async {
            let (lease, _) = other.campaign(election, other.longest()).await;
            other.release(&lease).await;
        })
        .await;
    }
    assert!(frozen.len() >= Step::ALL.len(), "nobody was frozen");
    drop(frozen);

    let Some(freezer) = cx.fixture.freezer() else {
        cx.leave_out("another process stopped (SIGSTOP): the fixture starts none");
        return Ok(());
    };
    for i in 0..8 {
        let election = cx.election(&format!("stopped-{i}"));
        freezer.freeze(&election, cx.random.up_to(cx.ttl() / 2)).await;
        goes_on(&cx, &other).await;
        let (lease, _) = other.campaign(&election, other.longest()).await;
        other.release(&lease).await;
        freezer.end().await;
    }
    Ok(())
}

/// Goes through a term of another election, without being held up.
async fn goes_on(cx: &Cx, other: &Candidate) {
    let election = cx.election("others");
    cx.within(cx.ttl(), "a term beside a frozen participant", async {
        let lease = other.win(&election).await;
        let lease = other.renew(&lease).await;
        other.record(&election).await;
        other.release(&lease).await;
    })
    .await;
}
