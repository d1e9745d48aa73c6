//! The verbs of the store beside the bare client's and those of `rslock`, in turns: the machine is shared.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use rslock::LockManager;
use tenure_core::store::{Acquisition, LeaseStore, Next, Release, Renew, Renewal};
use tenure_core::{Attempt, ElectionName, Random};
use tenure_redis::RedisStore;
use tenure_testkit::servers::redis::Redis;

use super::bare::Bare;
use crate::core::{Outcome, bid};
use crate::figures::Figures;
use crate::machine::boot;

/// Rounds of samples; a ratio is the median of theirs.
const ROUNDS: usize = 9;
const SAMPLES: usize = 400;
/// The first calls connect.
const WARM_UP: usize = 50;

/// How long the calls of each kind took in one round.
type Samples = BTreeMap<&'static str, Vec<Duration>>;

pub(super) async fn verbs(figures: &mut Figures) -> Outcome {
    let server = Redis::start().await;
    let store = RedisStore::from_url(&super::url(&server))?;
    let mut bare = Bare::connect(&server.url()).await?;
    let others = LockManager::new(vec![server.url()]);
    let random = Random::from_os();
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let mut samples = Samples::new();
        let count = if round == 0 { WARM_UP } else { SAMPLES };
        for number in 0..count {
            bare_verbs(&mut bare, &mut samples, &format!("bare-{round}-{number}")).await?;
            let fresh = ElectionName::new(format!("fresh-{round}-{number}"))?;
            our_verbs(&store, &random, &mut samples, &fresh, "acquire").await?;
            our_verbs(&store, &random, &mut samples, &ElectionName::new("again")?, "acquire_again").await?;
            rslock_verbs(&others, &mut samples, &format!("rslock-{round}-{number}")).await?;
        }
        if round > 0 {
            rounds.push(samples);
        }
    }
    for name in ["bare_acquire", "bare_renew", "acquire", "acquire_again", "renew", "release"]
        .into_iter()
        .chain(["rslock_acquire", "rslock_release"])
    {
        let all = rounds.iter().filter_map(|round| round.get(name)).flatten().copied().collect();
        figures.add_spread(&format!("redis_{name}"), all);
    }
    for (name, over) in
        [("acquire", "bare_acquire"), ("acquire_again", "bare_acquire"), ("renew", "bare_renew")]
    {
        add_ratio(figures, name, &rounds, over);
    }
    Ok(())
}

async fn our_verbs(
    store: &RedisStore,
    random: &Random,
    samples: &mut Samples,
    election: &ElectionName,
    acquire: &'static str,
) -> Outcome {
    let bid = bid(random)?;
    let begin = boot();
    let acquired = store.acquire(election, &bid).await?;
    note(samples, acquire, begin);
    let Acquisition::Acquired(lease) = acquired else { return Err("refused".into()) };
    let renew = Renew { lease, attempt: Attempt::new(random), open: Vec::new(), answer: None };
    let begin = boot();
    let answer = store.renew(std::slice::from_ref(&renew)).await.pop();
    note(samples, "renew", begin);
    let Some(Ok(Renewal::Renewed(lease, _))) = answer else { return Err("not renewed".into()) };
    let (attempt, open, next) = (Attempt::new(random), Vec::new(), Next::Anybody);
    let release = Release { lease, attempt, open, next, succeeded: false, answer: None };
    let begin = boot();
    store.release(&release).await?;
    note(samples, "release", begin);
    Ok(())
}

async fn bare_verbs(bare: &mut Bare, samples: &mut Samples, name: &str) -> Outcome {
    // As long as what a lease's value is.
    let value = format!("bench:{name:0>32}");
    let begin = boot();
    bare.acquire(name, &value).await?;
    note(samples, "bare_acquire", begin);
    let begin = boot();
    bare.renew(name, &value).await?;
    note(samples, "bare_renew", begin);
    bare.release(name, &value).await
}

async fn rslock_verbs(others: &LockManager, samples: &mut Samples, name: &str) -> Outcome {
    let begin = boot();
    let held = others.lock(name, Duration::from_secs(30)).await;
    note(samples, "rslock_acquire", begin);
    let held = held.map_err(|error| -> Box<dyn Error> { format!("rslock: {error:?}").into() })?;
    let begin = boot();
    others.unlock(&held).await;
    note(samples, "rslock_release", begin);
    Ok(())
}

fn note(samples: &mut Samples, name: &'static str, begin: Duration) {
    samples.entry(name).or_default().push(boot() - begin);
}

/// The median over the rounds of the ratio of two medians, and its spread.
fn add_ratio(figures: &mut Figures, name: &str, rounds: &[Samples], over: &str) {
    let mut ratios: Vec<_> = rounds
        .iter()
        .map(|round| middle(round, name).as_secs_f64() / middle(round, over).as_secs_f64())
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    if let (Some(best), Some(worst)) = (ratios.first(), ratios.last()) {
        figures.add(&format!("redis_{name}_ratio"), ratios[ratios.len() / 2], "× bare");
        figures.add(&format!("redis_{name}_ratio_best"), *best, "× bare");
        figures.add(&format!("redis_{name}_ratio_worst"), *worst, "× bare");
    }
}

fn middle(samples: &Samples, name: &str) -> Duration {
    let mut sorted = samples.get(name).cloned().unwrap_or_default();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
