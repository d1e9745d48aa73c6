//! Many runs, on all cores, and their summary.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::flaw::FlawCase;
use crate::invariant::Broken;
use crate::network::unpoisoned;
use crate::run::{Run, run};
use crate::scenario::Scenario;

/// What to run.
pub struct Batch {
    /// These scenarios …
    pub scenarios: Vec<&'static Scenario>,
    /// … each with these seeds.
    pub seeds: Range<u64>,
    /// A known mistake, switched on.
    pub flaw: Option<&'static FlawCase>,
    /// At most so many at once.
    pub threads: Option<usize>,
}

/// A run that broke an invariant.
#[derive(Clone, Debug)]
pub struct Failure {
    scenario: &'static str,
    seed: u64,
    flaw: Option<&'static str>,
    /// What broke.
    pub broken: Broken,
}

/// What became of one scenario.
#[derive(Clone, Debug, Default)]
struct Tally {
    runs: u64,
    broken: u64,
    counts: BTreeMap<&'static str, u64>,
    longest_overlap_ms: u64,
    /// What the scenario is about and did not happen in any run.
    missing: Vec<&'static str>,
}

/// What became of a batch.
#[derive(Clone, Debug, Default)]
pub struct Report {
    tallies: BTreeMap<&'static str, Tally>,
    failures: Vec<Failure>,
}

/// A fault that is rare by nature shows in so many runs; smaller batches prove nothing about it.
const ENOUGH: u64 = 10;

/// Runs everything.
#[must_use]
pub fn run_all(batch: &Batch) -> Report {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = batch.threads.unwrap_or(cores).clamp(1, 64);
    let report = Mutex::new(Report::default());
    let total = batch.scenarios.len() as u64 * (batch.seeds.end - batch.seeds.start);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= total {
                        return;
                    }
                    let count = batch.scenarios.len() as u64;
                    let scenario = batch.scenarios[usize::try_from(job % count).unwrap_or(0)];
                    let seed = batch.seeds.start + job / count;
                    let outcome = run(scenario, seed, batch.flaw);
                    unpoisoned(&report).add(scenario, seed, batch.flaw, &outcome);
                }
            });
        }
    });
    let mut report = report.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    report.failures.sort_by_key(|failure| (failure.scenario, failure.seed));
    if batch.flaw.is_none() {
        report.look_for_missing(&batch.scenarios);
    }
    report
}

impl Report {
    /// Reports a single run.
    #[must_use]
    pub fn of_one(scenario: &Scenario, seed: u64, flaw: Option<&FlawCase>, outcome: &Run) -> Self {
        let mut report = Self::default();
        report.add(scenario, seed, flaw, outcome);
        report
    }

    fn add(&mut self, scenario: &Scenario, seed: u64, flaw: Option<&FlawCase>, outcome: &Run) {
        let tally = self.tallies.entry(scenario.name).or_default();
        tally.runs += 1;
        for (name, count) in outcome.trace.counts() {
            *tally.counts.entry(name).or_default() += count;
        }
        let overlap = crate::invariant::longest_overlap(&outcome.trace).as_millis();
        tally.longest_overlap_ms = tally.longest_overlap_ms.max(u64::try_from(overlap).unwrap_or(u64::MAX));
        tally.broken += u64::from(!outcome.broken.is_empty());
        let flaw = flaw.and_then(|flaw| crate::flaw::find(flaw.name)).map(|flaw| flaw.name);
        self.failures.extend(outcome.broken.iter().map(|broken| {
            let scenario = crate::scenario::find(scenario.name).map_or("", |scenario| scenario.name);
            Failure { scenario, seed, flaw, broken: broken.clone() }
        }));
    }

