//! Colour, on a terminal and nowhere else.

use std::io::IsTerminal;

/// Tells whether standard output takes colours: it is a terminal, and nobody asked for none (`NO_COLOR`, `TERM=dumb`).
pub(crate) fn wanted() -> bool {
    let asked_for_none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !asked_for_none && !dumb
}

/// What is worth a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Somebody leads.
    Good,
    /// Nobody may lead just now.
    Kept,
    /// Something is wrong.
    Bad,
    Plain,
}

/// Paints a text.
pub(crate) fn paint(text: String, tone: Tone, wanted: bool) -> String {
    let number = match tone {
        _ if !wanted => return text,
        Tone::Plain => return text,
        Tone::Good => 32,
        Tone::Kept => 33,
        Tone::Bad => 31,
    };
    format!("\x1b[{number}m{text}\x1b[0m")
}
