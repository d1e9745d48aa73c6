//! A15: in an outage each call ends in time with an error that says "unknown"; afterwards the same handle works again.

use std::fmt::Debug;
use std::sync::Arc;

use tenure_core::store::{ErrorKind, StoreError};

use super::Trouble;
use super::cx::{Candidate, Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    let network = cx.network().await;
    let first = cx.candidate_over("first", network.handle());
    let election = cx.election("outage");
    let limit = network.call_limit() + cx.slack();

    for trouble in [Trouble::Cut, Trouble::Hung] {
        let lease = first.win(&election).await;
        network.set(trouble).await;
        let met = network.troubled();
        let what = |verb: &str| format!("{verb} while {trouble:?}");
        let bid = first.bid();
        let call = first.store.acquire(&election, &bid);
        unknown(&what("acquire"), cx.within(limit, &what("acquire"), call).await);
        let renewal = first.renewal(&lease);
        let call = first.try_renew(&renewal);
        unknown(&what("renew"), cx.within(limit, &what("renew"), call).await);
        let release = first.release_of(&lease);
        let call = first.store.release(&release);
        unknown(&what("release"), cx.within(limit, &what("release"), call).await);
        let call = first.store.read(&election);
        unknown(&what("read"), cx.within(limit, &what("read"), call).await);
        assert!(network.troubled() > met, "no call met the trouble {trouble:?}");

        // Long enough that every lease, session and idle connection has ended.
        cx.sleep(cx.ttl() * 5).await;
        network.set(Trouble::None).await;
        works(&cx, &first).await;
        let (lease, _) = first.campaign(&election, first.longest()).await;
        first.release(&lease).await;
    }

    if cx.fixture.network().is_none() {
        cx.leave_out("the store's own time limits: no network lies before it");
    }
    match cx.fixture.restart() {
        Some(restart) if restart.keeping_data().await || restart.losing_data().await => {
            works(&cx, &first).await;
        }
        _ => cx.leave_out("restart: the fixture cannot restart the store"),
    }
    Ok(())
}

/// Goes through a whole term. The first call may still meet the old connection.
async fn works(cx: &Arc<Cx>, first: &Candidate) {
    let election = cx.election("after");
    let begun = cx.now();
    while let Err(error) = first.store.read(&election).await {
        let waited = cx.now().saturating_sub(begun);
        assert!(waited < cx.ttl(), "the handle does not work again: {error}");
        cx.sleep(cx.ttl() / 10).await;
    }
    let lease = first.win(&election).await;
    let lease = first.renew(&lease).await;
    first.release(&lease).await;
}

fn unknown<T: Debug>(what: &str, answer: Result<T, StoreError>) {
    match answer {
        Ok(answer) => panic!("{what} was answered with {answer:?}"),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{what}: {error}");
        }
    }
}
