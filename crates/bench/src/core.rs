//! The core's figures.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use rustix::time::ClockId;
use tenure_core::embedded::{FileStore, MemoryStore};
use tenure_core::store::{Acquisition, Bid, LeaseStore, Metadata, Next, Origin, Release, Renew, Renewal};
use tenure_core::{Attempt, BidId, CandidateId, ElectionName, Elections, FencingToken, Random};

use crate::figures::Figures;
use crate::machine::{boot, read_clock, resident_bytes, sleep};
use crate::many::Many;
use crate::worker::Worker;

const TTL: Duration = Duration::from_secs(30);

pub(crate) type Outcome = Result<(), Box<dyn Error>>;

pub(crate) async fn run(figures: &mut Figures, only: &str) -> Outcome {
    if "check".starts_with(only) {
        eprintln!("permission");
        check(figures).await?;
    }
    if "memory".starts_with(only) {
        eprintln!("memory store");
        verbs(figures, "memory", &MemoryStore::new(), 20_000).await?;
    }
    if "file".starts_with(only) {
        eprintln!("file store");
        let directory = tempfile::tempdir()?;
        bare_commits(figures, directory.path())?;
        verbs(figures, "file", &FileStore::open(directory.path().join("verbs"))?, 500).await?;
        handover(figures, &directory.path().join("handover"), 300).await?;
        failover(figures, &directory.path().join("failover"), 300).await?;
    }
    if "many".starts_with(only) {
        eprintln!("many elections in one process");
        // Once, before both: what the first leaves behind is memory that the second has, too.
        let before = resident_bytes();
        for (name, count) in [("memory_10k", 10_000), ("memory_100k", 100_000)] {
            let many = Many::elect(MemoryStore::new(), name, count).await?;
            figures.add(&format!("{name}_elected_s"), many.took.as_secs_f64(), "s");
            many.at_work(figures, name, before).await?;
            many.close().await;
        }
    }
    Ok(())
}

/// `is_leader()` against the two bare clock reads that it cannot do without, in turns: the machine is shared.
async fn check(figures: &mut Figures) -> Outcome {
    const ROUNDS: usize = 40;
    const CALLS: u32 = 100_000;
    let leadership = Elections::new(MemoryStore::new()).lead("check").await?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let begin = boot();
        for _ in 0..CALLS {
            black_box((read_clock(ClockId::Boottime), read_clock(ClockId::MonotonicRaw)));
        }
        let middle = boot();
        for _ in 0..CALLS {
            black_box(leadership.is_leader());
        }
        bare.push(middle - begin);
        ours.push(boot() - middle);
    }
    // The quickest round of each: what the code costs, not what the neighbours cost.
    let quickest = |rounds: &[Duration]| rounds.iter().min().map_or(0.0, Duration::as_secs_f64);
    figures.add("check_ns", quickest(&ours) / f64::from(CALLS) * 1e9, "ns");
    figures.add("check_bare_ns", quickest(&bare) / f64::from(CALLS) * 1e9, "ns");
    figures.add("check_ratio", quickest(&ours) / quickest(&bare), "× bare");
    Ok(())
}

async fn verbs(figures: &mut Figures, name: &str, store: &dyn LeaseStore, rounds: u32) -> Outcome {
    let random = Random::from_os();
    let election = ElectionName::new("verbs")?;
    let (mut acquires, mut renews, mut releases) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let bid = bid(&random)?;
        let begin = boot();
        let Acquisition::Acquired(lease) = store.acquire(&election, &bid).await? else {
            return Err("refused".into());
        };
        acquires.push(boot() - begin);
        let renew = Renew { lease, attempt: Attempt::new(&random), open: Vec::new(), answer: None };
        let begin = boot();
        let answer = store.renew(std::slice::from_ref(&renew)).await.pop();
        renews.push(boot() - begin);
        let Some(Ok(Renewal::Renewed(lease, _))) = answer else { return Err("not renewed".into()) };
        let (attempt, open, next) = (Attempt::new(&random), Vec::new(), Next::Anybody);
        let release = Release { lease, attempt, open, next, succeeded: false, answer: None };
        let begin = boot();
        store.release(&release).await?;
        releases.push(boot() - begin);
    }
    figures.add_spread(&format!("{name}_acquire"), acquires);
    figures.add_spread(&format!("{name}_renew"), renews);
    figures.add_spread(&format!("{name}_release"), releases);
    Ok(())
}

pub(crate) fn bid(random: &Random) -> Result<Bid, Box<dyn Error>> {
    Ok(Bid {
        id: BidId::new(random),
        attempt: Attempt::new(random),
        open: Vec::new(),
        candidate: CandidateId::new("bench")?,
        identity: None,
        origin: Origin::default(),
        ttl: TTL,
        metadata: Metadata::new(),
        floor: FencingToken::ZERO,
        supersedes: None,
    })
}

/// What the file system alone costs: write a file, link it to its name, remove both.
fn bare_commits(figures: &mut Figures, directory: &std::path::Path) -> Outcome {
    let mut samples = Vec::new();
    let (new, place) = (directory.join("new"), directory.join("place"));
    for _ in 0..500 {
        let begin = boot();
        std::fs::write(&new, [b'x'; 600])?;
        std::fs::hard_link(&new, &place)?;
        std::fs::remove_file(&new)?;
        std::fs::remove_file(&place)?;
        samples.push(boot() - begin);
    }
    figures.add_spread("file_bare_commit", samples);
    Ok(())
}

/// Two processes hand an election back and forth.
async fn handover(figures: &mut Figures, directory: &std::path::Path, rounds: usize) -> Outcome {
    let mut samples = Vec::new();
    let mut leader = Worker::start(directory, TTL).await?;
    leader.hear("elected").await?;
    let mut follower = Worker::start(directory, TTL).await?;
    for _ in 0..rounds {
        // Standing by, for certain: it has been refused and watches.
        sleep(Duration::from_millis(20)).await;
        let begin = leader.give_back().await?;
        let elected = follower.hear("elected").await?;
        samples.push(elected.saturating_sub(begin));
        leader.stand_again().await?;
        std::mem::swap(&mut leader, &mut follower);
    }
    figures.add_spread("file_handover", samples);
    Ok(())
}

/// The leader is killed without a word; the other process takes over long before the ttl.
async fn failover(figures: &mut Figures, directory: &std::path::Path, rounds: usize) -> Outcome {
    let mut samples = Vec::new();
    let mut leader = Worker::start(directory, TTL).await?;
    leader.hear("elected").await?;
    for _ in 0..rounds {
        let mut follower = Worker::start(directory, TTL).await?;
        sleep(Duration::from_millis(20)).await;
        let killed = leader.kill().await?;
        let elected = follower.hear("elected").await?;
        samples.push(elected.saturating_sub(killed));
        leader = follower;
    }
    figures.add_spread("file_kill", samples);
    Ok(())
}
