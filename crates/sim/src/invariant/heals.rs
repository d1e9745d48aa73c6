//! Somebody leads within 2 ttl once faults stop.

use super::Breach;
use crate::trace::{Trace, What};

/// After the calm has begun somebody is elected, or is told that it leads.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let mut calm = None;
    for entry in &trace.entries {
        match entry.what {
            What::Calm => calm = Some(entry.at),
            What::Elected { .. } | What::Asked { answer: true, .. } | What::Leads
                if calm.is_some_and(|calm| entry.at <= calm + trace.promises.ttl * 2) =>
            {
                return Ok(());
            }
            _ => {}
        }
    }
    match calm {
        Some(at) => Err((at, "nobody led within 2 ttl after faults had stopped".into())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, asked, elected, trace};
    use super::*;

    #[test]
    fn a_world_that_stays_without_leader_is_found() {
        let after = |ms, what| check(&trace(vec![(0, 0, elected(T1)), (100, 9, What::Calm), (ms, 0, what)]));
        assert!(after(2000, elected(T1)).is_ok());
        assert!(after(2000, asked(T1, true)).is_ok());
        assert!(after(2000, asked(T1, false)).is_err());
        assert!(after(2200, elected(T1)).is_err());
    }
}
