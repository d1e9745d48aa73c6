//! The fencing token: the number of a term.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a term; it strictly rises with every term of an election, for ever, and may jump.
///
/// Hand it to the resource that the leader writes to and let a [fence](crate::fence) refuse lower ones:
/// that protects the resource even where no clock can, for example after a paused virtual machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(pub u64);

impl FencingToken {
    /// Below every token that a store grants.
    pub const ZERO: Self = Self(0);

    /// Returns the token after this one, or `None` at the end of the number range.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        self.0.checked_add(1).map(Self)
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
