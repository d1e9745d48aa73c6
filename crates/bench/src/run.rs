//! `tenure run` against a bare spawn of the same command: how much later it starts, how soon another machine's starts, and
//! what a wrapper costs while nothing happens.
//!
//! The command is this program: it says when it began, and waits.

use std::fs;
use std::io::{BufRead, BufReader, Error, Result, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::figures::Figures;
use crate::machine::{boot, pause};

const STARTS: usize = 100;
const TAKEOVERS: usize = 60;
/// Shorter than the renew interval: nothing is due in it.
const IDLE: Duration = Duration::from_secs(6);

pub(crate) fn run(figures: &mut Figures, only: &str) -> Result<()> {
    let tenure = build()?;
    let parts: [(&str, Part); 3] = [("start", starts), ("takeover", takeovers), ("idle", idle)];
    let bare = median((0..STARTS).map(|_| bare_start()).collect::<Result<_>>()?);
    figures.add("run_bare_spawn_p50_ms", bare.as_secs_f64() * 1e3, "ms");
    for (name, part) in parts {
        if name.starts_with(only) {
            part(&tenure, bare, figures)?;
        }
    }
    Ok(())
}

type Part = fn(&Path, Duration, &mut Figures) -> Result<()>;

/// What the wrapper runs: says when it began, then waits for its end.
pub(crate) fn command() -> ! {
    println!("{}", boot().as_nanos());
    let _ = std::io::stdout().flush();
    loop {
        pause(Duration::from_secs(3600));
    }
}

/// Builds the command that is measured, in the folder of this program.
fn build() -> Result<std::path::PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(["build", "--quiet", "--release", "-p", "tenure-cli"]).status()?;
    let tenure = std::env::current_exe()?.with_file_name("tenure");
    if !status.success() || !tenure.exists() {
        return Err(Error::other(
            "cannot build the command: run this with cargo run --release -p tenure-bench",
        ));
    }
    Ok(tenure)
}

/// A process whose command says when it began.
struct Started {
    child: Child,
    output: BufReader<ChildStdout>,
    asked: Duration,
}

impl Started {
    fn new(command: &mut Command) -> Result<Self> {
        let asked = boot();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| Error::other("no pipe"))?;
        Ok(Self { child, output: BufReader::new(output), asked })
    }

    fn wrapper(tenure: &Path, directory: &Path, more: &[&str]) -> Result<Self> {
        let store = format!("file://{}", directory.display());
        let bench = std::env::current_exe()?;
        let mut command = Command::new(tenure);
        command.args(["run", "--election", "bench", "--store", &store]).args(more);
        Self::new(command.arg("--").arg(bench).arg("command"))
    }

    /// Waits until the command has begun.
    fn began(&mut self) -> Result<Duration> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.trim().parse().map(Duration::from_nanos).map_err(|_| Error::other("the command did not start"))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn kill(&self) -> Result<Duration> {
        let at = boot();
        kill_process(self.pid(), Signal::KILL)?;
        Ok(at)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // The end of the output is the end of everybody who could write to it: nothing of this sample disturbs the next.
        let mut rest = Vec::new();
        let _ = std::io::Read::read_to_end(&mut self.output, &mut rest);
    }
}

fn bare_start() -> Result<Duration> {
    let mut started = Started::new(Command::new(std::env::current_exe()?).arg("command"))?;
    Ok(started.began()?.saturating_sub(started.asked))
}

/// A free election: from the start of the wrapper to the start of its command.
fn starts(tenure: &Path, bare: Duration, figures: &mut Figures) -> Result<()> {
    let mut samples = Vec::new();
    for _ in 0..STARTS {
        let directory = tempfile::tempdir()?;
        let mut started = Started::wrapper(tenure, directory.path(), &[])?;
        samples.push(started.began()?.saturating_sub(started.asked));
    }
    add_over_bare(figures, "run_start", samples, bare);
    Ok(())
}

