//! Standard error is talk: what happens, what went wrong, what to do next.

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;

/// Says how things stand.
pub(crate) fn say(text: &str) {
    // If nobody listens there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Says what went wrong.
pub(crate) fn error(error: &dyn Error) {
    say(&format!("error: {}", chain(error)));
}

/// Says what to do next.
pub(crate) fn hint(text: &str) {
    say(&format!("hint: {text}"));
}

/// Writes an error with its causes, each once.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            let _ = write!(text, ": {next_text}");
        }
        cause = next.source();
    }
    text
}
