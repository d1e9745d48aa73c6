//! From one leader to the next.

use std::error::Error;
use std::time::Duration;

use tenure_core::elector::Leadership;
use tenure_core::{CandidateId, Elections, Settings};
use tenure_redis::RedisStore;
use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::Redis;
use tokio::sync::mpsc;

use crate::core::Outcome;
use crate::figures::Figures;
use crate::machine::{boot, sleep};
use crate::worker::Worker;

const TTL: Duration = Duration::from_secs(30);
/// Whoever stands again has been refused by then, and watches.
const STANDS_BY: Duration = Duration::from_millis(20);

/// Three processes hand an election round.
pub(super) async fn handover(figures: &mut Figures) -> Outcome {
    const ROUNDS: usize = 600;
    let server = Redis::start().await;
    let store = super::url(&server);
    let mut leader = Worker::start(&store, TTL).await?;
    leader.hear("elected").await?;
    let mut followers = (Worker::start(&store, TTL).await?, Worker::start(&store, TTL).await?);
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        sleep(STANDS_BY).await;
        let begin = leader.give_back().await?;
        let elected = next_leader(&mut leader, &mut followers).await?;
        samples.push(elected.saturating_sub(begin));
        // The one that led before is a follower now.
        followers.0.stand_again().await?;
    }
    figures.add_spread("redis_handover", samples);
    Ok(())
}

/// Waits until one of the followers is elected; it changes places with the leader, and stands first among the followers.
async fn next_leader(leader: &mut Worker, followers: &mut (Worker, Worker)) -> std::io::Result<Duration> {
    let (first, elected) = tokio::select! {
        elected = followers.0.hear("elected") => (true, elected?),
        elected = followers.1.hear("elected") => (false, elected?),
    };
    if !first {
        std::mem::swap(&mut followers.0, &mut followers.1);
    }
    std::mem::swap(leader, &mut followers.0);
    Ok(elected)
}

/// A candidate that was elected: which one, and when.
struct Elected {
    number: usize,
    at: Duration,
    leadership: Leadership,
}

/// A hundred candidates stand by, each with connections of its own.
pub(super) async fn followers(figures: &mut Figures) -> Outcome {
    const ROUNDS: usize = 300;
    const CANDIDATES: usize = 101;
    let server = Redis::start().await;
    let (told, mut terms) = mpsc::channel(1);
    let mut again = Vec::new();
    for number in 0..CANDIDATES {
        let (ask, asked) = mpsc::channel(1);
        again.push(ask);
        let elections = Elections::builder(RedisStore::from_url(&super::url(&server))?)
            .candidate(CandidateId::new(format!("candidate-{number}"))?)
            .settings(Settings::ttl(TTL))
            .build();
        tokio::spawn(stand(number, elections, told.clone(), asked));
    }
    let gone = || -> Box<dyn Error> { "the candidates are gone".into() };
    let mut leader: Elected = terms.recv().await.ok_or_else(gone)?;
    let listening = async || {
        let hearing = server.call(&["PUBSUB", "NUMSUB", "{tenure:leader:followers}:changes@0"]).await;
        hearing.list().get(1).and_then(Reply::text)
    };
    while listening().await.as_deref() != Some("101") {
        sleep(STANDS_BY).await;
    }
    let mut samples = Vec::new();
    for _ in 0..ROUNDS {
        sleep(STANDS_BY * 2).await;
        let begin = boot();
        drop(leader.leadership);
        let next = terms.recv().await.ok_or_else(gone)?;
        samples.push(next.at.saturating_sub(begin));
        again[leader.number].send(()).await?;
        leader = next;
    }
    figures.add_spread("redis_100_followers", samples);
    Ok(())
}

/// Leads, tells it, and stands again when asked to.
async fn stand(
    number: usize,
    elections: Elections,
    told: mpsc::Sender<Elected>,
    mut again: mpsc::Receiver<()>,
) {
    while let Ok(leadership) = elections.lead("followers").await {
        let elected = Elected { number, at: boot(), leadership };
        if told.send(elected).await.is_err() || again.recv().await.is_none() {
            return;
        }
    }
}

/// The leader is killed without a word; one of two other processes leads when its lease has run out.
pub(super) async fn crash(figures: &mut Figures) -> Outcome {
    const LANES: usize = 4;
    const ROUNDS: usize = 75;
    let server = Redis::start().await;
    let lane = |number: usize| crashes(&server, number, ROUNDS);
    let lanes = tokio::try_join!(lane(0), lane(1), lane(2), lane(3))?;
    let lanes: [Vec<Duration>; LANES] = lanes.into();
    figures.add_spread("redis_crash_over_ttl", lanes.concat());
    Ok(())
}

/// One election of three processes, whose leader is killed again and again.
async fn crashes(server: &Redis, lane: usize, rounds: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    const SHORT: Duration = Duration::from_millis(500);
    let store = format!("{}&prefix=lane-{lane}", super::url(server));
    let mut leader = Worker::start(&store, SHORT).await?;
    leader.hear("elected").await?;
    let mut followers = (Worker::start(&store, SHORT).await?, Worker::start(&store, SHORT).await?);
    let mut samples = Vec::new();
    for _ in 0..rounds {
        sleep(STANDS_BY).await;
        leader.kill().await?;
        // Before the question: what is measured is never too little.
        let asked = boot();
        let left = server.call(&["PTTL", &format!("lane-{lane}:leader:bench")]).await;
        let Reply::Integer(left @ 0..) = left else {
            return Err("the lease ran out before its leader was dead".into());
        };
        let over = asked + Duration::from_millis(left.unsigned_abs());
        let elected = next_leader(&mut leader, &mut followers).await?;
        samples.push(elected.saturating_sub(over));
        followers.0 = Worker::start(&store, SHORT).await?;
    }
    Ok(samples)
}
