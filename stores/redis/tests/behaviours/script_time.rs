//! While the script runs, the server does nothing else.

use std::time::Duration;

use tenure_core::ElectionName;
use tenure_core::store::{Acquisition, Bid};
use tenure_testkit::servers::redis::Redis;

use crate::support::{Candidate, here, name, open};

const TTL: Duration = Duration::from_secs(60);
const SAMPLES: usize = 30;

/// The least time, µs of the server, that a call of the script took which finds its own lease and names the term before.
async fn least_time(server: &Redis, candidate: &Candidate, election: &ElectionName, bid: &Bid) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..SAMPLES {
        server.call(&["CONFIG", "RESETSTAT"]).await;
        let again = candidate.store.acquire(election, bid).await.unwrap();
        let Acquisition::Acquired(lease) = again else { panic!("{again:?}") };
        assert!(lease.previous.is_some());
        let stats = server.call(&["INFO", "commandstats"]).await;
        let line = stats.line("cmdstat_evalsha").unwrap();
        let usec = line.split(',').find_map(|part| part.strip_prefix("usec=")).unwrap();
        least = least.min(usec.parse().unwrap());
    }
    least
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_terms_with_long_names_cost_little_more_than_one() {
    let server = here(Redis::start());
    let long = "n".repeat(200);
    let candidate = Candidate::new(open(&server.url(), "survives_restart=true"), &long, TTL);
    let election = name("terms");
    let mut times = Vec::new();
    for terms in 1..=8 {
        let lease = candidate.win(&election).await;
        candidate.store.release(&candidate.release_of(&lease)).await.unwrap();
        if terms == 1 || terms == 8 {
            let bid = candidate.bid();
            candidate.store.acquire(&election, &bid).await.unwrap();
            times.push(least_time(&server, &candidate, &election, &bid).await);
            let record = candidate.store.read(&election).await.unwrap().unwrap();
            let lease = record.lease_of(bid.id).unwrap();
            candidate.store.release(&candidate.release_of(&lease)).await.unwrap();
        }
    }
    // What looks at every letter of a term for each of its letters takes a hundred times as long.
    assert!(times[1] < 10 * times[0].max(1), "one term and eight: {times:?} µs");
}
