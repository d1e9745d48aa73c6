//! A handoff completes or aborts, and nobody else comes in between.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Breach;
use crate::trace::{State, Trace, Verb, What};

/// After a release that names a successor somebody leads again, and within the window only the successor.
pub(super) fn check(trace: &Trace) -> Result<(), Breach> {
    // Who bids, under which name: a restarted process may have its predecessor's.
    let (mut bidders, mut names) = (BTreeMap::new(), BTreeMap::new());
    let mut announced = None;
    // The handoff that the record shows: since when, for whom, until when for sure.
    let mut open: Option<(Duration, _, Duration)> = None;
    for entry in &trace.entries {
        match &entry.what {
            What::Started { named, .. } => drop(names.insert(entry.who, *named)),
            What::Sent { verb: Verb::Acquire, bid, .. } => {
                bidders.insert(*bid, names.get(&entry.who).copied().unwrap_or(entry.who));
            }
            What::Reserved { token, successor, window } => announced = Some((*token, *successor, *window)),
            What::Elected { .. } => open = None,
            // Vacated; also while the election is paused.
            What::Stored(stored)
                if stored.holder.is_none()
                    && matches!(stored.state, State::Reserved | State::Paused)
                    && open.is_none() =>
            {
                if let Some((token, successor, window)) = announced
                    && token == stored.token
                {
                    // Less what the server's clock may run too fast.
                    open = Some((entry.at, successor, entry.at + window * 85 / 100));
                }
            }
            What::Stored(stored) if stored.state == State::Held => {
                let holder = stored.holder.and_then(|(bid, _)| bidders.get(&bid));
                if let Some((_, successor, until)) = &mut open
                    && holder == Some(successor)
                {
                    // It has taken it; what it does with it (stop, say) is its own business.
                    *until = entry.at;
                }
                if let Some((_, successor, until)) = open
                    && let Some(holder) = holder
                    && *holder != successor
                    && trace.promises.exclusion
                    && entry.at < until
                {
                    return Err((entry.at, format!("{holder} got what was kept for {successor}")));
                }
            }
            _ => {}
        }
    }
    match open {
        Some((at, successor, _)) => Err((at, format!("nobody ever led after the handoff to {successor}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{T1, T2, elected, held, sent, stored, trace};
    use super::*;
    use crate::trace::{Stored, Who};

    fn handoff(holder: u16, taken_ms: u64, led: bool) -> Result<(), Breach> {
        let reserved = What::Reserved { token: T1, successor: Who(1), window: Duration::from_millis(100) };
        let kept = What::Stored(Stored { state: State::Reserved, holder: None, ..stored(1, 1, T1) });
        let mut entries = vec![
            (0, 0, reserved),
            (1, 9, kept),
            (2, holder, sent(Verb::Acquire, 2, 2, 0, T1)),
            (taken_ms, 9, held(2, 2, T2)),
        ];
        if led {
            entries.push((taken_ms, holder, elected(T2)));
        }
        check(&trace(entries))
    }

    #[test]
    fn the_successor_at_once_and_others_after_the_window_are_fine() {
        assert!(handoff(1, 5, true).is_ok());
        assert!(handoff(2, 120, true).is_ok());
    }

    #[test]
    fn somebody_else_in_the_window_and_a_handoff_into_nothing_are_found() {
        assert!(handoff(2, 50, true).is_err());
        assert!(handoff(1, 5, false).is_err());
    }
}
