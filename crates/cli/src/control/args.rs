//! What can be typed after the verbs that change something.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tenure::ElectionName;
use tenure::store::LeaseRecord;

use crate::args::ReadArgs;
use crate::duration;

/// Asks the leader to resign, and waits until it has.
///
/// The leader stops its work first and gives the lease back then, so that nobody else starts beside it. It stands again a
/// little later.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure resign billing
  tenure resign billing --timeout 1m

Exit code: 0 it resigned, 1 it did not (nobody leads, refused, no answer in time), 2 usage or
configuration, 3 store unavailable.")]
pub(crate) struct ResignArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// How long a leader is waited for.
#[derive(Args, Debug, Clone, Copy)]
pub(crate) struct WaitArgs {
    /// How long to wait for the answer; the request stands as long (default: the ttl of the leader's lease)
    #[arg(long, value_name = "DURATION", value_parser = duration::above_zero)]
    pub(crate) timeout: Option<Duration>,
}

/// How long a leader is waited for whose ttl is not known.
const PATIENCE: Duration = Duration::from_secs(30);

impl WaitArgs {
    /// Returns how long to wait for the leader that a record shows.
    pub(crate) fn for_leader_of(self, record: &LeaseRecord) -> Duration {
        let ttl = record.leader().filter(|leader| !leader.is_foreign()).map(|leader| leader.ttl);
        self.timeout.or(ttl).unwrap_or(PATIENCE)
    }
}

/// Asks the leader to hand off to another candidate, and waits until that one leads.
///
/// The leader stops its work first, and gives the lease back in favour of the one that is named: the others leave it alone for
/// a while. Without --to anybody may take over but the leader.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure handoff billing
  tenure handoff billing --to web-2_4711_0c8f2a91

Where the store can tell who stands by (tenure candidates NAME), a host, an identity or the
beginning of a name is enough, and nobody is stopped for somebody who is not there.

Exit code: 0 another one leads, 1 it does not (nobody leads, nobody of that name stands by,
refused, no answer in time), 2 usage or configuration, 3 store unavailable.")]
pub(crate) struct HandoffArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    /// Who shall lead: a candidate, its host, its identity, or the beginning of its name (default: anybody but the leader)
    #[arg(long, value_name = "WHO")]
    pub(crate) to: Option<String>,

    #[command(flatten)]
    pub(crate) wait: WaitArgs,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Keeps anybody new from being elected, for a while.
///
/// Whoever leads leads on, unless --resign is given. A pause always has an end; a second one replaces the first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure pause billing
  tenure pause billing --for 20m --resign

Exit code: 0 paused, 1 paused, but the leader did not resign (--resign), 2 usage or
configuration, 3 store unavailable.")]
pub(crate) struct PauseArgs {
    /// Which election; also one that nobody has led yet
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    /// How long
    #[arg(long = "for", value_name = "DURATION", value_parser = duration::above_zero, default_value = "1h")]
    pub(crate) length: Duration,

    /// Ask the leader to resign, too, and wait until it has
    #[arg(long)]
    pub(crate) resign: bool,

    /// How long to wait for the leader to resign (default: the ttl of its lease)
    #[arg(long, value_name = "DURATION", value_parser = duration::above_zero, requires = "resign")]
    timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

impl PauseArgs {
    /// Returns how long the leader is waited for.
    pub(crate) fn wait(&self) -> WaitArgs {
        WaitArgs { timeout: self.timeout }
    }
}

/// Ends a pause.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure resume billing

Exit code: 0 it is not paused (any more), 1 no such election, 2 usage or configuration, 3 store
unavailable.")]
pub(crate) struct ResumeArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Frees an election whose leader does not answer.
///
/// Asks the leader to resign and waits until it has, or until its lease has run out: then its work has stopped by its own
/// clock. A leader that goes on renewing keeps its lease.
///
/// With --now the election is free at once, and the former leader may go on until it hears of it, at the latest until
/// its lease would have run out: only a fence protects what it writes to.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure release billing --force
  tenure release billing --force --now --yes

Exit code: 0 it is free, 1 it is not (nobody led, the leader goes on renewing, not confirmed), 2
usage or configuration, 3 store unavailable.")]
pub(crate) struct ReleaseArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    /// Say that it is meant: the lease is somebody else's
    #[arg(long, required = true)]
    pub(crate) force: bool,

