//! Other software that uses the same key excludes us, and we exclude it.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::store::{Acquisition, Change, ErrorKind, LeaseStore, RecordState, Released, Renewal};
use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::fixture::keys;
use crate::support::{Candidate, here, name, open, soon};

const TTL: Duration = Duration::from_secs(60);
const OPTIONS: &str = "survives_restart=true";

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_holder_shows_as_such_with_its_value_and_time_left() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("foreign");
    let lease = keys(&election).lease;
    server.call(&["SET", &lease, "worker-7\n", "NX", "PX", "5000"]).await;

    let Acquisition::Refused(record) = first.acquire(&election).await else { panic!("it was held") };
    let read = first.store.read(&election).await.unwrap().unwrap();
    for record in [*record, read] {
        assert_eq!(record.state, RecordState::Held);
        let holder = record.leader().unwrap();
        assert_eq!(holder.candidate.as_str(), "worker-7\u{fffd}");
        assert_eq!(holder.metadata["foreign"], "worker-7\n");
        let left = record.time_left.unwrap();
        assert!(left <= Duration::from_secs(5) && left > Duration::from_secs(1), "{left:?}");
        assert_eq!(record.opens_in, record.time_left);
    }

    // Without an end it is held until somebody removes it.
    server.call(&["PERSIST", &lease]).await;
    let record = first.store.read(&election).await.unwrap().unwrap();
    assert_eq!((record.state, record.time_left, record.opens_in), (RecordState::Held, None, None));
    server.call(&["DEL", &lease]).await;
    let lease = first.win(&election).await;
    assert_eq!(lease.previous, None, "somebody else has led");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_taken_by_hand_is_lost_and_what_stands_there_is_kept() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("taken");
    let key = keys(&election).lease;

    let lease = first.win(&election).await;
    assert_eq!(server.call(&["SET", &key, "x", "NX", "PX", "60000"]).await, Reply::Null, "we exclude them");
    let value = server.call(&["GET", &key]).await.text().unwrap();
    assert_eq!(value, format!("first:{}", lease.bid));

    server.call(&["SET", &key, "by hand", "PX", "60000"]).await;
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap();
    let Renewal::Lost(Some(record)) = renewed else { panic!("{renewed:?}") };
    assert_eq!(record.leader().unwrap().candidate.as_str(), "by hand");
    assert_eq!(first.store.release(&first.release_of(&lease)).await.unwrap(), Released::NotHeld);
    assert_eq!(server.call(&["GET", &key]).await.text().unwrap(), "by hand");

    // The same bid again is not answered from what is kept beside the key.
    let bid = first.bid();
    server.call(&["DEL", &key]).await;
    first.store.acquire(&election, &bid).await.unwrap();
    server.call(&["SET", &key, "by hand", "PX", "60000"]).await;
    let again = first.store.acquire(&election, &bid).await.unwrap();
    assert!(matches!(again, Acquisition::Refused(_)), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_string_is_corrupt_and_lost() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("wrong-type");
    let key = keys(&election).lease;
    let lease = first.win(&election).await;
    server.call(&["DEL", &key]).await;
    server.call(&["RPUSH", &key, "job"]).await;

    for error in [
        first.store.acquire(&election, &first.bid()).await.unwrap_err(),
        first.store.read(&election).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("\"wrong-type\""), "{error}");
    }
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap();
    assert!(matches!(renewed, Renewal::Lost(None)), "{renewed:?}");
    assert_eq!(first.store.release(&first.release_of(&lease)).await.unwrap(), Released::NotHeld);
    assert_eq!(server.call(&["LLEN", &key]).await, Reply::Integer(1), "it is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_tells_of_keys_wakes_whoever_waits_for_foreign_software() {
    let server = here(Options::default().set("notify-keyspace-events", "Kg").start());
    let store = open(&server.url(), OPTIONS);
    let first = Candidate::new(store.clone(), "first", TTL);
    let election = name("notified");
    let key = keys(&election).lease;
    server.call(&["SET", &key, "other", "NX", "PX", "60000"]).await;
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    // Two channels: ours, and that of the key. It bids as often as a follower that is told to look.
    soon("two channels", async || {
        first.acquire(&election).await;
        let channels = server.call(&["PUBSUB", "CHANNELS"]).await;
        channels.list().len() == 2
    })
    .await;
    // What was said while the watch began to stand.
    first.acquire(&election).await;
    server.call(&["DEL", &key]).await;
    loop {
        let change = changes.next().await.unwrap();
        if change == Change::Gap
            && first.store.read(&election).await.unwrap().unwrap().state == RecordState::Free
        {
            return;
        }
    }
}
