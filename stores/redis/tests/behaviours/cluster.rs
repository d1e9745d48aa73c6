//! A cluster: every election finds its server, also when slots move and servers die.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use tenure_core::clock::ClockExt;
use tenure_core::elector::ElectorHandle;
use tenure_core::store::{
    Acquisition, Bid, Change, ErrorKind, Lease, LeaseStore, RecordState, Released, Renewal, StoreError,
    TokenOrder,
};
use tenure_core::{CandidateId, Clock, Elections, FencingToken, Settings, SystemClock};
use tenure_redis::{RedisConfig, RedisFence, RedisFenceError, RedisStore, Written};
use tenure_testkit::servers::redis::{Cluster, ClusterOptions, Options, Redis};

use crate::support::cluster::url_of;
use crate::support::fixture::keys;
use crate::support::{Candidate, documented_access, documented_access_in_a_cluster, here, name, open, soon};

const TTL: Duration = Duration::from_secs(60);
const OPTIONS: &str = "survives_restart=true";

fn url(cluster: &Cluster) -> String {
    url_of(None, &cluster.addresses())
}

fn candidate(cluster: &Cluster, id: &str) -> Candidate {
    Candidate::new(open(&url(cluster), OPTIONS), id, TTL)
}

/// A cluster whose servers soon take each other for dead.
fn quick() -> Cluster {
    here(ClusterOptions { down_after: Duration::from_millis(1000), ..ClusterOptions::default() }.start())
}

