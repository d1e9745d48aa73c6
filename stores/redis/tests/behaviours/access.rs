//! The access rule in the documents is enough, and no part of it can be left out.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::Attempt;
use tenure_core::Random;
use tenure_core::store::{ErrorKind, LeaseStore, Pause, Released};
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::fixture::keys;
use crate::support::{Candidate, documented_access as documented, here, name, open};

async fn everything(server: &Redis) -> Result<(), String> {
    let store = open(&server.url(), "survives_restart=true");
    let first = Candidate::new(store.clone(), "first", Duration::from_secs(60));
    let election = name("permitted");
    let told = |error: tenure_core::store::StoreError| {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        error.to_string()
    };
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    let acquired = first.store.acquire(&election, &first.bid()).await.map_err(told)?;
    let tenure_core::store::Acquisition::Acquired(lease) = acquired else { panic!("{acquired:?}") };
    first.store.renew(&[first.renewal(&lease)]).await.remove(0).map_err(told)?;
    first.store.read(&election).await.map_err(told)?;
    first.store.acquire(&election, &first.bid()).await.map_err(told)?;
    let operator = first.store.operator().unwrap();
    operator.list("").await.map_err(told)?;
    let pause = Pause { by: "kim".to_owned(), ends_in: Duration::from_secs(1) };
    operator.pause(&election, Attempt::new(&Random::from_os()), pause).await.map_err(told)?;
    operator.resume(&election, Attempt::new(&Random::from_os())).await.map_err(told)?;
    operator.candidates(&election).await.map_err(told)?;
    if changes.next().await.is_none() {
        return Err("the watch has ended: grant +subscribe".to_owned());
    }
    let lease = first.store.read(&election).await.unwrap().unwrap().lease_of(lease.bid).unwrap();
    first.store.release(&first.release_of(&lease)).await.map_err(told)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_rule_is_enough() {
    let server = here(Options::default().user("app", "secret", &documented()).start());
    everything(&server).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_missing_is_named() {
    let rule = documented();
    let commands: Vec<_> = rule.split(' ').filter_map(|word| word.strip_prefix('+')).collect();
    assert!(commands.len() > 15, "{commands:?}");
    let mut wrong = Vec::new();
    for missing in commands {
        // Not in this test: other databases, signs of life, giving up what is not watched any more, and taking turns.
        if matches!(missing, "ping" | "select" | "unsubscribe" | "pubsub|numsub") {
            continue;
        }
        let without: Vec<_> =
            rule.split(' ').filter(|word| word.strip_prefix('+') != Some(missing)).collect();
        let server = here(Options::default().user("app", "secret", &without.join(" ")).start());
        match everything(&server).await {
            Ok(()) => wrong.push(format!("{missing} is not needed")),
            Err(error) if error.contains(&format!("grant +{missing}")) => {}
            Err(error) => wrong.push(format!("without {missing}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_is_denied_has_changed_nothing() {
    let server = here(Options::default().user("app", "secret", &documented()).start());
    let first =
        Candidate::new(open(&server.url(), "survives_restart=true"), "first", Duration::from_secs(60));
    for command in ["del", "hset", "hdel"] {
        let election = name(command);
        let lease = first.win(&election).await;
        let keys = keys(&election);
        let state = async || {
            let lease = server.call(&["GET", &keys.lease]).await;
            let mut record: Vec<_> = server
                .call(&["HGETALL", &keys.record])
                .await
                .list()
                .chunks(2)
                .map(|pair| format!("{pair:?}"))
                .collect();
            record.sort_unstable();
            (lease, record)
        };
        let before = state().await;
        server.call(&["ACL", "SETUSER", "app", &format!("-{command}")]).await;
        let error = first.store.release(&first.release_of(&lease)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(&format!("grant +{command}")), "{error}");
        assert_eq!(state().await, before, "without {command}");
        server.call(&["ACL", "SETUSER", "app", &format!("+{command}")]).await;
        assert_eq!(first.store.release(&first.release_of(&lease)).await.unwrap(), Released::Released);
    }
}
