//! What can be typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use tenure::ElectionName;
use tenure::config::percent;

use crate::control::args::{
    CandidatesArgs, HandoffArgs, PauseArgs, ReleaseArgs, RepairArgs, ResignArgs, ResumeArgs, TokenArgs,
};
use crate::duration;

/// Leader election for any program: one copy leads, the others stand by.
#[derive(Parser, Debug)]
#[command(
    name = "tenure",
    version,
    max_term_width = 100,
    after_help = "Examples:
  tenure run --election billing -- ./worker
  tenure status
  tenure leader billing

Exit code: 0 yes, 1 no (nobody leads, no such election), 2 usage or configuration, 3 store unavailable;
those of run: tenure run --help."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand, Debug)]
#[allow(clippy::large_enum_variant)] // There is one in a process.
pub(crate) enum Verb {
    Run(RunArgs),
    Status(StatusArgs),
    Watch(WatchArgs),
    List(ListArgs),
    Leader(LeaderArgs),
    History(HistoryArgs),
    Doctor(DoctorArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
    Demo(crate::demo::DemoArgs),
    Candidates(CandidatesArgs),
    Resign(ResignArgs),
    Handoff(HandoffArgs),
    Pause(PauseArgs),
    Resume(ResumeArgs),
    Release(ReleaseArgs),
    Repair(RepairArgs),
    Token(TokenArgs),
    Config(ConfigArgs),
}

/// Where leases live.
#[derive(Args, Debug, Clone)]
pub(crate) struct StoreArgs {
    /// Where leases live: file: (this machine's default directory), file:///path, redis://host:6379 (docs/stores/redis.md), memory: (default: TENURE_STORE, the configuration, file:)
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// The configuration (default: TENURE_CONFIG, ./tenure.toml, .json, .yaml, .yml, .hcl or .honua, the one in /etc/tenure)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Runs a command while this process leads the election, on exactly one machine at a time.
///
/// Waits as a follower until it is elected, runs the command while it leads, stops it when leadership ends, and stands
/// again. The command and everything that it started have ended before anybody else may start it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure run --election hello -- sh -c 'echo \"term $TENURE_TOKEN: I lead\"'
  tenure run --election nightly --once --try --min-interval 20h -- ./report.sh
  tenure run --config tenure.toml --all

The command gets TENURE_ELECTION, TENURE_CANDIDATE, TENURE_TOKEN, TENURE_PREVIOUS_TOKEN, TENURE_ATTEMPTS,
TENURE_STORE and TENURE_DEADLINE_FILE (one number: until when it leads, in nanoseconds of the boot
clock; 0 when that is over).

A command that ends by itself is not started again, by anybody, for a second; twice as long each time
it ends within 10 seconds, up to 30 seconds.

Exit code: the command's (128+n after signal n); 75 somebody else leads, or nobody
may for now (--try, --wait), 124 leadership lost
(--once), 125 tool or store failure, 126 not executable, 127 not found.")]
pub(crate) struct RunArgs {
    /// What is contested, by name (default: TENURE_ELECTION, the only one in the configuration)
    #[arg(long, value_name = "NAME")]
    pub(crate) election: Option<String>,

    /// Run every election of the configuration that has a command
    #[arg(long, conflicts_with_all = ["election", "command", "interactive"])]
    pub(crate) all: bool,

    /// Stop when standard input ends, and name the election in each line: somebody runs several
    #[arg(long, hide = true)]
    pub(crate) one_of_all: bool,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// Run the command once: exit with its code after its first end
    #[arg(long)]
    pub(crate) once: bool,

    /// Do not wait: exit with 75 if somebody else leads
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_once: bool,

    /// Wait at most this long to be elected, then exit with 75
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Do not start the command within this time of its last successful end on any machine; exit with 0 instead
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) min_interval: Option<Duration>,

    /// When the command crashes, let the next machine start it at once
    #[arg(long)]
    pub(crate) failover_on_crash: bool,

    /// Hand the terminal to the command (default: its standard input is /dev/null)
    #[arg(long)]
    pub(crate) interactive: bool,

    /// Keep the command's processes together: auto (what it does not notice), on (a PID namespace, or fail), off (default: auto)
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) isolate: Option<Isolate>,

    #[command(flatten)]
    pub(crate) settings: SettingsArgs,

    /// Run this with sh when elected, before the command; it is stopped with the term
    #[arg(long, value_name = "CMD")]
    pub(crate) on_elected: Option<String>,

    /// Run this with sh when leadership was lost
    #[arg(long, value_name = "CMD")]
    pub(crate) on_lost: Option<String>,

    /// Run this with sh when another leader was seen
    #[arg(long, value_name = "CMD")]
    pub(crate) on_leader_change: Option<String>,

    /// Write each event as a line of JSON to standard error instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but errors
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// Say more, such as each renewal that failed
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// What to run, after -- (default: the command in the configuration)
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How the command's processes are kept together.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Isolate {
    Auto,
    On,
    Off,
}

impl Isolate {
    /// Returns how it is written.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// Reads how it is written.
    pub(crate) fn named(name: &str) -> Self {
        [Self::On, Self::Off].into_iter().find(|isolate| isolate.name() == name).unwrap_or(Self::Auto)
    }
}

