//! One run: a scenario and a seed, from the first candidate to the last stop.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::Random;
use tenure_core::flaw::Active;

use crate::flaw::FlawCase;
use crate::invariant::{self, Broken};
use crate::plan::{Plan, derive};
use crate::scenario::Scenario;
use crate::server::Kind;
use crate::trace::{Promises, State, Trace, What, Who};
use crate::world::World;

/// What a run came to.
#[derive(Debug)]
pub struct Run {
    /// What happened.
    pub trace: Trace,
    /// What should not have.
    pub broken: Vec<Broken>,
}

/// Numbers the runs of this program, so that no two have a candidate of the same name.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Runs `scenario` with `seed`, on a thread of its own time.
///
/// # Panics
/// If the operating system gives no runtime.
#[must_use]
pub fn run(scenario: &Scenario, seed: u64, flaw: Option<&FlawCase>) -> Run {
    let _active = Active::new(flaw.and_then(|flaw| flaw.core));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("no runtime: {error}"));
    let number = RUNS.fetch_add(1, Ordering::Relaxed);
    let mut plan = (scenario.plan)(&Random::from_seed(derive(seed, scenario.name)));
    let wrong = flaw.and_then(|flaw| flaw.wrong);
    if let Some(kind) = flaw.and_then(|flaw| flaw.kind) {
        plan.kind = kind;
    }
    let promises = Promises {
        exclusion: plan.exclusion,
        tokens: plan.tokens,
        overlap_ttls: plan.overlap_ttls,
        longest_call: longest_call(&plan),
        ttl: plan.ttl,
    };
    let prefix = format!("{}-{seed}-{number}", scenario.name);
    let entries = runtime.block_on(async {
        let world = World::new(prefix, seed, plan, wrong);
        play(&world, scenario).await;
        let entries = world.net().trace.take();
        world.forget();
        entries
    });
    let trace = Trace { entries, promises };
    let broken = invariant::check_all(&trace);
    Run { trace, broken }
}

/// An adaptor makes several steps of one call (write, look, write …), and each may be slow or held back.
fn longest_call(plan: &Plan) -> Duration {
    let weather = &plan.weather;
    let step = weather.late_up_to + weather.pause_up_to + weather.request.1 + weather.reply.1;
    let steps = if matches!(plan.kind, Kind::Ttl | Kind::Queue) { 6 } else { 3 };
    step * steps + Duration::from_secs(1)
}

async fn play(world: &World, scenario: &Scenario) {
    for _ in 0..world.plan().candidates {
        world.start();
        world.sleep(world.dice().up_to(Duration::from_millis(20))).await;
    }
    tokio::select! {
        biased;
        () = (scenario.script)(world.clone()) => {}
        () = world.sleep(world.time_for_faults()) => {}
    }
    world.sleep(world.time_for_faults()).await;
    world.calm_down();
    if !world.processes().iter().any(|process| process.stands()) {
        world.start();
    }
    for _ in 0..20 {
        world.sleep(world.ttl() / 10).await;
        for process in world.processes() {
            if process.handle().is_some_and(|handle| handle.is_leader()) && !process.gate.is_crashed() {
                world.add(process.who, What::Leads);
            }
        }
    }
    stop_all(world).await;
    world.add(Who::WORLD, What::End);
}

async fn stop_all(world: &World) {
    let stopping: Vec<_> = world
        .processes()
        .into_iter()
        .filter(|process| !process.gate.is_crashed())
        .map(|process| process.stop())
        .collect();
    for stopped in stopping {
        tokio::select! {
            biased;
            _ = stopped => {}
            () = world.sleep(world.ttl()) => world.unexpected("a stop in good weather took longer than a ttl"),
        }
    }
    let stored = world.net().server(0).stored(&world.net().election, 0);
    if world.plan().exclusion && stored.is_some_and(|stored| stored.state == State::Held) {
        world.unexpected("a lease is left although everybody has stopped in good weather");
    }
}