    /// Free it at once, although the leader may still act
    #[arg(long)]
    pub(crate) now: bool,

    /// Do not ask before it is freed at once
    #[arg(long, requires = "now")]
    pub(crate) yes: bool,

    /// How long to wait for the end of the term (default: until the lease has run out, if it is not renewed)
    #[arg(long, value_name = "DURATION", value_parser = duration::above_zero, conflicts_with = "now")]
    pub(crate) timeout: Option<Duration>,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Mends an election whose record cannot be understood.
///
/// Afterwards the election is free, and its next token is above every one that can still be found. Whoever led by the
/// broken record hears at its next renewal that it lost; until then only a fence protects what it writes to.
/// For stores in a directory.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure repair billing

Exit code: 0 it is mended, or was not broken, 1 no such election, 2 usage or configuration (also
a store that cannot be mended like this), 3 store unavailable.")]
pub(crate) struct RepairArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Lists who stands by, where the store can tell.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure candidates billing
  tenure candidates --json billing

The leader is not among them. Stores in Redis can tell; a directory cannot.

Exit code: 0 somebody stands by, 1 nobody does, or the store cannot tell, 2 usage or
configuration, 3 store unavailable.")]
pub(crate) struct CandidatesArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Fencing tokens: a floor for a new store, a fence for scripts.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure token floor nightly 1000
  tenure token check --resource bills --last 7

Exit code: 0 yes, 1 no, 2 usage or configuration, 3 store or fence unavailable.")]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) verb: TokenVerb,
}

#[derive(Subcommand, Debug)]
pub(crate) enum TokenVerb {
    Floor(FloorArgs),
    Check(CheckArgs),
}

/// Lets every later token of an election be above a number.
///
/// Tokens belong to one store. Whoever moves to another one gives it the highest token of the old one as a floor, before the
/// first candidate stands there: else fences would refuse the new leaders.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure token floor nightly 1000
  tenure token floor --json nightly 1000

Exit code: 0 every later token is above it, 1 not set: somebody leads, or nobody may, 2 usage or
configuration, 3 store unavailable.")]
pub(crate) struct FloorArgs {
    /// Which election
    #[arg(value_name = "NAME")]
    pub(crate) election: ElectionName,

    /// The number, such as the last token in the old store (tenure status NAME)
    // The token above it must be a number, too, and so must the one above that.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(..u64::MAX - 1))]
    pub(crate) floor: u64,

    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// Lets a token in unless a higher one has been here; a fence for scripts.
///
/// Remembers the highest token that came, in a file of this machine. The answer is of the moment in which it was given: a
/// newer leader may come before the script has written. Where what is written to can compare tokens itself, let it.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure token check --resource bills --last 7
  tenure token check --resource bills --last 7 && ./send-bills.sh

Inside the command of `tenure run` the token is \"$TENURE_TOKEN\".

Exit code: 0 it is the highest so far, 1 a higher one has been here: do not write, 2 usage or
configuration, 3 the fence cannot be read or written.")]
pub(crate) struct CheckArgs {
    /// What is written to, by a name of its own; the scripts that write to it use the same one
    #[arg(long, value_name = "NAME")]
    pub(crate) resource: String,

    /// The token of whoever wants to write
    #[arg(long, value_name = "TOKEN")]
    pub(crate) last: u64,

    /// Where the fence lies (default: the folder fences in the default directory of leases)
    #[arg(long, value_name = "PATH")]
    pub(crate) directory: Option<PathBuf>,

    /// How long to wait for a write that the same fence lets in just now
    #[arg(long, value_name = "DURATION", value_parser = duration::above_zero, default_value = "5s")]
    pub(crate) call_timeout: Duration,

    /// Write JSON (its keys: docs/json.md)
    #[arg(long)]
    pub(crate) json: bool,
}
