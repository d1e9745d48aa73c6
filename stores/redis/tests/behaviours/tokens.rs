//! Tokens are whole numbers of the server's time, also beyond the 14 digits that a script prints by itself.

use std::time::Duration;

use tenure_core::FencingToken;
use tenure_core::store::{Acquisition, Bid, ErrorKind};
use tenure_testkit::servers::redis::Redis;

use crate::support::fixture::keys;
use crate::support::{Candidate, here, name, open};

const TTL: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_microseconds_and_keep_their_last_digit() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), "survives_restart=true"), "first", TTL);
    let election = name("tokens");
    let mut last = 0;
    for _ in 0..50 {
        let before = micros(&server).await;
        let lease = first.win(&election).await;
        assert!(lease.token.0 > last && lease.token.0 > before, "{:?} after {last}, {before}", lease.token);
        last = lease.token.0;
        let kept = server.call(&["HGET", &keys(&election).record, "token"]).await.text().unwrap();
        assert_eq!(kept, last.to_string());
        first.store.release(&first.release_of(&lease)).await.unwrap();
    }
    let record = first.store.read(&election).await.unwrap().unwrap();
    let tokens: Vec<_> = record.last_terms.iter().map(|term| term.token).collect();
    assert!(tokens.len() == 8 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_floor_is_exceeded_by_exactly_one_up_to_the_end_of_the_range() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), "survives_restart=true"), "first", TTL);
    let limit = 1 << 53;
    for floor in [limit - 3, limit - 2, limit - 1, u64::MAX] {
        let election = name(&format!("floor-{floor}"));
        let bid = Bid { floor: FencingToken(floor), ..first.bid() };
        match first.store.acquire(&election, &bid).await {
            Ok(Acquisition::Acquired(lease)) => assert_eq!(lease.token.0, floor + 1),
            Ok(other) => panic!("{other:?}"),
            Err(error) => {
                assert!(floor >= limit - 1, "{error}");
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            }
        }
    }
}

async fn micros(server: &Redis) -> u64 {
    let time = server.call(&["TIME"]).await;
    let part = |i: usize| time.list()[i].text().unwrap().parse::<u64>().unwrap();
    part(0) * 1_000_000 + part(1)
}
