//! `tenure run`: stands for election, runs a command while it leads, and has it stopped before anybody else may lead.
//!
//! The wrapper keeps the lease; the [guardian](crate::guardian) keeps the command. What ends the command is decided in one of
//! three places: here (a stop, a resignation, a lost lease), in the guardian (a deadline that was not moved, a wrapper that is
//! gone), or in the command itself.

mod all;
mod deadline_file;
mod hooks;
mod notify;
mod pace;
mod plan;
pub(crate) mod record;
mod signals;
mod term;
mod voice;
mod wrapper;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::args::RunArgs;
use crate::exit;
use crate::talk;

use plan::{Plan, Refusal};
use voice::{Level, Mouth, Voice};
use wrapper::{Script, Wrapper};

pub(crate) fn main(args: &RunArgs) -> ExitCode {
    if args.all {
        return all::main(args);
    }
    let plan = match Plan::from(args) {
        Ok(plan) => plan,
        Err(refusal) => {
            refusal.lines().iter().for_each(|line| talk::say(line));
            return ExitCode::from(refusal.code);
        }
    };
    let mouth = match Mouth::open() {
        Ok(mouth) => Arc::new(mouth),
        Err(error) => {
            talk::say(&format!("error: no thread can be started: {error}"));
            return ExitCode::from(exit::FAILURE);
        }
    };
    let code = run(args, plan, &mouth).unwrap_or_else(|refusal| {
        for line in refusal.lines() {
            mouth.say(line, |lost| format!("tenure: {lost} lines are missing here"));
        }
        refusal.code
    });
    mouth.close();
    ExitCode::from(code)
}

fn run(args: &RunArgs, mut plan: Plan, mouth: &Arc<Mouth>) -> Result<u8, Refusal> {
    let level = match (args.quiet, plan.verbose) {
        (true, _) => Level::Error,
        (_, true) => Level::Verbose,
        _ => Level::Normal,
    };
    let script = Script { on_lost: plan.on_lost.take(), on_leader_change: plan.on_leader_change.take() };
    let voice = Voice {
        json: args.json,
        level,
        election: plan.election.to_string(),
        candidate: String::new(),
        one_of_all: args.one_of_all,
        mouth: Arc::clone(mouth),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // File work is done there. The threads stay: one that ends for want of work wakes up to do so.
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(3600))
        .build()
        .map_err(|error| Refusal::new(exit::FAILURE, format!("no runtime: {error}")))?;
    let code = runtime.block_on(async { Wrapper::prepare(plan, voice, script)?.run().await });
    // A call that hangs in the store must not keep the process.
    runtime.shutdown_background();
    code
}
