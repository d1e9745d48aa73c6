//! Behind sentinels: the master that serves now is found and followed, and what a failover may lose is not led twice.

use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::clock::ClockExt;
use tenure_core::store::{
    Acquisition, Change, ErrorKind, Lease, LeaseStore, RecordState, Renew, Renewal, StoreError,
};
use tenure_core::{Attempt, Clock, ElectionName, SystemClock};
use tenure_redis::{RedisConfig, RedisFence, RedisFenceError};
use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{Options, Redis, SentinelOptions, Sentinels};

use crate::support::fixture::keys;
use crate::support::sentinels::url;
use crate::support::{Candidate, attached, here, name, open, soon};

const TTL: Duration = Duration::from_secs(60);

fn start(down_after_ms: u64) -> Sentinels {
    let down_after = Duration::from_millis(down_after_ms);
    here(SentinelOptions { down_after, ..SentinelOptions::default() }.start())
}

/// Servers that nobody takes for dead while their test runs.
fn patient() -> Sentinels {
    start(30_000)
}

fn candidate(sentinels: &Sentinels, options: &str, id: &str, ttl: Duration) -> Candidate {
    let options = format!("survives_restart=true&call_timeout=1s{options}");
    Candidate::new(open(&url(sentinels), &options), id, ttl)
}

/// Tells whether a server is a replica by now. Whoever asks may be cut off: sentinels close all connections of a master that
/// they make a replica.
async fn is_replica(server: &Redis) -> bool {
    let role = server.try_call(&["ROLE"]).await;
    role.is_ok_and(|role| role.list()[0].text().as_deref() == Some("slave"))
}

/// Counts the connections of this process.
async fn connections(server: &Redis) -> Option<usize> {
    let list = server.try_call(&["CLIENT", "LIST"]).await.ok()?.text().unwrap();
    let ours = format!("name=tenure-{} ", std::process::id());
    Some(list.lines().filter(|line| line.contains(&ours)).count())
}

/// Waits until all servers have the lease as it is now.
async fn replicated(sentinels: &Sentinels, election: &ElectionName, lease: &Lease) {
    let record = keys(election).record;
    for server in sentinels.servers() {
        soon("every server has it", async || {
            let attempt = server.try_call(&["HGET", &record, "attempt"]).await;
            attempt.is_ok_and(|attempt| attempt.text() == Some(lease.attempt.to_string()))
        })
        .await;
    }
}

/// Renews as a leader does: until it knows.
async fn renew(first: &Candidate, lease: &Lease) -> Renewal {
    renew_after(first, lease, Vec::new()).await
}

