//! A minority of nodes that accept everything and never answer.

use std::time::Duration;

use tenure_core::SystemClock;
use tenure_core::clock::ClockExt;
use tenure_core::store::{Acquisition, Operator, Pause, Released, Renewal};
use tenure_testkit::proxy::Fault;

use crate::behind_proxies;
use crate::support::independent::open_nodes;
use crate::support::{Candidate, name};

#[tokio::test(flavor = "multi_thread")]
async fn a_black_holed_minority_costs_no_time() {
    let (_nodes, proxies) = behind_proxies(5);
    // Whoever waits for a silent node waits for a minute.
    let store = open_nodes(&proxies.addresses(), "survives_restart=true&call_timeout=60s");
    let first = Candidate::new(store.clone(), "first", Duration::from_secs(600));
    let second = Candidate::new(store.clone(), "second", Duration::from_secs(600));
    let election = name("silent");
    let lease = first.win(&election).await;
    first.store.release(&first.release_of(&lease)).await.unwrap();
    for proxy in &proxies.all()[..2] {
        proxy.inject(Fault::BlackHole);
    }
    let calls = async {
        for _ in 0..3 {
            let lease = first.win(&election).await;
            assert!(matches!(second.acquire(&election).await, Acquisition::Refused(_)));
            let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap();
            let Renewal::Renewed(lease, _) = renewed else { panic!("{renewed:?}") };
            assert!(first.store.read(&election).await.unwrap().unwrap().leader().is_some());
            let pause = Pause { by: "kim".into(), ends_in: Duration::from_secs(60) };
            store.pause(&election, first.attempt(), pause).await.unwrap();
            store.resume(&election, first.attempt()).await.unwrap();
            let released = first.store.release(&first.release_of(&lease)).await.unwrap();
            assert_eq!(released, Released::Released);
        }
    };
    tokio::select! {
        biased;
        () = calls => {}
        () = SystemClock.sleep(Duration::from_secs(40)) => panic!("a call waited for a silent node"),
    }
    assert!(proxies.counts().troubled() > 0, "nobody was silent");
}
