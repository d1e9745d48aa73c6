//! Whose server it is.

use crate::servers::Program;

/// Whose server it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flavour {
    /// Redis: `redis-server`, or the program that `TENURE_REDIS_SERVER` names.
    #[default]
    Redis,
    /// Valkey: `valkey-server`, or the program that `TENURE_VALKEY_SERVER` names.
    Valkey,
}

impl Flavour {
    /// Finds its program.
    ///
    /// # Panics
    /// If it is not there, with what to do.
    #[must_use]
    pub fn program(self) -> Program {
        match self {
            Self::Redis => Program::find("redis-server", "TENURE_REDIS_SERVER"),
            Self::Valkey => Program::find("valkey-server", "TENURE_VALKEY_SERVER"),
        }
    }
}
