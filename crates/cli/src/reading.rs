//! What the verbs share: one way into the store, one way out.

use std::future::Future;
use std::io::{self, BufWriter, ErrorKind as Io, StdoutLock, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde::Serialize;
use tenure::config::Mistakes;
use tenure::store::{ErrorKind, LeaseRecord, LeaseStore, StoreError};
use tenure::{ClockExt, ElectionName, FenceError, InvalidUrl, StoreUrl, SystemClock};

use crate::args::ReadArgs;
use crate::{exit, talk};

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    /// Some of it could not be read, and that was said.
    Incomplete,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Config(#[from] Mistakes),
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    #[error("{message}")]
    Usage { message: String, hint: &'static str },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error("{0}")]
    Unavailable(String),
    #[error("cannot begin: {0}")]
    Begin(io::Error),
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

impl Failure {
    fn code(&self) -> ExitCode {
        match self {
            // Whoever reads has enough: `tenure list | head -1`.
            Self::Output(error) if error.kind() == Io::BrokenPipe => ExitCode::SUCCESS,
            Self::Config(_)
            | Self::Url(_)
            | Self::Usage { .. }
            | Self::Output(_)
            | Self::Fence(FenceError::Invalid { .. }) => ExitCode::from(exit::USAGE),
            Self::Store(error) if error.kind() == ErrorKind::Invalid => ExitCode::from(exit::USAGE),
            Self::Store(_) | Self::Fence(_) | Self::Unavailable(_) | Self::Begin(_) => {
                ExitCode::from(exit::UNAVAILABLE)
            }
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Usage { hint, .. } => Some(hint),
            Self::Store(error) => hint_for(error),
            _ => None,
        }
    }
}

/// Tells what to do about an answer that was none.
pub(crate) fn hint_for(error: &StoreError) -> Option<&'static str> {
    // A directory belongs to a user of this machine; a server has limits and users of its own.
    match (error.kind(), error.store()) {
        (ErrorKind::Timeout, "file") => Some("--call-timeout gives the store more time"),
        (ErrorKind::Timeout, _) => {
            Some("--call-timeout, and call_timeout=… in the store's URL, give the server more time")
        }
        (ErrorKind::Denied, "file") => Some("run this as the user who runs the candidates, or as root"),
        (ErrorKind::Corrupt, "file") => Some("`tenure repair NAME` mends it, and keeps tokens rising"),
        _ => None,
    }
}

/// Where the answer goes.
pub(crate) type Output = BufWriter<StdoutLock<'static>>;

/// Answers one question with a store that is opened to read, and tells with which code to exit.
pub(crate) fn answer(
    args: &ReadArgs,
    elections: &[ElectionName],
    question: impl AsyncFnOnce(&Reader, &mut Output) -> Result<Verdict, Failure>,
) -> ExitCode {
    conclude(|| Reader::open(For::Reading, args, elections), question)
}

/// Answers one question with whatever was opened for it, and tells with which code to exit.
pub(crate) fn conclude<Opened>(
    open: impl FnOnce() -> Result<Opened, Failure>,
    question: impl AsyncFnOnce(&Opened, &mut Output) -> Result<Verdict, Failure>,
) -> ExitCode {
    match ask(open, question) {
        Ok(Verdict::Yes) => ExitCode::SUCCESS,
        Ok(Verdict::No) => ExitCode::from(exit::NO),
        Ok(Verdict::Incomplete) => ExitCode::from(exit::UNAVAILABLE),
        Err(failure) => {
            let code = failure.code();
            if code != ExitCode::SUCCESS {
                talk::error(&failure);
                failure.hint().map(talk::hint);
            }
            code
        }
    }
}

fn ask<Opened>(
    open: impl FnOnce() -> Result<Opened, Failure>,
    question: impl AsyncFnOnce(&Opened, &mut Output) -> Result<Verdict, Failure>,
) -> Result<Verdict, Failure> {
    let opened = open()?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Begin)?;
    let mut output = BufWriter::new(io::stdout().lock());
    let verdict = runtime.block_on(question(&opened, &mut output)).and_then(|verdict| {
        output.flush()?;
        Ok(verdict)
    });
    // What a broken reader did not take must not be written once more when the buffer is dropped.
    let _ = output.into_parts();
    // A store that hangs must not keep the command from ending.
    runtime.shutdown_background();
    verdict
}

/// A store that is looked at.
pub(crate) struct Reader {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) clock: SystemClock,
    call_timeout: Duration,
    /// The directory that the URL names, if it is not there.
    missing: Option<PathBuf>,
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Reading,
    /// A directory that is not there is not made: there is nothing in it that could be changed.
    Changing,
    /// A directory that is not there is made.
    Making,
}

