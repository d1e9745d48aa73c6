//! Times as everybody reads them: RFC 3339, in UTC.

use std::time::{Duration, SystemTime};

/// The last second that has four digits for its year. A record may say anything.
const LAST: Duration = Duration::from_secs(253_402_300_799);

/// Writes a time for people.
pub(crate) fn seconds(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(within(time)).to_string()
}

/// Writes a time for programs.
pub(crate) fn millis(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(within(time)).to_string()
}

/// Reads a time as records have it.
pub(crate) fn from_unix_ms(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)).unwrap_or(SystemTime::UNIX_EPOCH)
}

fn within(time: SystemTime) -> SystemTime {
    time.clamp(SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_that_a_record_can_hold_is_written() {
        assert_eq!(seconds(from_unix_ms(1_700_000_000_123)), "2023-11-14T22:13:20Z");
        assert_eq!(millis(from_unix_ms(1_700_000_000_123)), "2023-11-14T22:13:20.123Z");
        assert_eq!(seconds(from_unix_ms(u64::MAX)), "9999-12-31T23:59:59Z");
        assert_eq!(seconds(SystemTime::UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
    }
}
