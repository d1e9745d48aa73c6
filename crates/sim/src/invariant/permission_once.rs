//! Permission goes from true to false once per term.

use std::collections::BTreeSet;

use super::Breach;
use crate::trace::{Trace, What};

/// Whoever was told no is never told yes again in that term.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let mut over = BTreeSet::new();
    for entry in &trace.entries {
        match entry.what {
            What::Asked { token, answer: false, .. } => drop(over.insert((entry.who, token))),
            What::Asked { token, answer: true, .. } | What::Valid(token)
                if over.contains(&(entry.who, token)) =>
            {
                return Err((entry.at, format!("permission of {} in {token:?} came back", entry.who)));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, T2, asked, trace};
    use super::*;

    #[test]
    fn a_permission_that_comes_back_is_found() {
        let good = vec![(0, 0, asked(T1, true)), (1, 0, asked(T1, false)), (2, 0, asked(T2, true))];
        assert!(check(&trace(good)).is_ok());
        assert!(check(&trace(vec![(1, 0, asked(T1, false)), (2, 0, asked(T1, true))])).is_err());
    }
}