/// The settings, by their names.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingsArgs {
    /// A named set of settings: fast, balanced, stable, object-storage (default: balanced)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// How long a lease lasts without renewal (default: 30s)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// How often the leader renews (default: ttl / 3)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) renew_interval: Option<Duration>,

    /// How often a follower looks if nothing wakes it (default: ttl / 6)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) retry_interval: Option<Duration>,

    /// How long the command may take to stop after SIGTERM (default: 5s, less with a short ttl)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) drain_timeout: Option<Duration>,

    /// How long one attempt to reach the store may take (default: renew interval / 2, at most 5s)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) call_timeout: Option<Duration>,

    /// How much clocks may differ in rate, in percent (default: 10)
    #[arg(long, value_name = "PERCENT", value_parser = percent::parse)]
    pub(crate) drift: Option<f64>,

    /// What wake-up, kill and reaping may take (default: 100ms)
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) latency: Option<Duration>,
}

/// How a store is looked at.
#[derive(Args, Debug, Clone)]
pub(crate) struct ReadArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,

    /// How long one attempt to reach the store may take
    #[arg(long, value_name = "DURATION", value_parser = duration::above_zero, default_value = "5s")]
    pub(crate) call_timeout: Duration,

    /// Write JSON (its keys: docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows who leads: all elections, or one with everything that is known about it.
///
/// Only looks: takes no part, changes nothing, and makes no directory.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure status
  tenure status billing
  tenure status --json billing

Exit code: 0 shown, 1 no such election, 2 usage or configuration, 3 store unavailable.")]
pub(crate) struct StatusArgs {
    /// Which election (default: all)
    #[arg(value_name = "NAME")]
    pub(crate) election: Option<ElectionName>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Shows every change, one line each, until it is stopped.
///
/// Begins with a line for each election as it is. Renewals are no changes. Without a name it also shows elections that
/// begin later.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure watch
  tenure watch billing nightly
  tenure watch --json billing

Exit code: 0 nobody reads any more, 2 usage or configuration, 3 store unavailable at the start.")]
pub(crate) struct WatchArgs {
    /// Which elections (default: all)
    #[arg(value_name = "NAME")]
    pub(crate) elections: Vec<ElectionName>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Lists elections, one name a line.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure list
  tenure list team-a/
  tenure list --json

Exit code: 0 listed (also if there are none), 2 usage or configuration, 3 store unavailable.")]
pub(crate) struct ListArgs {
    /// Only those that begin with this
    #[arg(value_name = "PREFIX", default_value = "", hide_default_value = true)]
    pub(crate) prefix: String,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Prints who leads an election; exits with 1 if nobody does.
///
/// The answer is of the moment in which the store was asked. To keep a former leader from writing, give TENURE_TOKEN to
/// what you write to, and let it refuse lower ones.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure leader billing
  tenure leader --json billing

Inside the command of `tenure run`:
  tenure leader --is-me && ./send-bills.sh

Exit code: 0 yes, 1 nobody leads (--is-me: it is not me), 2 usage or configuration, 3 store unavailable.")]
pub(crate) struct LeaderArgs {
    /// Which election (with --is-me default: the one that this command runs under)
    #[arg(value_name = "NAME", required_unless_present = "is_me")]
    pub(crate) election: Option<ElectionName>,

    /// Exit with 0 only if the leader is the one that this command runs under, in the same term (inside `tenure run`)
    #[arg(long)]
    pub(crate) is_me: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Shows the last terms of an election, the newest last.
///
/// A store keeps the last eight terms that ended, and the present one.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure history billing
  tenure history --json billing

Exit code: 0 shown, 1 no such election, 2 usage or configuration, 3 store unavailable.")]
pub(crate) struct HistoryArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Tries the store out, and says what can be counted on here.
///
/// Bids, renews and releases in an election of its own, `tenure-doctor`, also many at once; measures, and says which ttl
/// will do; looks at clocks, file system and environment. No other election is touched.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure doctor
  tenure doctor --json
  tenure doctor --read-only

Exit code: 0 all works, 1 something does not, 2 usage or configuration.")]
pub(crate) struct DoctorArgs {
    /// Only look: make no bid, and write nothing
    #[arg(long)]
    pub(crate) read_only: bool,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Prints the completions of a shell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure completions bash > tenure.bash
  tenure completions zsh > _tenure
  tenure completions fish > tenure.fish

Where they go: /etc/bash_completion.d/ or ~/.local/share/bash-completion/completions/ for bash, a directory of
$fpath for zsh, ~/.config/fish/completions/ for fish.

Exit code: 0 printed, 2 usage.")]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: clap_complete::Shell,
}

/// Prints the manual page, or writes one for every verb into a directory.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure man > tenure.1
  tenure man --dir man1

Exit code: 0 written, 2 usage, or the directory cannot be written.")]
pub(crate) struct ManArgs {
    /// Write tenure.1 and a page for each verb, such as tenure-run.1, into this directory
    #[arg(long, value_name = "PATH")]
    pub(crate) dir: Option<PathBuf>,
}

/// Checks, shows or describes the configuration: flags, environment, file and defaults together.
///
/// A flag counts more than a variable of the environment (TENURE_TTL for --ttl), that more than a file, and within a file
/// what is said of an election more than what stands at the top.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure config check
  tenure config show --ttl 10s
  tenure config schema

Exit code: 0 no mistake, 2 usage or configuration.")]
pub(crate) struct ConfigArgs {
    /// check (says every mistake), show (every value and where it comes from), schema (JSON schema of the file, for editors)
    #[arg(value_name = "WHAT", hide_possible_values = true)]
    pub(crate) what: ConfigWhat,

    /// Which election (default: TENURE_ELECTION, all in the configuration)
    #[arg(long, value_name = "NAME")]
    pub(crate) election: Option<String>,

    #[command(flatten)]
    pub(crate) store: StoreArgs,

    #[command(flatten)]
    pub(crate) settings: SettingsArgs,

    /// Write JSON (its keys: docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is wanted of the configuration.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConfigWhat {
    Check,
    Show,
    Schema,
}