/// Looks that are under way at the same time.
const TOGETHER: usize = 16;

impl Reader {
    /// Opens the store of these elections, or of all if none is named.
    pub(crate) fn open(what: For, args: &ReadArgs, elections: &[ElectionName]) -> Result<Self, Failure> {
        let url = args.store.url(elections)?;
        if url == StoreUrl::Memory {
            return Err(Failure::Usage {
                message: "store \"memory:\" lives inside one process, and this one has no elections".into(),
                hint: "name the store that the candidates use, with --store or TENURE_STORE",
            });
        }
        let url = url.resolved()?;
        let missing = match &url {
            StoreUrl::File { path: Some(path), .. } if matches!(path.try_exists(), Ok(false)) => {
                Some(path.clone())
            }
            _ => None,
        };
        let reading = what == For::Reading || (what == For::Changing && missing.is_some());
        let store = if reading { url.open_to_read()? } else { url.open()? };
        Ok(Self { store, clock: SystemClock, call_timeout: args.call_timeout, missing })
    }

    /// Returns the store's name and who can take part there.
    pub(crate) fn place(&self) -> String {
        let guarantees = self.store.guarantees();
        format!("{}: {}", guarantees.store, guarantees.scope)
    }

    /// Says what there is nothing of, and where; a directory that does not exist was perhaps not meant.
    pub(crate) fn say_nothing(&self, nothing: &str) {
        match &self.missing {
            Some(directory) => {
                talk::say(&format!("{nothing}: the directory {} does not exist", directory.display()));
                talk::hint("name the store that the candidates use, with --store or TENURE_STORE");
            }
            None => talk::say(&format!("{nothing} ({})", self.place())),
        }
    }

    pub(crate) async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        self.within("read", self.store.read(election)).await
    }

    /// Reads many, each answered in its place.
    pub(crate) async fn read_all(
        &self,
        elections: &[ElectionName],
    ) -> Vec<(ElectionName, Result<Option<LeaseRecord>, StoreError>)> {
        let looks = stream::iter(elections).map(|name| async { (name.clone(), self.read(name).await) });
        looks.buffered(TOGETHER).collect().await
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, Failure> {
        let Some(operator) = self.store.operator() else {
            let store = self.store.guarantees().store;
            return Err(Failure::Usage {
                message: format!("the {store} store cannot tell which elections there are"),
                hint: "name an election",
            });
        };
        Ok(self.within("list", operator.list(prefix)).await?)
    }

    /// Waits for a call, but not longer than one may take.
    pub(crate) async fn within<T>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::select! {
            biased;
            answer = call => answer,
            () = self.clock.sleep(self.call_timeout) => {
                let message = format!("no answer within {}", crate::duration::show(self.call_timeout));
                let store = self.store.guarantees().store;
                Err(StoreError::new(ErrorKind::Timeout, store, operation, message))
            }
        }
    }

    /// Says that the store has no such election.
    pub(crate) fn say_unknown(&self, election: &ElectionName) {
        self.say_nothing(&format!("there is no election {:?}", election.as_str()));
        if self.missing.is_none() {
            talk::hint("`tenure list` shows the elections that there are");
        }
    }
}

/// Writes one JSON value as one line.
pub(crate) fn write_json(output: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    writeln!(output)
}
