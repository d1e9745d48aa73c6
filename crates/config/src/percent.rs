//! Parts of a hundred as people write them.

/// Reads `10` or `10%`.
///
/// # Errors
/// Says how they are written.
pub fn parse(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>().ok();
    // A part of a percent is what somebody writes who means the whole.
    number
        .filter(|percent| *percent == 0.0 || (1.0..50.0).contains(percent))
        .ok_or_else(|| "it is in percent: 0, or from 1 to below 50, such as 10 for ten percent".to_owned())
}
