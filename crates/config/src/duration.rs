//! Durations as people write them.

use std::time::Duration;

/// Reads `30s`, `500ms`, `1h 30m`.
///
/// # Errors
/// Says how durations are written.
pub fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "a duration is a number with a unit, such as 500ms, 30s, 5m, 20h or 1h30m".to_owned())
}

/// Reads a duration that must be some time.
///
/// # Errors
/// Says how durations are written, and that there must be some.
pub fn above_zero(text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if duration.is_zero() {
        Err("it must be more than nothing, such as 500ms or 5s".to_owned())
    } else {
        Ok(duration)
    }
}

/// Writes a duration for people, in the coarsest units that lose nothing they care about.
#[must_use]
pub fn show(duration: Duration) -> String {
    let rounded = match duration.as_millis() {
        0..=9_999 => Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)),
        _ => Duration::from_secs(duration.as_secs()),
    };
    humantime::format_duration(rounded).to_string()
}

/// Writes a duration for people who look at it while it changes: whole seconds, unless it is shorter.
#[must_use]
pub fn brief(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        show(duration)
    } else {
        show(Duration::from_secs(duration.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written_as_people_do() {
        for (text, duration) in [
            ("500ms", Duration::from_millis(500)),
            ("30s", Duration::from_secs(30)),
            ("1h30m", Duration::from_secs(5400)),
            ("20h", Duration::from_secs(72_000)),
        ] {
            assert_eq!(parse(text), Ok(duration));
        }
        for wrong in ["", "30", "-1s", "soon", "1.5"] {
            assert!(parse(wrong).unwrap_err().contains("30s"), "{wrong}");
        }
        assert!(above_zero("0s").is_err() && above_zero("1ms").is_ok());
        assert_eq!(show(Duration::from_micros(1_234_567)), "1s 234ms");
        assert_eq!(show(Duration::from_millis(61_234)), "1m 1s");
        assert_eq!(brief(Duration::from_millis(1_234)), "1s");
        assert_eq!(brief(Duration::from_micros(34_567)), "34ms");
    }
}
