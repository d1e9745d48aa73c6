//! Contention, death and standstill of real processes.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use tenure_core::embedded::FileStore;
use tenure_core::store::{LeaseStore, Renewal};
use tenure_core::{Clock, SystemClock};

use crate::other::Other;
use crate::support::{election, lead, median, now, release, renew, soon, try_lead};

/// Much longer than any of these tests may take.
const LONG: Duration = Duration::from_secs(600);

#[test]
fn of_32_bids_by_four_processes_at_once_exactly_one_wins() {
    let top = tempfile::tempdir().unwrap();
    let mut others: Vec<_> = (0..4).map(|_| Other::start(top.path())).collect();
    for round in 0..10 {
        for other in &mut others {
            other.tell(&format!("bids round-{round} 8"));
        }
        let answers: Vec<_> = others.iter_mut().map(Other::hear).collect();
        let answers: Vec<_> = answers.iter().flat_map(|line| line.split(' ')).collect();
        assert_eq!(answers.len(), 32, "{answers:?}");
        let winners: Vec<_> = answers.iter().filter_map(|answer| answer.strip_prefix("won:")).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        let refused = format!("refused:{}", winners[0]);
        assert_eq!(answers.iter().filter(|answer| **answer == refused).count(), 31, "{answers:?}");
    }
}

/// Bids whenever the watch rings, until the election is won.
async fn follow_until_won(store: &FileStore, name: &str) -> tenure_core::store::Lease {
    let election = election(name);
    let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
    loop {
        if let Some(lease) = try_lead(store, &election, LONG).await.unwrap() {
            return lease;
        }
        changes.next().await.unwrap();
    }
}

