//! Callbacks of two terms never overlap in one process.

use std::collections::BTreeMap;

use super::Breach;
use crate::trace::{Trace, What};

/// When `on_elected` is called, no callback of an earlier term runs in that process.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    let mut running = BTreeMap::<_, u32>::new();
    for entry in &trace.entries {
        let count = running.entry(entry.who).or_default();
        match entry.what {
            What::Elected { token, .. } => {
                if *count > 0 {
                    return Err((
                        entry.at,
                        format!("{} begins {token:?} beside work of an earlier term", entry.who),
                    ));
                }
                *count += 1;
            }
            What::EndCalled => *count += 1,
            What::WorkEnded(_) | What::EndOver => *count = count.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, T2, elected, trace};
    use super::*;

    #[test]
    fn a_term_beside_earlier_work_is_found() {
        let ended = (1, 0, What::WorkEnded(T1));
        assert!(check(&trace(vec![(0, 0, elected(T1)), ended.clone(), (2, 0, elected(T2))])).is_ok());
        assert!(check(&trace(vec![(0, 0, elected(T1)), (2, 1, elected(T2))])).is_ok(), "another process");
        assert!(check(&trace(vec![(0, 0, elected(T1)), (2, 0, elected(T2))])).is_err());
        let ending = (1, 0, What::EndCalled);
        assert!(check(&trace(vec![(0, 0, elected(T1)), ending, ended, (2, 0, elected(T2))])).is_err());
    }
}
