//! `tenure demo`: three real candidates in one terminal, to be killed, stopped, cut off and handed over to.
//!
//! Nothing is played: each candidate is `tenure run`, the store is a directory, a cut is a way to it that leads nowhere.
//! The picture is drawn from what the candidates say of themselves.

mod candidate;
mod cast;
mod event;
mod keys;
mod live;
mod picture;
mod place;
mod process;
mod screen;
mod script;
mod signals;
mod timeline;

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tenure::Settings;
use tenure::elector::InvalidSettings;
use tenure::store::{LeaseStore, StoreError};

use crate::{duration, exit, talk};
use cast::Cast;
use place::Place;

/// Shows an election live: three candidates that you kill, stop, cut off and start again.
///
/// Starts `tenure run` three times on a store in a temporary directory, and draws who stands by, who leads and what
/// just happened. At the end all of it is gone.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  tenure demo
  tenure demo --ttl 5s
  tenure demo --script
  tenure demo --script --json

Keys: 1, 2, 3 or the arrows choose a candidate; k kills it (SIGKILL), s stops it (SIGSTOP),
c continues it (SIGCONT), x cuts it off from the store and connects it again, h lets the leader
hand off to it, r starts it again; q quits.

Exit code: 0 shown, 1 what the script waited for did not happen, 2 usage or no terminal,
3 store unavailable.")]
pub(crate) struct DemoArgs {
    /// Play a fixed sequence without a terminal, and print a line for each event
    #[arg(long)]
    script: bool,

    /// Write the events of the script as JSON, one object a line (its keys: docs/json.md)
    #[arg(long, requires = "script")]
    json: bool,

    /// How long a lease lasts without renewal: so long after a stop or a cut another one takes over
    #[arg(long, value_name = "DURATION", value_parser = duration::above_zero, default_value = "2s")]
    ttl: Duration,

    /// Become a candidate that does not outlive its parent, this process; so the demonstration starts them
    #[arg(long, hide = true, value_name = "PID", conflicts_with = "script")]
    child_of: Option<i32>,

    /// What the candidate is started with
    #[arg(last = true, hide = true, requires = "child_of")]
    run: Vec<OsString>,
}

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the demonstration is drawn on a terminal, and standard input or output is none")]
    NoTerminal,
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot {what}: {error}")]
    System { what: &'static str, error: io::Error },
    #[error("the script came to a stop: {0}")]
    Script(String),
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::System { what, error }
    }

    fn code(&self) -> u8 {
        match self {
            // Whoever reads has enough.
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Self::NoTerminal | Self::Settings(_) | Self::Output(_) => exit::USAGE,
            Self::Script(_) => exit::NO,
            Self::Store(_) | Self::System { .. } => exit::UNAVAILABLE,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoTerminal => Some("`tenure demo --script` plays it without one"),
            Self::Store(_) => Some("TMPDIR names where the demonstration's directory is made"),
            _ => None,
        }
    }
}

pub(crate) fn main(args: &DemoArgs) -> ExitCode {
    if let Some(parent) = args.child_of {
        return process::become_candidate(parent, &args.run);
    }
    ExitCode::from(demonstrate(args).unwrap_or_else(|failure| {
        let code = failure.code();
        if code != 0 {
            talk::error(&failure);
            failure.hint().map(talk::hint);
        }
        code
    }))
}

fn demonstrate(args: &DemoArgs) -> Result<u8, Failure> {
    if !args.script && !screen::is_there() {
        return Err(Failure::NoTerminal);
    }
    let place = Place::make()?;
    Settings::ttl(args.ttl).resolve(&place.store.guarantees())?;
    // On this very thread: the kernel ends the candidates together with the thread that started them.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::system("make a runtime"))?;
    let mut cast = Cast::new(place, args.ttl);
    runtime.block_on(async {
        let shown = if args.script {
            script::play(&mut cast, args.ttl, args.json).await
        } else {
            live::show(&mut cast, args.ttl).await
        };
        cast.end().await;
        shown
    })
}
