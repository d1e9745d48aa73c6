//! One term of a wrapper: the leadership, and what became of the command.

use std::time::Duration;

use tenure::elector::EndReason;
use tenure::{Clock, Leadership, Moment, SystemClock};

use crate::exit;
use crate::guardian::Ending;

/// Held until the command and everything that it started have ended: the lease is not given back before.
pub(super) struct Term {
    pub(super) leadership: Leadership,
    pub(super) began: Moment,
    pub(super) must_stop: Moment,
    /// Why the term ends; `None` while the command may run.
    pub(super) reason: Option<EndReason>,
    pub(super) ending: Option<Ending>,
}

impl Term {
    pub(super) fn ran(&self) -> Duration {
        SystemClock.now().time_since(self.began)
    }

    /// Returns how long everybody waited before this term, if its predecessor asked for it.
    pub(super) fn cool_down_before(&self) -> Option<Duration> {
        self.leadership.previous().and_then(|term| term.cool_down_ms).map(Duration::from_millis)
    }
}

/// Returns what the wrapper exits with after this end; `None` if the command was not started because it was too late.
pub(super) fn code_of(ending: &Ending) -> Option<u8> {
    match ending {
        Ending::Code(code) => Some(u8::try_from(*code).unwrap_or(exit::FAILURE)),
        Ending::Signal(signal) => Some(u8::try_from(128 + signal).unwrap_or(exit::FAILURE)),
        Ending::NotFound { .. } => Some(exit::NOT_FOUND),
        Ending::NotExecutable { .. } => Some(exit::NOT_EXECUTABLE),
        Ending::NotStarted { .. } => Some(exit::FAILURE),
        Ending::Late => None,
    }
}

/// Says how the command ended.
pub(super) fn in_words(ending: &Ending) -> String {
    match ending {
        Ending::Code(0) => "ended with success".into(),
        Ending::Code(code) => format!("ended with code {code}"),
        Ending::Signal(signal) => format!("was ended by signal {signal}"),
        Ending::Late => "was not started: the deadline had passed".into(),
        Ending::NotFound { reason } | Ending::NotExecutable { reason } | Ending::NotStarted { reason } => {
            format!("could not be started: {reason}")
        }
    }
}
