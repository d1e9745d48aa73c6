//! No participant's stop blocks another's call.

use super::Breach;
use crate::trace::{Trace, What};

/// A request that has arrived is served at once, whatever any other process does.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    for entry in &trace.entries {
        if let What::Waited(verb, waited) = &entry.what {
            return Err((
                entry.at,
                format!("a call of {} ({verb:?}) waited {waited:?} for somebody else", entry.who),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::testing::{T1, elected, trace};
    use super::*;
    use crate::trace::Verb;

    #[test]
    fn a_call_that_waited_is_found() {
        assert!(check(&trace(vec![(0, 0, elected(T1))])).is_ok());
        assert!(check(&trace(vec![(0, 0, What::Waited(Verb::Renew, Duration::from_millis(1)))])).is_err());
    }
}
