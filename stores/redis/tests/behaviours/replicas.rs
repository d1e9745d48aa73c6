//! With `min_replicas`, what too few replicas have counts for nothing: no term begins with it, and none lasts longer.

use std::time::Duration;

use futures_util::future::join_all;
use tenure_core::SystemClock;
use tenure_core::clock::ClockExt;
use tenure_core::store::{Acquisition, Bid, ErrorKind, Released, Renewal, StoreError};
use tenure_testkit::proxy::{Fault, Proxy, Requests, Resp};
use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::fixture::keys;
use crate::support::{Candidate, attached, here, name, open, soon};

const TTL: Duration = Duration::from_secs(60);
const OPTIONS: &str = "survives_restart=true&min_replicas=1&call_timeout=2s";

/// A master and its only replica.
struct Pair {
    master: Redis,
    replica: Redis,
}

impl Pair {
    fn start() -> Self {
        let master = here(Redis::start());
        let of = format!("127.0.0.1 {}", master.port());
        let replica = here(Options::default().set("replicaof", &of).start());
        here(attached(&master, std::slice::from_ref(&replica)));
        Self { master, replica }
    }

    fn candidate(&self, id: &str) -> Candidate {
        Candidate::new(open(&self.master.url(), OPTIONS), id, TTL)
    }

    async fn waits(&self) -> u64 {
        let stats = self.master.call(&["INFO", "commandstats"]).await;
        let line = stats.line("cmdstat_wait").unwrap_or_default();
        let calls = line.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
        calls.unwrap_or_default()
    }
}

fn too_few(error: &StoreError) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_too_few_replicas_have_is_given_back() {
    let pair = Pair::start();
    let (first, second) = (pair.candidate("first"), pair.candidate("second"));
    let election = name("too-few");
    pair.replica.freeze().await;
    let bid = first.bid();
    too_few(&first.store.acquire(&election, &bid).await.unwrap_err());
    let lease = pair.master.call(&["GET", &keys(&election).lease]).await;
    assert_eq!(lease, Reply::Null, "it was given back");

    pair.replica.thaw().await;
    // That bid is spent: a late release for it may still be on its way.
    let again = Bid { attempt: first.attempt(), open: vec![bid.attempt], ..bid };
    let answer = first.store.acquire(&election, &again).await.unwrap();
    let Acquisition::Refused(record) = answer else { panic!("{answer:?}") };
    assert!(record.leader().is_none(), "{record:?}");
    let lease = first.win(&election).await;
    assert!(matches!(second.acquire(&election).await, Acquisition::Refused(_)));

    // A release counts no more than a grant does; repeated, it is answered as if it were the first.
    pair.replica.freeze().await;
    let release = first.release_of(&lease);
    too_few(&first.store.release(&release).await.unwrap_err());
    pair.replica.thaw().await;
    assert_eq!(first.store.release(&release).await.unwrap(), Released::Released);
    second.win(&election).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_too_few_replicas_have_is_unknown() {
    let pair = Pair::start();
    let first = pair.candidate("first");
    let (kept, lost) = (name("kept"), name("lost"));
    let (lease, other) = (first.win(&kept).await, first.win(&lost).await);
    pair.replica.freeze().await;
    let renewal = first.renewal(&lease);
    too_few(&first.store.renew(std::slice::from_ref(&renewal)).await.remove(0).unwrap_err());
    // The very same again writes nothing new, and goes over a connection that has written nothing before.
    let elsewhere = pair.candidate("elsewhere");
    too_few(&elsewhere.store.renew(std::slice::from_ref(&renewal)).await.remove(0).unwrap_err());

    // What is lost is lost at once, whatever the others wait for.
    pair.master.call(&["DEL", &keys(&lost).lease]).await;
    let mut again = first.renewal(&lease);
    again.open.push(renewal.attempt);
    let mut answers = first.store.renew(&[again.clone(), first.renewal(&other)]).await;
    let (second, one) = (answers.remove(1).unwrap(), answers.remove(0).unwrap_err());
    too_few(&one);
    assert!(matches!(second, Renewal::Lost(_)), "{second:?}");

    pair.replica.thaw().await;
    let mut last = first.renewal(&lease);
    last.open = vec![renewal.attempt, again.attempt];
    let renewed = first.store.renew(&[last]).await.remove(0).unwrap();
    assert!(matches!(renewed, Renewal::Renewed(..)), "{renewed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_holds_up_nobody_who_only_looks() {
    let pair = Pair::start();
    let first = pair.candidate("first");
    let election = name("looked-at");
    let lease = first.win(&election).await;
    pair.replica.freeze().await;
    let (store, renewal) = (first.store.clone(), first.renewal(&lease));
    let waiting = tokio::spawn(async move { store.renew(&[renewal]).await.remove(0) });
    soon("somebody waits for the replica", async || {
        let clients = pair.master.call(&["INFO", "clients"]).await;
        clients.line("blocked_clients").as_deref() == Some("1")
    })
    .await;
    first.store.read(&election).await.unwrap();
    assert!(!waiting.is_finished(), "it was to wait for longer");
    too_few(&waiting.await.unwrap().unwrap_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_wait_for_the_replicas_together() {
    const ELECTIONS: u64 = 200;
    let pair = Pair::start();
    let first = pair.candidate("first");
    let before = pair.waits().await;
    let elections: Vec<_> = (0..ELECTIONS).map(|i| name(&format!("many-{i}"))).collect();
    let leases = join_all(elections.iter().map(|election| first.win(election))).await;
    let waits = pair.waits().await - before;
    assert!(waits > 0 && waits < ELECTIONS, "{waits} for {ELECTIONS} elections");

    let renewals: Vec<_> = leases.iter().map(|lease| first.renewal(lease)).collect();
    let before = pair.waits().await;
    for answer in first.store.renew(&renewals).await {
        assert!(matches!(answer, Ok(Renewal::Renewed(..))), "{answer:?}");
    }
    assert_eq!(pair.waits().await - before, 1, "one for all that were sent together");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_not_wait_is_told_before_anything_is_written() {
    let server = here(Options::default().user("app", "pw", "~* &* +@all -wait").start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("not-permitted");
    let error = first.store.acquire(&election, &first.bid()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("grant +wait"), "{error}");
    assert_eq!(server.call(&["DBSIZE"]).await, Reply::Integer(0));
}

/// The replicas are asked for, and the answer never comes: whoever shares the question shares that.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_callers_on_a_silent_connection_do_not_wait_one_after_the_other() {
    let pair = Pair::start();
    let proxy = Proxy::start(pair.master.address(), Resp);
    let url = pair.master.url_by(proxy.address());
    let first = Candidate::new(open(&url, OPTIONS), "first", TTL);
    first.win(&name("connected")).await;
    proxy.inject(Fault::HoldBack(Requests::commands(&["WAIT"])));
    let elections: Vec<_> = (0..50).map(|number| name(&format!("silent-{number}"))).collect();
    let bids = elections.iter().map(|election| {
        let (store, bid) = (&first.store, first.bid());
        async move { store.acquire(election, &bid).await }
    });
    let answers = tokio::select! {
        biased;
        answers = join_all(bids) => answers,
        // A call takes two seconds. One after the other they would take a minute.
        () = SystemClock.sleep(Duration::from_secs(10)) => panic!("a call waits for those of the others"),
    };
    for answer in answers {
        let error = answer.unwrap_err();
        assert!(error.is_retryable(), "{error}");
    }
    assert!(proxy.counts().requests_held > 0, "nothing was silent");
}