/// Renews after attempts whose fate is unknown.
async fn renew_after(first: &Candidate, lease: &Lease, open: Vec<Attempt>) -> Renewal {
    let mut renewal = Renew { open, ..first.renewal(lease) };
    let until = SystemClock.now().plus(Duration::from_secs(30));
    loop {
        match first.store.renew(std::slice::from_ref(&renewal)).await.remove(0) {
            Ok(renewal) => return renewal,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        assert!(!until.has_passed(SystemClock.now()), "no answer within 30 seconds");
        let mut open = renewal.open.clone();
        open.push(renewal.attempt);
        renewal = Renew { open, ..first.renewal(lease) };
        SystemClock.sleep(Duration::from_millis(20)).await;
    }
}

fn says(error: &StoreError, kind: ErrorKind, hints: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for hint in hints {
        assert!(error.to_string().contains(hint), "{hint:?} is missing: {error}");
    }
}

async fn refusal(url: &str, options: &str) -> StoreError {
    let first =
        Candidate::new(open(url, &format!("survives_restart=true&call_timeout=2s{options}")), "first", TTL);
    first.store.acquire(&name("refused"), &first.bid()).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_master_is_followed_by_its_leader_and_by_those_who_watch() {
    let sentinels = start(1000);
    let (first, second) = (candidate(&sentinels, "", "first", TTL), candidate(&sentinels, "", "second", TTL));
    let election = name("killed");
    let lease = first.win(&election).await;
    let mut changes = second.store.watch(std::slice::from_ref(&election)).unwrap();
    assert!(matches!(second.acquire(&election).await, Acquisition::Refused(_)));
    replicated(&sentinels, &election, &lease).await;

    let old = &sentinels.servers()[0];
    old.kill().await;
    let new = here(sentinels.new_master(old));
    let Renewal::Renewed(lease, _) = renew(&first, &lease).await else { panic!("the lease was replicated") };
    let count = new.call(&["HGET", &keys(&election).record, "renew_count"]).await;
    assert_eq!(count.text().as_deref(), Some("1"), "renewed on the new master");
    assert!(matches!(second.acquire(&election).await, Acquisition::Refused(_)));

    // It comes back with nothing, as a master that it is not any more.
    here(old.start_again());
    soon("the old master is a replica", async || is_replica(old).await).await;
    let Renewal::Renewed(lease, _) = renew(&first, &lease).await else { panic!("nothing has happened") };
    soon("nobody goes there", async || connections(old).await == Some(0)).await;

    soon("those who watch are heard on the new master", async || connections(new).await >= Some(3)).await;
    first.store.release(&first.release_of(&lease)).await.unwrap();
    loop {
        let Some(change) = changes.next().await else { panic!("the watch has ended") };
        if let Change::Record(record) = change
            && record.state == RecordState::Free
        {
            break;
        }
    }
    // The new master cannot know whether this was all: it grants nothing for as long as a lease may live that it has lost.
    let Acquisition::Refused(record) = second.acquire(&election).await else { panic!("it is too early") };
    assert!(record.opens_in > Some(Duration::ZERO) && record.leader().is_none(), "{record:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_master_is_left_and_what_it_still_does_later_counts_for_nothing() {
    let sentinels = start(1000);
    let first = candidate(&sentinels, "", "first", TTL);
    let election = name("frozen");
    let lease = first.win(&election).await;
    replicated(&sentinels, &election, &lease).await;
    let old = &sentinels.servers()[0];
    old.freeze().await;
    // It lies there, and is done as soon as the old master goes on.
    let lost = first.renewal(&lease);
    first.store.renew(std::slice::from_ref(&lost)).await.remove(0).unwrap_err();
    let new = here(sentinels.new_master(old));
    let Renewal::Renewed(lease, _) = renew_after(&first, &lease, vec![lost.attempt]).await else {
        panic!("the lease was replicated")
    };
    old.thaw().await;
    soon("the old master is a replica", async || is_replica(old).await).await;
    soon("nobody goes there", async || connections(old).await == Some(0)).await;
    replicated(&sentinels, &election, &lease).await;
    let count = new.call(&["HGET", &keys(&election).record, "renew_count"]).await;
    assert_eq!(count.text().as_deref(), Some("1"), "renewed on the new master, and nowhere else");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_demoted_master_is_left() {
    let sentinels = patient();
    let first = candidate(&sentinels, "", "first", TTL);
    let election = name("demoted");
    let lease = first.win(&election).await;
    replicated(&sentinels, &election, &lease).await;
    let old = &sentinels.servers()[0];
    let ok = sentinels.sentinels()[0].call(&["SENTINEL", "FAILOVER", sentinels.name()]).await;
    assert_eq!(ok, Reply::Text("OK".to_owned()));
    soon("it is a replica", async || is_replica(old).await).await;
    let new = here(sentinels.new_master(old));
    let renewed = renew(&first, &lease).await;
    assert!(matches!(renewed, Renewal::Renewed(..)), "{renewed:?}");
    let count = new.call(&["HGET", &keys(&election).record, "renew_count"]).await;
    assert_eq!(count.text().as_deref(), Some("1"), "renewed on the new master");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_became_a_replica_is_not_asked_again_over_the_same_connection() {
    let (server, other) = (here(Redis::start()), here(Redis::start()));
    let first = Candidate::new(open(&server.url(), "survives_restart=true"), "first", TTL);
    let election = name("read-only");
    first.win(&election).await;
    // By hand, so that nobody closes connections.
    let port = other.port().to_string();
    server.call(&["REPLICAOF", "127.0.0.1", &port]).await;
    let error = first.store.acquire(&name("another"), &first.bid()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let made = async || server.call(&["INFO", "stats"]).await.line("total_connections_received").unwrap();
    let before: u64 = made().await.parse().unwrap();
    server.call(&["REPLICAOF", "NO", "ONE"]).await;
    soon("it works again", async || first.store.acquire(&name("another"), &first.bid()).await.is_ok()).await;
    // Three of them are ours by hand.
    assert!(made().await.parse::<u64>().unwrap() > before + 2, "over a new connection");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lasts_longer_in_the_server_than_its_holder_counts_with() {
    let sentinels = patient();
    let first = candidate(&sentinels, "&max_server_skew=30s", "first", TTL);
    let election = name("skew");
    let left = async || match sentinels.servers()[0].call(&["PTTL", &keys(&election).lease]).await {
        Reply::Integer(ms) => Duration::from_millis(ms.try_into().unwrap()),
        other => panic!("{other:?}"),
    };
    let lease = first.win(&election).await;
    assert!(lease.ttl == TTL && left().await > TTL, "{lease:?}, {:?} left", left().await);
    // As if the rest of the time had passed.
    sentinels.servers()[0].call(&["PEXPIRE", &keys(&election).lease, "20000"]).await;
    let Renewal::Renewed(lease, _) = renew(&first, &lease).await else { panic!("nothing has happened") };
    assert!(lease.ttl == TTL && left().await > TTL, "{lease:?}, {:?} left", left().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sentinel_is_enough_and_none_is_needed_while_the_connection_lasts() {
    let sentinels = patient();
    let first = candidate(&sentinels, "", "first", TTL);
    let election = name("sentinels-down");
    let lease = first.win(&election).await;
    let [one, two, three] = sentinels.sentinels() else { panic!("three sentinels") };
    one.kill().await;
    two.freeze().await;
    let second = candidate(&sentinels, "", "second", TTL);
    assert!(matches!(second.acquire(&election).await, Acquisition::Refused(_)), "by the third sentinel");

    three.kill().await;
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
    assert!(matches!(renewed, Ok(Renewal::Renewed(..))), "{renewed:?}");
    first.win(&name("another")).await;
    let (one, two) = (one.address().to_string(), two.address().to_string());
    let hints = [one.as_str(), "refused", &two, "gave no answer within"];
    says(&refusal(&url(&sentinels), "").await, ErrorKind::Unavailable, &hints);
}

#[tokio::test(flavor = "multi_thread")]
async fn sentinels_and_servers_have_passwords_of_their_own() {
    let options = SentinelOptions {
        servers: Options::default().user("app", "pw", "~* &* +@all").without_default_user(),
        sentinel_password: Some("of-sentinels".to_owned()),
        down_after: Duration::from_secs(30),
    };
    let sentinels = here(options.start());
    let with = |login: &str| url(&sentinels).replace("://", &format!("://{login}@"));
    let own = "&sentinel_password=of-sentinels";
    let options = format!("survives_restart=true{own}");
    Candidate::new(open(&with("app:pw"), &options), "first", TTL).win(&name("both")).await;

    let check = "check sentinel_user and sentinel_password";
    says(&refusal(&with("app:pw"), "").await, ErrorKind::Denied, &[check, "NOAUTH"]);
    let wrong = refusal(&with("app:pw"), "&sentinel_password=wrong").await;
    says(&wrong, ErrorKind::Denied, &[check]);
    let master = sentinels.servers()[0].address().to_string();
    let wrong = refusal(&with("app:wrong"), own).await;
    says(&wrong, ErrorKind::Denied, &["refuses the user or the password", &master]);
    for secret in ["of-sentinels", "wrong", "pw@"] {
        assert!(!wrong.to_string().contains(secret), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_address_or_name_is_named() {
    let sentinels = patient();
    let elsewhere = url(&sentinels).replace("mymaster", "nobody");
    let one = sentinels.addresses()[0].to_string();
    says(&refusal(&elsewhere, "").await, ErrorKind::Invalid, &["/nobody", &one, "knows no master"]);
    let server = format!("redis+sentinel://{}/mymaster", sentinels.servers()[1].address());
    says(&refusal(&server, "").await, ErrorKind::Invalid, &["is no sentinel", "redis://"]);
    says(&refusal(&format!("redis://{one}"), "").await, ErrorKind::Invalid, &["redis+sentinel://"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sentinel_that_missed_a_failover_sends_nobody_back_to_the_old_master() {
    let sentinels = start(1000);
    let first = candidate(&sentinels, "", "first", TTL);
    let election = name("old-sentinel");
    let lease = first.win(&election).await;
    replicated(&sentinels, &election, &lease).await;
    let [one, two, old_sentinel] = sentinels.sentinels() else { panic!("three sentinels") };
    let old = &sentinels.servers()[0];
    old_sentinel.kill().await;
    old.kill().await;
    let new = soon_some(async || {
        let port = sentinel_names(one, sentinels.name()).await?;
        sentinels.servers().iter().find(|server| server.port() == port && port != old.port())
    })
    .await;
    let Renewal::Renewed(lease, _) = renew(&first, &lease).await else { panic!("the lease was replicated") };

    // All who know better are gone, and the old master is back as what it was.
    one.kill().await;
    two.kill().await;
    here(old.start_again());
    old.call(&["REPLICAOF", "NO", "ONE"]).await;
    new.kill().await;
    here(old_sentinel.start_again());
    soon("the old sentinel names the old master", async || {
        sentinel_names(old_sentinel, sentinels.name()).await == Some(old.port())
    })
    .await;
    let error = soon_some(async || {
        let renewal = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
        let error = renewal.expect_err("nobody serves who has the lease");
        error.to_string().contains("failover").then_some(error)
    })
    .await;
    says(&error, ErrorKind::Unavailable, &[&old_sentinel.address().to_string(), "has missed a failover"]);
    assert_eq!(connections(old).await, Some(0), "nobody goes there");
    // Whoever comes new to this process knows it as well.
    let error = refusal(&url(&sentinels), "").await;
    says(&error, ErrorKind::Unavailable, &["has missed a failover"]);
}

/// Returns the port of the master that a sentinel names.
async fn sentinel_names(sentinel: &Redis, master: &str) -> Option<u16> {
    let address = sentinel.try_call(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", master]).await.ok()?;
    address.list().get(1)?.text()?.parse().ok()
}

/// Looks until there is something to see.
async fn soon_some<T>(look: impl AsyncFn() -> Option<T>) -> T {
    let until = SystemClock.now().plus(Duration::from_secs(20));
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(!until.has_passed(SystemClock.now()), "not within 20 seconds");
        SystemClock.sleep(Duration::from_millis(20)).await;
    }
}

/// Lets the master take writes that no replica will ever have, then kills it.
struct Doomed<'a> {
    sentinels: &'a Sentinels,
    master: &'a Redis,
    replicas: Vec<&'a Redis>,
}

impl<'a> Doomed<'a> {
    async fn cut_off(sentinels: &'a Sentinels) -> Self {
        let [master, replicas @ ..] = sentinels.servers() else { panic!("three servers") };
        for replica in replicas {
            replica.freeze().await;
        }
        // What is on its way to them would still be there when they go on.
        master.call(&["CLIENT", "KILL", "TYPE", "replica"]).await;
        Self { sentinels, master, replicas: replicas.iter().collect() }
    }

    async fn die(self) -> &'a Redis {
        self.master.kill().await;
        for replica in self.replicas {
            replica.thaw().await;
        }
        here(self.sentinels.new_master(self.master))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_a_failover_lost_is_not_led_twice_and_the_fence_refuses_its_late_writes() {
    let sentinels = start(1000);
    let ttl = Duration::from_secs(12);
    let first = candidate(&sentinels, "", "first", ttl);
    let second = candidate(&sentinels, "", "second", ttl);
    let election = name("lost");
    let fence = RedisFence::new(RedisConfig::from_url(&url(&sentinels)).unwrap(), "{job}:fence").unwrap();

    let doomed = Doomed::cut_off(&sentinels).await;
    let sent = SystemClock.now();
    let lease = first.win(&election).await;
    fence.write(lease.token, "SET", "{job}:state", &["first"]).await.unwrap();
    let new = doomed.die().await;
    assert_eq!(new.call(&["GET", &keys(&election).lease]).await, Reply::Null, "the failover was to lose it");

    // Nobody is elected while the first one may still lead, though the new master knows of no leader.
    let refused = loop {
        match second.store.acquire(&election, &second.bid()).await {
            Ok(Acquisition::Refused(record)) => break record,
            Ok(Acquisition::Acquired(lease)) => panic!("{lease:?} while the first one leads"),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    };
    assert!(refused.holder.is_none() && refused.opens_in > Some(Duration::ZERO), "{refused:?}");
    let next = second.campaign(&election).await;
    let waited = SystemClock.now().time_since(sent);
    assert!(waited >= ttl, "elected {waited:?} after a lease of {ttl:?} was asked for");
    assert!(next.token > lease.token, "{:?} follows {:?}", next.token, lease.token);
    assert!(matches!(renew(&first, &lease).await, Renewal::Lost(_)));

    // The mark was lost, too; the first write of the new term sets it anew.
    let write = async |token, what: &str| loop {
        match fence.write(token, "SET", "{job}:state", &[what]).await {
            Err(RedisFenceError::Server(error)) if error.is_retryable() => {}
            outcome => return outcome,
        }
    };
    write(next.token, "second").await.unwrap();
    let late = write(lease.token, "late").await;
    assert!(matches!(late, Err(RedisFenceError::Refused { .. })), "{late:?}");
    assert_eq!(new.call(&["GET", "{job}:state"]).await.text().as_deref(), Some("second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_all_replicas_have_survives_a_failover() {
    let sentinels = start(1000);
    let first = candidate(&sentinels, "&min_replicas=2", "first", TTL);
    let second = candidate(&sentinels, "&min_replicas=1", "second", TTL);
    attached(&sentinels.servers()[0], &sentinels.servers()[1..]).await;
    let election = name("acknowledged");
    let lease = first.win(&election).await;
    let Renewal::Renewed(lease, _) = renew(&first, &lease).await else { panic!("nothing has happened") };
    // At once: whatever was answered is there.
    let old = &sentinels.servers()[0];
    old.kill().await;
    let new = here(sentinels.new_master(old));
    let value = new.call(&["GET", &keys(&election).lease]).await.text().unwrap();
    assert!(value.starts_with("first:"), "{value}");
    let refused = loop {
        match second.store.acquire(&election, &second.bid()).await {
            Ok(Acquisition::Refused(record)) => break record,
            Ok(Acquisition::Acquired(lease)) => panic!("{lease:?} beside the first one"),
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
    };
    assert_eq!(refused.token, lease.token);

    // One replica is left: too few for the first one, until the old master is back as the second.
    let mut open = Vec::new();
    loop {
        let renewal = Renew { open: open.clone(), ..first.renewal(&lease) };
        open.push(renewal.attempt);
        let error = first.store.renew(&[renewal]).await.remove(0).unwrap_err();
        assert!(error.is_retryable(), "{error}");
        if error.to_string().contains("of 2 replicas") {
            break;
        }
    }
    here(old.start_again());
    let renewed = renew_after(&first, &lease, open).await;
    assert!(matches!(renewed, Renewal::Renewed(..)), "{renewed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guarantees_say_what_a_failover_can_lose() {
    let one = open("redis://localhost", "").guarantees();
    assert_eq!((one.survives_failover, one.linearizable), (None, true));
    let several =
        open("redis+sentinel://localhost/mymaster", "max_server_skew=2s&min_replicas=1").guarantees();
    assert_eq!((several.survives_failover, several.linearizable), (Some(false), false));
    let skew = tenure_core::store::TokenOrder::StrictWithin(Duration::from_secs(2));
    assert_eq!(several.tokens, skew);
    for word in ["max_server_skew", "min_replicas", "serves nobody any more"] {
        assert!(
            several.assumptions.iter().any(|assumption| assumption.contains(word)),
            "{word}: {several:?}"
        );
    }
}
