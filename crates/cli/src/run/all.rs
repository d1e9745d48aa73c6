//! `tenure run --all`: a process for each election of the configuration that has a command.
//!
//! Each of them is `tenure run` with a guardian of its own: none can hold up another. This one holds the other end of their
//! standard input: when it ends, whatever the reason, they stop.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus, Stdio};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustix::process::{Pid, Signal, kill_process};
use tenure::config::Config;
use tokio::process::{ChildStdin, Command};

use super::plan::{self, Refusal};
use super::signals::{Signals, TSTP, Wish};
use super::wrapper::suspend;
use crate::args::RunArgs;
use crate::{config, exit, talk};

pub(super) fn main(args: &RunArgs) -> ExitCode {
    match elections(args).and_then(|names| run(args, &names)) {
        Ok(code) => ExitCode::from(code),
        Err(refusal) => {
            refusal.lines().iter().for_each(|line| talk::say(line));
            ExitCode::from(refusal.code)
        }
    }
}

/// Returns the elections that have a command, all of which can be run.
fn elections(args: &RunArgs) -> Result<Vec<String>, Refusal> {
    let config = Config::load(&config::of_run(args))
        .map_err(|error| Refusal::new(exit::FAILURE, error.to_string()))?;
    let with_command: Vec<_> = config.elections().iter().filter(|one| one.command().is_some()).collect();
    if with_command.is_empty() {
        let file = config.file().map_or("there is no configuration".to_owned(), |file| {
            format!("{} has no election with a command", file.display())
        });
        return Err(Refusal::new(exit::FAILURE, file).hint("--all runs the elections of a configuration"));
    }
    with_command.iter().try_for_each(|election| plan::command(args, election).map(drop))?;
    Ok(with_command.iter().map(|election| election.name().to_string()).collect())
}

fn run(args: &RunArgs, names: &[String]) -> Result<u8, Refusal> {
    let failure = |what: &str, error: std::io::Error| Refusal::new(exit::FAILURE, format!("{what}: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| failure("no runtime", error))?.block_on(async {
        let mut signals =
            Signals::listen(false).map_err(|error| failure("cannot listen to signals", error))?;
        if !args.quiet && !args.json {
            talk::say(&format!("tenure: runs {} elections: {}", names.len(), names.join(", ")));
        }
        let mut all = All::default();
        let mut ends = FuturesUnordered::new();
        for name in names {
            let mut child =
                command(name).spawn().map_err(|error| failure("cannot start an election", error))?;
            all.add(child.id(), child.stdin.take());
            let (at, name) = (all.0.len() - 1, name.clone());
            ends.push(async move { (at, name, child.wait().await) });
        }
        let mut code = 0;
        loop {
            tokio::select! {
                biased;
                wish = signals.next() => all.obey(wish),
                ended = ends.next() => match ended {
                    None => return Ok(code),
                    Some((at, name, status)) => {
                        all.0[at].pid = None;
                        let ended = status.map_or(exit::FAILURE, |status| code_of(&name, status));
                        code = if code == 0 { ended } else { code };
                    }
                },
            }
        }
    })
}

/// Returns this very command for one election.
fn command(name: &str) -> Command {
    let own = std::env::args_os().skip(1).filter(|word| word != "--all");
    // In one word: a name may begin like a flag.
    let more = ["--one-of-all".to_owned(), format!("--election={name}")].map(OsString::from);
    let mut command = Command::new("/proc/self/exe");
    // A group of its own: what a terminal sends reaches it through this process, once.
    command.args(own).args(more).stdin(Stdio::piped()).process_group(0);
    command
}

fn code_of(name: &str, status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        talk::say(&format!("tenure: {name}: was killed by signal {signal}"));
        return u8::try_from(128 + signal).unwrap_or(exit::FAILURE);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILURE)
}

/// The processes, in the order in which they were started.
#[derive(Default)]
struct All(Vec<One>);

struct One {
    /// `None` when it has ended: its number may be another's then.
    pid: Option<Pid>,
    /// It stops when this is gone.
    hold: Option<ChildStdin>,
}

impl All {
    fn add(&mut self, id: Option<u32>, hold: Option<ChildStdin>) {
        let pid = id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        self.0.push(One { pid, hold });
    }

    fn obey(&mut self, wish: Wish) {
        match wish {
            Wish::Stop(_) | Wish::End if self.0.iter().any(|one| one.hold.is_some()) => {
                self.0.iter_mut().for_each(|one| drop(one.hold.take()));
            }
            Wish::Stop(_) | Wish::End => self.send(Signal::TERM),
            Wish::Forward(number) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    self.send(signal);
                }
            }
            Wish::Suspend => {
                if let Some(signal) = Signal::from_named_raw(TSTP) {
                    self.send(signal);
                }
                suspend();
                self.send(Signal::CONT);
            }
        }
    }

    fn send(&self, signal: Signal) {
        for pid in self.0.iter().filter_map(|one| one.pid) {
            let _ = kill_process(pid, signal);
        }
    }
}