    fn look_for_missing(&mut self, scenarios: &[&'static Scenario]) {
        for scenario in scenarios {
            if let Some(tally) = self.tallies.get_mut(scenario.name)
                && tally.runs >= ENOUGH
            {
                let missing = scenario.about.iter().filter(|fault| !tally.counts.contains_key(**fault));
                tally.missing = missing.copied().collect();
            }
        }
    }

    /// Tells whether every invariant held and everything happened that should.
    #[must_use]
    pub fn is_fine(&self) -> bool {
        self.failures.is_empty() && self.tallies.values().all(|tally| tally.missing.is_empty())
    }

    /// Returns the runs that broke something.
    #[must_use]
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    fn totals(&self) -> Tally {
        let mut totals = Tally::default();
        for tally in self.tallies.values() {
            totals.runs += tally.runs;
            totals.broken += tally.broken;
            for (name, count) in &tally.counts {
                *totals.counts.entry(name).or_default() += count;
            }
        }
        totals
    }

    /// Returns the summary as JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let totals = self.totals();
        let scenarios: Value = self
            .tallies
            .iter()
            .map(|(name, tally)| {
                let value = json!({
                    "runs": tally.runs,
                    "violations": tally.broken,
                    "terms": tally.counts.get("term").unwrap_or(&0),
                    "takeovers": tally.counts.get("takeover").unwrap_or(&0),
                    "longest_overlap_ms": tally.longest_overlap_ms,
                    "counts": tally.counts,
                    "never_happened": tally.missing,
                });
                ((*name).to_owned(), value)
            })
            .collect::<serde_json::Map<_, _>>()
            .into();
        let failures: Vec<_> = self
            .failures
            .iter()
            .map(|failure| {
                json!({
                    "scenario": failure.scenario,
                    "seed": failure.seed,
                    "invariant": failure.broken.invariant,
                    "at_seconds": failure.broken.at.as_secs_f64(),
                    "what": failure.broken.what,
                    "reproduce": failure.reproduce(),
                })
            })
            .collect();
        let summary = json!({
            "runs": totals.runs,
            "violations": totals.broken,
            "terms": totals.counts.get("term").unwrap_or(&0),
            "takeovers": totals.counts.get("takeover").unwrap_or(&0),
            "counts": totals.counts,
            "scenarios": scenarios,
            "failures": failures,
        });
        format!("{summary:#}\n")
    }
}

impl Failure {
    /// Returns the command that shows this failure again.
    #[must_use]
    pub fn reproduce(&self) -> String {
        let flaw = self.flaw.map(|flaw| format!(" --flaw {flaw}")).unwrap_or_default();
        let (scenario, seed) = (self.scenario, self.seed);
        format!("cargo run --release -p tenure-sim -- --scenario {scenario} --seed {seed}{flaw} --trace")
    }
}

/// Failures that are printed in full; the others are counted.
const SHOWN: usize = 20;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, tally) in &self.tallies {
            let verdict = if tally.broken == 0 && tally.missing.is_empty() { "ok" } else { "FAILED" };
            let (terms, takeovers) =
                (tally.counts.get("term").unwrap_or(&0), tally.counts.get("takeover").unwrap_or(&0));
            writeln!(
                f,
                "{name:<28} {verdict:<7} {:>6} runs  {:>4} broken  {terms:>7} terms  {takeovers:>7} takeovers  overlap {} ms",
                tally.runs, tally.broken, tally.longest_overlap_ms
            )?;
            for fault in &tally.missing {
                writeln!(f, "    never happened: {fault}")?;
            }
        }
        for failure in self.failures.iter().take(SHOWN) {
            let (broken, at) = (&failure.broken, failure.broken.at.as_secs_f64());
            writeln!(
                f,
                "\n{} of {}, seed {}, at {at} s: {}",
                broken.invariant, failure.scenario, failure.seed, broken.what
            )?;
            writeln!(f, "  reproduce: {}", failure.reproduce())?;
        }
        if self.failures.len() > SHOWN {
            writeln!(f, "\n… and {} more", self.failures.len() - SHOWN)?;
        }
        let totals = self.totals();
        writeln!(f, "\n{} runs, {} broken", totals.runs, totals.broken)
    }
}