/// How often a server gave this error.
async fn errors(server: &Redis, code: &str) -> u64 {
    let stats = server.call(&["INFO", "errorstats"]).await;
    let line = stats.line(&format!("errorstat_{code}")).unwrap_or_default();
    line.strip_prefix("count=").and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn is_renewed(answer: &Result<Renewal, StoreError>) -> bool {
    matches!(answer, Ok(Renewal::Renewed(..)))
}

/// Renews, which must succeed, and returns the leases as they are now.
async fn renew(candidate: &Candidate, leases: &[Lease]) -> Vec<Lease> {
    let renewals: Vec<_> = leases.iter().map(|lease| candidate.renewal(lease)).collect();
    let answers = candidate.store.renew(&renewals).await;
    let each = renewals.iter().zip(answers).map(|(renewal, answer)| {
        let Ok(Renewal::Renewed(lease, _)) = answer else { panic!("{answer:?}") };
        assert_eq!((&lease.election, lease.attempt), (&renewal.lease.election, renewal.attempt));
        lease
    });
    each.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn elections_of_any_name_lie_on_all_masters() {
    let cluster = here(Cluster::start());
    let first = candidate(&cluster, "first");
    let mut names: Vec<_> = (0..30).map(|i| format!("spread-{i}")).collect();
    names.extend(["{a}b", "}{", "a}b{c", "{}", "{{x}}", "%7B", "größe {1}"].map(str::to_owned));
    let mut leases = Vec::new();
    let mut masters = BTreeSet::new();
    for election in &names {
        let election = name(election);
        let lease = keys(&election).lease;
        masters.insert(here(async { cluster.master_of(cluster.slot_of(&lease).await).await }).port());
        leases.push(first.win(&election).await);
    }
    assert_eq!(masters.len(), 3, "the names were to be spread");
    let leases = renew(&first, &leases).await;
    let listed = first.store.operator().unwrap().list("").await.unwrap();
    let expected: BTreeSet<_> = names.iter().map(|election| name(election)).collect();
    assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), expected);
    // A server that has forgotten the script gets it again.
    for server in cluster.servers() {
        server.call(&["SCRIPT", "FLUSH"]).await;
    }
    for lease in renew(&first, &leases).await {
        assert_eq!(first.store.release(&first.release_of(&lease)).await.unwrap(), Released::Released);
    }
    for server in cluster.servers() {
        assert_eq!(errors(server, "CROSSSLOT").await, 0, "port {}", server.port());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_followed_without_an_error() {
    let cluster = here(Cluster::start());
    // All of them share one slot.
    let open = |id| Candidate::new(open(&url(&cluster), &format!("{OPTIONS}&prefix={{moving}}")), id, TTL);
    let (first, second) = (open("first"), open("second"));
    let slot = here(cluster.slot_of("{moving}"));
    let from = here(cluster.master_of(slot));
    let to = cluster.servers()[..3].iter().find(|server| server.port() != from.port()).unwrap();
    let (held, beside) = (name("held"), name("beside"));
    let leases = [first.win(&held).await, first.win(&beside).await];

    // It is about to move: what is there still is there.
    here(cluster.begin_move(slot, to));
    let leases = renew(&first, &leases).await;

    // What has moved already is found at its new place, alone and among others.
    here(cluster.move_names(slot, to));
    let asked = errors(from, "ASK").await;
    let Acquisition::Refused(record) = second.acquire(&held).await else { panic!("two leaders") };
    assert_eq!(record.token, leases[0].token);
    let leases = renew(&first, &leases).await;
    assert!(errors(from, "ASK").await > asked, "nobody was sent on");
    // Also if the new place has forgotten the script.
    to.call(&["SCRIPT", "FLUSH"]).await;
    let lease = renew(&first, &leases[..1]).await.remove(0);
    // What is neither here nor there cannot be had before the move is over.
    let error = second.store.acquire(&name("new"), &second.bid()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("is moving this slot"), "{error}");

    here(cluster.finish_move(slot, to));
    renew(&first, &[lease]).await;
    let won = second.win(&name("new")).await;
    // Whoever was sent on once goes there by itself.
    let moved = errors(from, "MOVED").await;
    assert!(moved > 0, "nobody was sent on");
    renew(&second, &[won]).await;
    first.store.read(&held).await.unwrap().unwrap();
    assert_eq!(errors(from, "MOVED").await, moved);
}

/// Who led before is told only if the server has run since: also where the call reaches it by a detour.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_began_anew_does_not_say_who_led_before_on_any_way() {
    let cluster = here(Cluster::start());
    let first = candidate(&cluster, "first");
    let election = name("began-anew");
    let (lease, record) = (keys(&election).lease, keys(&election).record);
    let slot = here(cluster.slot_of(&lease));
    let from = here(cluster.master_of(slot));
    let run = async |server: &Redis| server.call(&["HGET", &record, "run"]).await.text();
    let of_server = async |server: &Redis| server.call(&["INFO", "server"]).await.line("run_id");
    let lease = first.win(&election).await;
    first.store.release(&first.release_of(&lease)).await.unwrap();

    // The server has forgotten the script.
    from.call(&["HSET", &record, "run", "an-earlier-one"]).await;
    from.call(&["SCRIPT", "FLUSH"]).await;
    let lease = first.win(&election).await;
    assert_eq!(lease.previous, None, "it began anew since");
    assert_eq!(run(from).await, of_server(from).await);

    // The slot is about to move, and what is in it has moved already.
    let to = cluster.servers()[..3].iter().find(|server| server.port() != from.port()).unwrap();
    here(cluster.begin_move(slot, to));
    here(cluster.move_names(slot, to));
    let asked = errors(from, "ASK").await;
    let bid = Bid { supersedes: Some(lease.bid), ..first.bid() };
    let answer = first.store.acquire(&election, &bid).await.unwrap();
    let Acquisition::Acquired(lease) = answer else { panic!("{answer:?}") };
    assert!(errors(from, "ASK").await > asked, "nobody was sent on");
    assert_eq!(lease.previous, None, "another server has it now");
    here(cluster.finish_move(slot, to));
    assert_eq!(run(to).await, of_server(to).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_death_of_a_master_a_term_goes_on_or_is_lost_and_tokens_rise() {
    let cluster = quick();
    let first = candidate(&cluster, "first");
    let election = name("failover");
    let mut lease = first.win(&election).await;
    for round in 0..2 {
        let slot = here(cluster.slot_of(&keys(&election).lease));
        let old = here(cluster.master_of(slot));
        here(old.kill());
        let error = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap_err();
        assert!(error.is_retryable(), "round {round}: {error}");
        here(cluster.new_master_of(slot, old));
        soon("the new master answers", async || first.store.read(&election).await.is_ok()).await;
        let answer = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap();
        lease = match answer {
            Renewal::Renewed(next, _) => {
                assert_eq!(next.token, lease.token, "round {round}");
                next
            }
            // The replica had not got it yet.
            Renewal::Lost(_) => {
                let next = first.campaign(&election).await;
                assert!(next.token > lease.token, "round {round}: {next:?} after {lease:?}");
                next
            }
        };
        // The next one to die is the other one.
        here(old.start_again());
        here(cluster.wait_until_ready());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_the_replica_never_got_is_lost_and_the_next_token_is_higher() {
    let cluster = quick();
    let first = candidate(&cluster, "first");
    let election = name("unreplicated");
    let slot = here(cluster.slot_of(&keys(&election).lease));
    let master = here(cluster.master_of(slot));
    let place = cluster.servers().iter().position(|server| server.port() == master.port()).unwrap();
    let replica = &cluster.servers()[place + 3];
    // What is on its way to the replica would still arrive: there must be no way.
    here(replica.freeze());
    master.call(&["CLIENT", "KILL", "TYPE", "replica"]).await;
    let lease = first.win(&election).await;
    here(master.kill());
    here(replica.thaw());
    here(cluster.new_master_of(slot, master));
    soon("the new master answers", async || first.store.read(&election).await.is_ok()).await;
    let answer = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap();
    assert!(matches!(answer, Renewal::Lost(_)), "{answer:?}");
    // Whoever saw the failover knows that a lease may be lost which still lives.
    match first.acquire(&election).await {
        Acquisition::Refused(record) => assert_eq!(record.state, RecordState::Recovering, "{record:?}"),
        Acquisition::Acquired(lease) => panic!("granted at once: {lease:?}"),
    }
    // Whoever comes new does not.
    let next = candidate(&cluster, "newcomer").win(&election).await;
    assert!(next.token > lease.token, "{next:?} after {lease:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_master_holds_up_only_its_own_elections_and_is_replaced() {
    let cluster = quick();
    let store = open(&url(&cluster), "survives_restart=true&call_timeout=500ms");
    let first = Candidate::new(store, "first", TTL);
    let on = |server: &Redis| {
        let port = server.port();
        let names = (0..).map(|i| name(&format!("frozen-{i}")));
        let mut names = names.filter(|election| {
            let lease = keys(election).lease;
            here(async { cluster.master_of(cluster.slot_of(&lease).await).await.port() }) == port
        });
        names.next().unwrap()
    };
    let (frozen, served) = (on(&cluster.servers()[0]), on(&cluster.servers()[1]));
    let leases = [first.win(&frozen).await, first.win(&served).await];
    here(cluster.servers()[0].freeze());
    // Both in one call: each has its own answer.
    let answers = first.store.renew(&leases.each_ref().map(|lease| first.renewal(lease))).await;
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), ErrorKind::Timeout, "{:?}", answers[0]);
    assert!(is_renewed(&answers[1]), "{:?}", answers[1]);
    let slot = here(cluster.slot_of(&keys(&frozen).lease));
    here(cluster.new_master_of(slot, &cluster.servers()[0]));
    soon("its elections are served again", async || first.store.read(&frozen).await.is_ok()).await;
    // The old master has missed that, and says so at once or is not asked.
    here(cluster.servers()[0].thaw());
    let second = candidate(&cluster, "second");
    soon("one record", async || {
        let (a, b) = (first.store.read(&frozen).await, second.store.read(&frozen).await);
        matches!((a, b), (Ok(a), Ok(b)) if a.as_ref().map(|a| a.token) == b.as_ref().map(|b| b.token))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_that_answers_is_enough_to_find_the_others() {
    let cluster = here(Cluster::start());
    let dead = here(Redis::start());
    here(dead.kill());
    // A replica knows the way as well as a master does.
    let replica = cluster.servers()[3].address();
    for seeds in [vec![replica], vec![dead.address(), cluster.servers()[1].address()]] {
        let first = Candidate::new(open(&url_of(None, &seeds), OPTIONS), "first", TTL);
        for i in 0..10 {
            let election = name(&format!("seeds-{i}"));
            let lease = first.win(&election).await;
            first.store.release(&first.release_of(&lease)).await.unwrap();
        }
    }
    // What is asked for and not done is refused.
    let config = RedisConfig::from_url(&format!("{}?min_replicas=1", url(&cluster))).unwrap();
    assert!(RedisStore::new(config).unwrap_err().to_string().contains("min_replicas"));
    let nobody = open(&url_of(None, &[dead.address()]), OPTIONS);
    let error = nobody.read(&name("nobody")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains(&dead.address().to_string()), "{error}");
    // What is no cluster, and what is one, say so.
    let alone = here(Redis::start());
    let error = open(&url_of(None, &[alone.address()]), "").read(&name("alone")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("write redis://"), "{error}");
    let url = format!("redis://{}", cluster.addresses()[0]);
    let error = open(&url, "").read(&name("alone")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("write redis+cluster://"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_needs_beyond_one_server_is_named_where_it_is_missing() {
    let rights = format!("{} {}", documented_access(), documented_access_in_a_cluster());
    let without = |right: &str| rights.replace(&format!(" {right}"), "");
    let servers = Options::default().user("no-slots", "secret", &without("+cluster|slots")).user(
        "no-asking",
        "secret",
        &without("+asking"),
    );
    let cluster = here(ClusterOptions { servers, ..ClusterOptions::default() }.start());
    let open = |user| {
        let url = url_of(Some(user), &cluster.addresses());
        Candidate::new(open(&url, OPTIONS), user, TTL)
    };
    let election = name("permitted");
    let first = open("no-asking");
    let lease = first.win(&election).await;
    let slot = here(cluster.slot_of(&keys(&election).lease));
    let from = here(cluster.master_of(slot));
    let to = cluster.servers()[..3].iter().find(|server| server.port() != from.port()).unwrap();
    here(cluster.begin_move(slot, to));
    here(cluster.move_names(slot, to));
    let refused = first.store.renew(&[first.renewal(&lease)]).await.remove(0).unwrap_err();
    assert!(refused.to_string().contains("grant +asking"), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
    let refused = open("no-slots").store.read(&election).await.unwrap_err();
    assert!(refused.to_string().contains("grant +cluster|slots"), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_do_not_name_their_host_are_where_they_were_asked() {
    let servers = Options::default().set("cluster-preferred-endpoint-type", "unknown-endpoint");
    let cluster = here(ClusterOptions { servers, ..ClusterOptions::default() }.start());
    let first = candidate(&cluster, "first");
    let elections: Vec<_> = (0..10).map(|i| name(&format!("unnamed-{i}"))).collect();
    let mut leases = Vec::new();
    for election in &elections {
        leases.push(first.win(election).await);
    }
    let slot = here(cluster.slot_of(&keys(&elections[0]).lease));
    let from = here(cluster.master_of(slot));
    let to = cluster.servers()[..3].iter().find(|server| server.port() != from.port()).unwrap();
    here(cluster.begin_move(slot, to));
    here(cluster.move_names(slot, to));
    let leases = renew(&first, &leases).await;
    here(cluster.finish_move(slot, to));
    renew(&first, &leases).await;
    assert!(errors(from, "ASK").await > 0 && errors(from, "MOVED").await > 0, "nobody was sent on");
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_hear_of_elections_of_every_node() {
    let cluster = here(Cluster::start());
    let leader = candidate(&cluster, "leader");
    let store = open(&url(&cluster), OPTIONS);
    let names: Vec<_> = (0..12).map(|i| name(&format!("heard-{i}"))).collect();
    let mut changes = store.watch(&names).unwrap();
    let hears = async |election| {
        let channel = format!("{{{}}}:changes@0", keys(election).lease);
        for server in cluster.servers() {
            let hearing = server.call(&["PUBSUB", "NUMSUB", &channel]).await;
            if hearing.list()[1].text().unwrap() == "1" {
                return true;
            }
        }
        false
    };
    for election in &names {
        soon("somebody listens", async || hears(election).await).await;
    }
    // Messages are believed once the servers have answered something.
    let asked = name("asked");
    leader.win(&asked).await;
    store.read(&asked).await.unwrap();
    let mut missing: BTreeSet<_> = names.iter().cloned().collect();
    for election in &names {
        leader.win(election).await;
    }
    let until = SystemClock.now().plus(Duration::from_secs(20));
    while !missing.is_empty() {
        let change = tokio::select! {
            change = changes.next() => change.unwrap(),
            () = SystemClock.sleep(until.time_until(SystemClock.now())) => panic!("not heard of: {missing:?}"),
        };
        if let Change::Record(record) = change {
            assert_eq!(record.leader().unwrap().candidate, leader.id);
            missing.remove(&record.election);
        }
    }
}

fn elections(cluster: &Cluster, candidate: &str, ttl: Duration) -> Elections {
    Elections::builder(open(&url(cluster), OPTIONS))
        .candidate(CandidateId::new(candidate).unwrap())
        .settings(Settings::ttl(ttl))
        .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn electors_lead_on_after_the_death_of_any_master() {
    let cluster = quick();
    let candidates: Vec<_> =
        (0..3).map(|i| elections(&cluster, &format!("candidate-{i}"), Duration::from_secs(9))).collect();
    let handles: Vec<_> =
        candidates.iter().map(|elections| elections.elector("standing").start().unwrap()).collect();
    soon("somebody leads", async || handles.iter().any(ElectorHandle::is_leader)).await;
    let leader = handles.iter().position(ElectorHandle::is_leader).unwrap();
    // Whoever stands by on whatever node answers.
    let expected: BTreeSet<_> = (0..3)
        .filter(|i| *i != leader)
        .map(|i| CandidateId::new(format!("candidate-{i}")).unwrap())
        .collect();
    let operator = open(&url(&cluster), OPTIONS);
    soon("the others answer", async || {
        let standing_by = operator.operator().unwrap().candidates(&name("standing")).await.unwrap().unwrap();
        standing_by.into_iter().collect::<BTreeSet<_>>() == expected
    })
    .await;
    let mut token = operator.read(&name("standing")).await.unwrap().unwrap().token;
    for server in &cluster.servers()[..3] {
        here(server.kill());
        // Two masters and a replica decide; each is dead for as long as that takes.
        let slot = here(cluster.slot_of(&keys(&name("standing")).lease));
        soon("it is replaced", async || {
            let master = here(cluster.master_of(slot));
            master.port() != server.port() && operator.read(&name("standing")).await.is_ok()
        })
        .await;
        soon("somebody leads and the record says so", async || {
            let Ok(Some(record)) = operator.read(&name("standing")).await else { return false };
            record.leader().is_some() && handles.iter().filter(|handle| handle.is_leader()).count() == 1
        })
        .await;
        let next = operator.read(&name("standing")).await.unwrap().unwrap().token;
        assert!(next >= token, "{next:?} after {token:?}");
        token = next;
        here(server.start_again());
        here(cluster.wait_until_ready());
    }
    for handle in handles {
        handle.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_failover_can_cost_is_said_and_paid_for() {
    let cluster = here(Cluster::start());
    let skew = Duration::from_millis(700);
    let store = open(&url(&cluster), &format!("{OPTIONS}&max_server_skew=700ms"));
    let guarantees = store.guarantees();
    assert_eq!(guarantees.survives_failover, Some(false));
    assert_eq!(guarantees.tokens, TokenOrder::StrictWithin(skew));
    assert!(!guarantees.linearizable);
    // The server keeps the lease for longer than its holder believes.
    let first = Candidate::new(store, "first", TTL);
    let election = name("skewed");
    let lease = first.win(&election).await;
    renew(&first, std::slice::from_ref(&lease)).await;
    let master = here(async { cluster.master_of(cluster.slot_of(&keys(&election).lease).await).await });
    let left = master.call(&["PTTL", &keys(&election).lease]).await.text().unwrap();
    let left = Duration::from_millis(left.parse().unwrap());
    assert!(left > TTL && left <= TTL + skew, "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_works_in_a_cluster_where_mark_and_key_share_a_slot() {
    let cluster = here(Cluster::start());
    let fence = |mark: &str| RedisFence::new(RedisConfig::from_url(&url(&cluster)).unwrap(), mark).unwrap();
    for of in ["a", "b", "c", "d", "e", "f"] {
        let (mark, key) = (format!("{{{of}}}:fence"), format!("{{{of}}}:value"));
        let fence = fence(&mark);
        let written = fence.write(FencingToken(2), "SET", &key, &["two"]).await.unwrap();
        assert_eq!(written, Written::Done);
        let refused = fence.write(FencingToken(1), "SET", &key, &["one"]).await.unwrap_err();
        assert!(matches!(refused, RedisFenceError::Refused { .. }), "{refused}");
    }
    let apart = fence("mark").write(FencingToken(1), "SET", "elsewhere", &["x"]).await.unwrap_err();
    assert!(apart.to_string().contains("give them one hash tag"), "{apart}");
}
