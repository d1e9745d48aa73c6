//! What a scenario says about itself is true.

use super::Breach;
use crate::trace::{Trace, What};

/// No statement of a script was found wrong.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    for entry in &trace.entries {
        if let What::Unexpected(what) = entry.what {
            return Err((entry.at, what.to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::trace;
    use super::*;

    #[test]
    fn a_wrong_statement_is_found() {
        assert!(check(&trace(vec![(0, 0, What::Calm)])).is_ok());
        assert!(check(&trace(vec![(0, 0, What::Unexpected("no"))])).is_err());
    }
}
