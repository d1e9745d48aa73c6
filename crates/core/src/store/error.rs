//! What can go wrong in a store, by what a caller would do about it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// What kind of failure it is; each kind asks for a different reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store cannot be reached or does not serve now. Whether the call took effect is unknown.
    Unavailable,
    /// No answer came in time. Whether the call took effect is unknown.
    Timeout,
    /// Others wrote at the same time, again and again. Whether the call took effect is unknown.
    Conflict,
    /// The store refuses this user: nothing happened, and nothing will until somebody grants the permission.
    Denied,
    /// The call or the configuration breaks a rule of the store: nothing happened.
    Invalid,
    /// The record cannot be understood: nothing happened, and it counts as held until somebody mends it.
    Corrupt,
}

impl ErrorKind {
    /// Tells whether the call certainly had no effect.
    #[must_use]
    pub fn is_definite(self) -> bool {
        matches!(self, Self::Denied | Self::Invalid | Self::Corrupt)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Corrupt => "corrupt",
        })
    }
}

/// A call that a store did not answer with an outcome.
///
/// The message must not contain secrets: it reaches logs, events and terminals.
#[derive(Clone, Debug)]
pub struct StoreError {
    kind: ErrorKind,
    store: &'static str,
    operation: &'static str,
    message: String,
    // Shared, because one failed round trip can answer a thousand renewals.
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Makes an error; `message` says what happened and, where there is one, the way out.
    pub fn new(
        kind: ErrorKind,
        store: &'static str,
        operation: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, store, operation, message: message.into(), source: None }
    }

    /// Adds the error that caused this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the store's short name, such as `memory` or `file`.
    #[must_use]
    pub fn store(&self) -> &'static str {
        self.store
    }

    /// Returns the verb that failed, such as `renew`.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Tells whether trying again can help without anybody changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        !self.kind.is_definite()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} store, {}: {} ({})", self.store, self.operation, self.message, self.kind)
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
