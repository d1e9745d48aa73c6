//! What the verbs share that change something: an operator with a name, and calls that can be repeated.

pub(crate) mod args;
pub(crate) mod asking;
pub(crate) mod outcome;
mod sight;
pub(crate) mod taking;
pub(crate) mod who;

use std::future::Future;
use std::process::ExitCode;
use std::slice::from_ref;

use tenure::store::{Operator, StoreError};
use tenure::{Attempt, ElectionName, Random};

use crate::args::ReadArgs;
use crate::reading::{self, Failure, For, Output, Reader, Verdict};

/// How often a call is made whose answer does not come: the same one, which takes effect once.
const TRIES: usize = 3;

/// A store in which something is changed, and who does it.
pub(crate) struct Control {
    pub(crate) reader: Reader,
    pub(crate) random: Random,
    /// Who asks, for people.
    pub(crate) by: String,
}

/// Does one thing with a store, and tells with which code to exit.
pub(crate) fn act(
    what: For,
    args: &ReadArgs,
    election: &ElectionName,
    deed: impl AsyncFnOnce(&Control, &mut Output) -> Result<Verdict, Failure>,
) -> ExitCode {
    reading::conclude(|| Control::open(what, args, election), deed)
}

impl Control {
    fn open(what: For, args: &ReadArgs, election: &ElectionName) -> Result<Self, Failure> {
        Ok(Self {
            reader: Reader::open(what, args, from_ref(election))?,
            random: Random::from_os(),
            by: operator(),
        })
    }

    pub(crate) fn attempt(&self) -> Attempt {
        Attempt::new(&self.random)
    }

    /// Returns what operators can do in this store.
    pub(crate) fn operator(&self) -> Result<&dyn Operator, Failure> {
        self.reader.store.operator().ok_or_else(|| Failure::Usage {
            message: format!(
                "the {} store carries nothing for operators",
                self.reader.store.guarantees().store
            ),
            hint: "ask the leader itself: a signal to its `tenure run`, or its own handle",
        })
    }

    /// Makes a call that takes effect once however often it is made, until it is answered.
    pub(crate) async fn call<T, Call>(
        &self,
        operation: &'static str,
        mut call: impl FnMut() -> Call,
    ) -> Result<T, StoreError>
    where
        Call: Future<Output = Result<T, StoreError>>,
    {
        for _ in 1..TRIES {
            match self.reader.within(operation, call()).await {
                Err(error) if error.is_retryable() => {}
                answer => return answer,
            }
        }
        self.reader.within(operation, call()).await
    }
}

/// Names whoever uses this command.
fn operator() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    let user = named
        .map(|user| user.trim().to_owned())
        .find(|user| !user.is_empty())
        .unwrap_or_else(|| format!("user {}", rustix::process::getuid().as_raw()));
    format!("{user}@{}", rustix::system::uname().nodename().to_string_lossy())
}
