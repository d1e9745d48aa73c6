//! How long everybody waits after a command that ended by itself, so that neither a short job nor a crashing one runs around
//! the machines without a break.

use std::time::Duration;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// A run of this length begins anew with the shortest.
const LONG_RUN: Duration = Duration::from_secs(10);

/// Returns the pause after a run of `ran`, when the one before it was `previous`.
pub(super) fn after(previous: Option<Duration>, ran: Duration) -> Duration {
    match previous {
        Some(previous) if ran < LONG_RUN => (previous * 2).clamp(SHORTEST, LONGEST),
        _ => SHORTEST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_to_the_longest_and_begins_anew_after_a_long_run() {
        let mut pause = None;
        let mut pauses = Vec::new();
        for ran_ms in [0, 10, 9_999, 100, 0, 0, 0, 10_000, 0] {
            pause = Some(after(pause, Duration::from_millis(ran_ms)));
            pauses.push(pause.unwrap_or_default().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 1, 2]);
    }
}