/// From the death of one wrapper, or of its command, to the start of the other one's command.
fn takeovers(tenure: &Path, bare: Duration, figures: &mut Figures) -> Result<()> {
    let (mut killed, mut crashed) = (Vec::new(), Vec::new());
    for sample in 0..2 * TAKEOVERS {
        let directory = tempfile::tempdir()?;
        let mut first = Started::wrapper(tenure, directory.path(), &["--failover-on-crash"])?;
        first.began()?;
        let mut second = Started::wrapper(tenure, directory.path(), &["--failover-on-crash"])?;
        stands_by(directory.path(), second.pid())?;
        let (at, samples) = if sample % 2 == 0 {
            (first.kill()?, &mut killed)
        } else {
            let command = command_below(first.pid())?;
            let at = boot();
            kill_process(command, Signal::KILL)?;
            (at, &mut crashed)
        };
        samples.push(second.began()?.saturating_sub(at));
    }
    add_over_bare(figures, "run_kill", killed, bare);
    add_over_bare(figures, "run_crash", crashed, bare);
    Ok(())
}

/// What a leading wrapper costs between two renewals.
fn idle(tenure: &Path, _: Duration, figures: &mut Figures) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mut started = Started::wrapper(tenure, directory.path(), &[])?;
    started.began()?;
    let wrapper = started.pid();
    let guardian = below(wrapper, "__guardian")?;
    let keeper = below(guardian, "__keeper")?;
    // What is left of the start is over when nothing happens for a while.
    let everybody = [wrapper, guardian, keeper];
    let mut before = wake_ups(&everybody)?;
    loop {
        pause(Duration::from_secs(1));
        let now = wake_ups(&everybody)?;
        if now == before {
            break;
        }
        before = now;
    }
    let begun = wake_ups(&everybody)?;
    pause(IDLE);
    figures.add("run_idle_wake_ups", to_f64(wake_ups(&everybody)? - begun), "in 6 s");
    figures.add("run_wrapper_private_kib", to_f64(private_kib(wrapper)?), "KiB");
    figures.add("run_guardian_private_kib", to_f64(private_kib(guardian)?), "KiB");
    figures.add("run_keeper_private_kib", to_f64(private_kib(keeper)?), "KiB");
    Ok(())
}

fn to_f64(number: u64) -> f64 {
    u32::try_from(number).map_or(f64::MAX, f64::from)
}

fn add_over_bare(figures: &mut Figures, name: &str, samples: Vec<Duration>, bare: Duration) {
    let over = samples.into_iter().map(|sample| sample.saturating_sub(bare)).collect();
    figures.add_spread(&format!("{name}_over_bare"), over);
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// Waits until the store shows that a follower watches: it has the election's folder under inotify.
fn stands_by(directory: &Path, follower: Pid) -> Result<()> {
    for _ in 0..10_000 {
        if watches(follower) && directory.join("boots").exists() {
            return Ok(());
        }
        pause(Duration::from_millis(1));
    }
    Err(Error::other("the second wrapper does not stand by"))
}

fn watches(process: Pid) -> bool {
    let folder = format!("/proc/{}/fdinfo", process.as_raw_nonzero());
    let Ok(entries) = fs::read_dir(folder) else { return false };
    entries
        .flatten()
        .any(|entry| fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("inotify wd:")))
}

fn stat_of(process: &str) -> Option<(String, i32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn children(parent: Pid) -> Result<Vec<(Pid, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pid) = name.parse().ok().and_then(Pid::from_raw) else { continue };
        if stat_of(&name).is_some_and(|(_, of)| of == parent.as_raw_nonzero().get()) {
            found.push((pid, fs::read(format!("/proc/{name}/cmdline")).unwrap_or_default()));
        }
    }
    Ok(found)
}

/// Returns the child of `parent` with this argument.
fn below(parent: Pid, argument: &str) -> Result<Pid> {
    let has = |line: &[u8]| line.split(|byte| *byte == 0).any(|part| part == argument.as_bytes());
    let found = children(parent)?.into_iter().find(|(_, line)| has(line));
    found.map(|(pid, _)| pid).ok_or_else(|| Error::other(format!("no {argument} below {parent:?}")))
}

/// Returns the command that a wrapper's keeper runs.
fn command_below(wrapper: Pid) -> Result<Pid> {
    let keeper = below(below(wrapper, "__guardian")?, "__keeper")?;
    below(keeper, "command")
}

/// How often the threads of these processes slept and were woken.
fn wake_ups(processes: &[Pid]) -> Result<u64> {
    let mut sum = 0;
    for process in processes {
        for thread in fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()))?.flatten() {
            let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum += count.and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(sum)
}

/// Memory that the process shares with nobody.
fn private_kib(process: Pid) -> Result<u64> {
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", process.as_raw_nonzero()))?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("Private_"));
    Ok(lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum())
}