/// Starts a follower, waits until it sleeps on its watch, lets `end` happen and returns how long the follower took.
async fn time_to_follow(directory: &Path, name: &str, end: impl FnOnce()) -> Duration {
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let (store, name) = (FileStore::open(directory).unwrap(), name.to_owned());
    let follower = tokio::spawn(async move {
        let election = election(&name);
        let mut changes = store.watch(std::slice::from_ref(&election)).unwrap();
        // The first report is the beginning of the watch: it has looked, and watches the holder from now on.
        changes.next().await.unwrap();
        assert!(try_lead(&store, &election, LONG).await.unwrap().is_none(), "won before the end");
        ready.send(()).unwrap();
        loop {
            changes.next().await.unwrap();
            if let Some(lease) = try_lead(&store, &election, LONG).await.unwrap() {
                return (now(), lease, store);
            }
        }
    });
    is_ready.await.unwrap();
    let began = now();
    end();
    let (won, lease, store) = soon("the follower's turn", follower).await.unwrap();
    release(&store, &lease).await.unwrap();
    won.time_since(began)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_is_followed_at_once_and_not_when_its_lease_runs_out() {
    let top = tempfile::tempdir().unwrap();
    let mut times = Vec::new();
    for round in 0..20 {
        let mut holder = Other::start(top.path());
        assert!(holder.ask("acquire a 30000").starts_with("acquired"), "round {round}");
        times.push(time_to_follow(top.path(), "a", || holder.signal(Signal::KILL)).await);
    }
    let longest = times.iter().max().copied().unwrap();
    assert!(longest < Duration::from_secs(5), "{times:?}");
    println!(
        "measured: SIGKILL of the holder → acquired by the follower: p50 {:?}, longest {longest:?}",
        median(times)
    );
}

#[tokio::test]
async fn whoever_comes_after_the_death_leads_without_waiting_although_the_dead_were_swept() {
    let top = tempfile::tempdir().unwrap();
    let mut holder = Other::start(top.path());
    holder.ask("acquire a 600000");
    drop(holder);
    // Opening sweeps; twice, to sweep what the first one remembered.
    drop(FileStore::open(top.path()).unwrap());
    let store = FileStore::open(top.path()).unwrap();
    assert!(try_lead(&store, &election("a"), LONG).await.unwrap().is_some());
}

#[tokio::test]
async fn a_stopped_holder_is_not_dead_and_loses_its_lease_when_that_runs_out() {
    let top = tempfile::tempdir().unwrap();
    let store = FileStore::open(top.path()).unwrap();
    let mut holder = Other::start(top.path());
    let ttl = Duration::from_millis(1500);
    let began = now();
    assert_eq!(holder.ask("acquire a 1500"), "acquired 1");
    holder.stop();
    let lease = lead(&store, &election("a"), LONG).await;
    let after = now().boot() - began.boot();
    assert!(after >= ttl, "taken after {after:?}");
    assert!(after < Duration::from_secs(30), "{after:?}");
    holder.signal(Signal::CONT);
    assert_eq!(holder.ask("renew a"), "lost");
    assert_eq!(holder.ask("release a"), "not held");
    assert!(matches!(renew(&store, &lease).await.unwrap(), Renewal::Renewed(..)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_heir_of_the_life_file_keeps_the_lease_from_being_free_until_it_ends_too() {
    let top = tempfile::tempdir().unwrap();
    let store = FileStore::open(top.path()).unwrap();
    let mut holder = Other::start(top.path());
    holder.ask("acquire a 600000");
    let heir = holder.ask("heir");
    let heir = Pid::from_raw(heir.strip_prefix("heir ").unwrap().parse().unwrap()).unwrap();
    drop(holder);
    assert!(try_lead(&store, &election("a"), LONG).await.unwrap().is_none(), "the heir lives");
    let took = time_to_follow(top.path(), "a", || kill_process(heir, Signal::KILL).unwrap()).await;
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_wakes_a_follower_in_another_process() {
    let top = tempfile::tempdir().unwrap();
    let mut times = Vec::new();
    let mut holder = Other::start(top.path());
    for _ in 0..20 {
        holder.ask("acquire a 600000");
        times.push(time_to_follow(top.path(), "a", || holder.tell("release a")).await);
        assert_eq!(holder.hear(), "released");
    }
    assert!(times.iter().all(|time| *time < Duration::from_secs(5)), "{times:?}");
    println!(
        "measured: release asked of another process → acquired by the follower: p50 {:?}",
        median(times)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_followers_of_a_killed_holder_elect_one() {
    let top = tempfile::tempdir().unwrap();
    let mut holder = Other::start(top.path());
    holder.ask("acquire a 600000");
    let mut followers = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let store = FileStore::open(top.path()).unwrap();
        followers.spawn(async move { (follow_until_won(&store, "a").await.token, store) });
    }
    drop(holder);
    let (token, winner) = soon("a winner", followers.join_next()).await.unwrap().unwrap();
    assert_eq!(token.0, 2);
    // The next one wins when the winner goes, and so on: nobody misses its wake.
    drop(winner);
    let mut tokens = vec![];
    while let Some(won) = soon("the next winner", followers.join_next()).await {
        tokens.push(won.unwrap().0.0);
    }
    assert_eq!(tokens, (3..12).collect::<Vec<_>>());
}

#[test]
fn a_thousand_calls_leave_no_file_open() {
    let top = tempfile::tempdir().unwrap();
    let answer = Other::start(top.path()).ask("leaks");
    let (before, after) = answer.split_once(' ').unwrap();
    assert_eq!(before, after);
    assert!(before.parse::<u32>().is_ok(), "{answer}");
}

#[tokio::test]
async fn the_verbs_are_quick() {
    const TERMS: usize = 300;
    let top = tempfile::tempdir().unwrap();
    let store = FileStore::open(top.path()).unwrap();
    let election = election("a");
    let (mut acquire, mut renewal, mut ending) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TERMS {
        let began = now();
        let lease = try_lead(&store, &election, LONG).await.unwrap().unwrap();
        let acquired = SystemClock.now();
        let Renewal::Renewed(lease, _) = renew(&store, &lease).await.unwrap() else {
            panic!("lost");
        };
        let renewed = now();
        release(&store, &lease).await.unwrap();
        acquire.push(acquired.time_since(began));
        renewal.push(renewed.time_since(acquired));
        ending.push(now().time_since(renewed));
    }
    let (first, acquire, renewal, ending) = (acquire[0], median(acquire), median(renewal), median(ending));
    println!(
        "measured: first acquire {first:?}; p50 acquire {acquire:?}, renew {renewal:?}, release {ending:?}"
    );
    assert!([acquire, renewal, ending].iter().all(|time| *time < Duration::from_secs(1)));
}
