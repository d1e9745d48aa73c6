//! What an example returns from `main` when something fails: shown as a sentence, not as code.

use std::error::Error;
use std::fmt;

/// Any error. Rust shows what `main` returns with `Debug`, so that is where it stands in plain words.
pub(crate) struct Failure(Box<dyn Error>);

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl<E: Into<Box<dyn Error>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}
