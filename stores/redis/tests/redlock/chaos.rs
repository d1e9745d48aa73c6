//! Candidates and nodes that come and go: at most one leads at a time, and tokens rise.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::clock::ClockExt;
use tenure_core::store::{Acquisition, Renewal};
use tenure_core::{Clock, FencingToken, Random, SystemClock};
use tenure_testkit::proxy::Fault;

use crate::behind_proxies;
use crate::support::independent::open_nodes;
use crate::support::{Candidate, name};

const TTL: Duration = Duration::from_millis(800);
const OPTIONS: &str = "survives_restart=true&call_timeout=150ms";

/// So many terms are looked at.
const TERMS: usize = 20;

/// What a leader may trust: the ttl from the send, less what clocks may differ by.
const TRUST: Duration = Duration::from_millis(720);

/// A time in which somebody led.
struct Reign {
    token: FencingToken,
    from: Duration,
    to: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_leads_beside_anybody_while_two_of_five_nodes_come_and_go() {
    let (_nodes, proxies) = behind_proxies(5);
    let reigns = Arc::new(Mutex::new(Vec::new()));
    let until = SystemClock.now().plus(Duration::from_secs(60));
    let mut tasks = Vec::new();
    for number in 0..4 {
        let store = open_nodes(&proxies.addresses(), OPTIONS);
        let candidate = Candidate::new(store, &format!("candidate-{number}"), TTL);
        tasks.push(tokio::spawn(lead(candidate, Arc::clone(&reigns), Random::from_seed(number))));
    }
    let random = Random::from_seed(9);
    while reigns.lock().unwrap().len() < TERMS {
        assert!(!until.has_passed(SystemClock.now()), "hardly anybody is ever elected");
        for proxy in proxies.all() {
            proxy.clear().await;
        }
        let (first, step) = (random.below(5), 1 + random.below(4));
        for (place, number) in [first, (first + step) % 5].into_iter().enumerate() {
            let proxy = &proxies.all()[usize::try_from(number).unwrap()];
            if place == 0 {
                proxy.turn_away().await;
            } else {
                proxy.inject(Fault::BlackHole);
            }
        }
        SystemClock.sleep(Duration::from_millis(100) + random.up_to(Duration::from_millis(300))).await;
    }
    proxies.clear().await;
    for task in tasks {
        task.await.unwrap();
    }
    let mut reigns = reigns.lock().unwrap();
    reigns.sort_by_key(|reign| reign.from);
    for pair in reigns.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        assert!(
            before.to <= after.from,
            "{:?} led until {:?}, {:?} from {:?}",
            before.token,
            before.to,
            after.token,
            after.from
        );
        assert!(before.token < after.token, "{:?} follows {:?}", after.token, before.token);
    }
}

/// Leads now and then: sometimes it renews, sometimes it gives the lease back, sometimes it lets it run out.
async fn lead(candidate: Candidate, reigns: Arc<Mutex<Vec<Reign>>>, random: Random) {
    let election = name("chaos");
    let mut bid = candidate.bid();
    // The send of the bid's first attempt: whichever was applied, it was not sent before.
    let mut first_send = SystemClock.now();
    while reigns.lock().unwrap().len() < TERMS {
        match candidate.store.acquire(&election, &bid).await {
            Err(_) => {
                bid.open.push(bid.attempt);
                bid.attempt = candidate.attempt();
                SystemClock.sleep(random.up_to(Duration::from_millis(50))).await;
                continue;
            }
            Ok(Acquisition::Refused(_)) => {}
            Ok(Acquisition::Acquired(mut lease)) => {
                let from = SystemClock.now().boot();
                let mut trusted = first_send.plus(TRUST);
                while random.below(3) > 0 && !trusted.has_passed(SystemClock.now()) {
                    SystemClock.sleep(random.up_to(TTL / 4)).await;
                    let sent = SystemClock.now();
                    match candidate.store.renew(&[candidate.renewal(&lease)]).await.remove(0) {
                        Ok(Renewal::Renewed(renewed, _)) if !trusted.has_passed(SystemClock.now()) => {
                            (lease, trusted) = (renewed, sent.plus(TRUST));
                        }
                        _ => break,
                    }
                }
                let to = trusted.boot().min(SystemClock.now().boot());
                if to > from {
                    reigns.lock().unwrap().push(Reign { token: lease.token, from, to });
                }
                if random.below(3) > 0 {
                    drop(candidate.store.release(&candidate.release_of(&lease)).await);
                }
            }
        }
        SystemClock.sleep(random.up_to(Duration::from_millis(50))).await;
        bid = candidate.bid();
        first_send = SystemClock.now();
    }
}
