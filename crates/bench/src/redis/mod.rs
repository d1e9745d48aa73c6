//! Redis: every figure beside what the bare client costs in the same run, where there is such a thing.

mod bare;
mod terms;
mod verbs;

use std::time::Duration;

use tenure_core::{CandidateId, Elections, Settings};
use tenure_redis::RedisStore;
use tenure_testkit::proxy::{Proxy, Resp};
use tenure_testkit::servers::redis::Redis;

use crate::core::Outcome;
use crate::figures::Figures;
use crate::machine::{resident_bytes, sleep};
use crate::many::Many;

/// The server of a benchmark is always a young one: without this it would not grant anything for a ttl.
const OPTIONS: &str = "survives_restart=true";

pub(crate) async fn run(figures: &mut Figures, only: &str) -> Outcome {
    // First: what the others leave behind is memory that these would have for nothing.
    let before = resident_bytes();
    if "many_10k".starts_with(only) {
        eprintln!("10,000 elections in one process");
        many_10k(figures, before).await?;
    }
    if "many_100k".starts_with(only) {
        eprintln!("100,000 elections in one process");
        many_100k(figures, before).await?;
    }
    if "verbs".starts_with(only) {
        eprintln!("verbs beside the bare client");
        verbs::verbs(figures).await?;
    }
    if "handover".starts_with(only) {
        eprintln!("handover between processes");
        terms::handover(figures).await?;
    }
    if "followers".starts_with(only) {
        eprintln!("handover with 100 followers");
        terms::followers(figures).await?;
    }
    if "crash".starts_with(only) {
        eprintln!("crash");
        terms::crash(figures).await?;
    }
    if "requests".starts_with(only) {
        eprintln!("requests of ten candidates");
        requests(figures).await?;
    }
    Ok(())
}

fn url(server: &Redis) -> String {
    format!("{}?{OPTIONS}", server.url())
}

/// Ten candidates of one election at 30/10/5 s: what they ask the server for in a minute.
async fn requests(figures: &mut Figures) -> Outcome {
    let server = Redis::start().await;
    // It counts requests; the server's own statistics count what its scripts do, too.
    let proxy = Proxy::start(server.address(), Resp);
    let way = format!("{}?{OPTIONS}", server.url_by(proxy.address()));
    let settings = Settings::ttl(Duration::from_secs(30))
        .renew_interval(Duration::from_secs(10))
        .retry_interval(Duration::from_secs(5));
    let mut handles = Vec::new();
    for number in 0..10 {
        let candidate = CandidateId::new(format!("candidate-{number}"))?;
        let elections = Elections::builder(RedisStore::from_url(&way)?).settings(settings.clone());
        handles.push(elections.candidate(candidate).build().elector("requests").start()?);
    }
    // What connecting and beginning to watch costs is over.
    sleep(Duration::from_secs(12)).await;
    let asked = async || -> Result<u64, Box<dyn std::error::Error>> {
        let stats = server.call(&["INFO", "commandstats"]).await;
        let pings = stats.line("cmdstat_ping").unwrap_or_default();
        let pings = pings.strip_prefix("calls=").and_then(|rest| rest.split(',').next()).unwrap_or("0");
        Ok(proxy.counts().requests - pings.parse::<u64>()?)
    };
    let before = asked().await?;
    sleep(Duration::from_secs(60)).await;
    let count = u32::try_from(asked().await? - before)?;
    figures.add("redis_requests_per_minute", f64::from(count), "requests");
    for handle in handles {
        handle.stop().await;
    }
    Ok(())
}

async fn many_10k(figures: &mut Figures, before: u64) -> Outcome {
    const ROUNDS: usize = 5;
    let server = Redis::start().await;
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("round-{round}");
        let many = Many::elect(RedisStore::from_url(&url(&server))?, &name, 10_000).await?;
        took.push(many.took);
        if round == 0 {
            many.at_work(figures, "redis_10k", before).await?;
        }
        many.close().await;
    }
    took.sort_unstable();
    figures.add("redis_10k_elected_s", took[ROUNDS / 2].as_secs_f64(), "s (median)");
    figures.add("redis_10k_elected_best_s", took[0].as_secs_f64(), "s");
    figures.add("redis_10k_elected_worst_s", took[ROUNDS - 1].as_secs_f64(), "s");
    Ok(())
}

async fn many_100k(figures: &mut Figures, before: u64) -> Outcome {
    let server = Redis::start().await;
    let many = Many::elect(RedisStore::from_url(&url(&server))?, "100k", 100_000).await?;
    figures.add("redis_100k_elected_s", many.took.as_secs_f64(), "s");
    many.at_work(figures, "redis_100k", before).await?;
    many.close().await;
    Ok(())
}
