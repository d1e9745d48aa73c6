//! Mistakes, each with its place, the line that it is on, and a way out; all of them at once.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::secret;

/// Something that is wrong in the configuration, or worth a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Boxed: mistakes are carried through many results.
    place: Box<Place>,
    message: String,
    hint: Option<String>,
}

/// Where a mistake is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    File {
        path: PathBuf,
        excerpt: Option<Excerpt>,
    },
    /// A variable of the environment or a flag, by its name.
    Name(String),
    Nowhere,
}

/// A line of a file, as it may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    offset: usize,
    line: usize,
    column: usize,
    text: String,
    /// Where the caret stands in `text`, in characters, and how many there are.
    caret: (usize, usize),
}

impl Mistake {
    pub(crate) fn new(place: Place, message: impl Into<String>) -> Self {
        Self { place: Box::new(place), message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Self {
        Self { hint: hint.or(self.hint), ..self }
    }

    /// Returns what is wrong, without its place.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the place in short: `file:line:column`, or the name of a variable or a flag.
    #[must_use]
    pub fn place(&self) -> Option<String> {
        match &*self.place {
            Place::File { path, excerpt: Some(at) } => {
                Some(format!("{}:{}:{}", path.display(), at.line, at.column))
            }
            Place::File { path, excerpt: None } => Some(path.display().to_string()),
            Place::Name(name) => Some(name.clone()),
            Place::Nowhere => None,
        }
    }

    fn order(&self) -> (u8, usize) {
        match &*self.place {
            Place::Name(_) => (0, 0),
            Place::File { excerpt: None, .. } => (1, 0),
            Place::File { excerpt: Some(at), .. } => (1, at.offset),
            Place::Nowhere => (2, 0),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = self.place() {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.message)?;
        if let Place::File { excerpt: Some(at), .. } = &*self.place {
            let number = at.line.to_string();
            let bar = format!("{:width$} |", "", width = number.len());
            let (before, length) = at.caret;
            write!(f, "\n {bar}\n {number} | {}\n {bar} {:before$}{}", at.text, "", "^".repeat(length))?;
            if let Some(hint) = &self.hint {
                write!(f, "\n {:width$} = {hint}", "", width = number.len())?;
            }
        } else if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

/// Everything that is wrong in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Puts mistakes in the order in which people look for them: flags and environment, then files from top to bottom.
    pub(crate) fn new(mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(Mistake::order);
        mistakes.dedup();
        Self(mistakes)
    }

    /// Returns each of them.
    #[must_use]
    pub fn all(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        write!(f, "the configuration has {} mistakes", self.0.len())?;
        for mistake in &self.0 {
            write!(f, "\n\n{mistake}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// A file's text, for excerpts and line numbers.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

/// The text may hold passwords.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Text").field("path", &self.path).finish_non_exhaustive()
    }
}

/// So many characters of a line are shown: a file may be a single line.
const WIDEST: usize = 100;

impl Text {
    pub(crate) fn new(path: &Path, text: String) -> Self {
        Self { path: path.to_owned(), text }
    }

    /// Returns the number of the line, from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        let offset = offset.min(self.text.len());
        self.text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Begins a mistake at a place in this text.
    pub(crate) fn mistake(&self, span: &Range<usize>, message: impl Into<String>) -> Mistake {
        let place = Place::File { path: self.path.clone(), excerpt: Some(self.excerpt(span)) };
        Mistake::new(place, message)
    }

    fn excerpt(&self, span: &Range<usize>) -> Excerpt {
        // Whatever a parser says, the caret stands on a character of a line.
        let mut start = span.start.min(self.text.len());
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        // A parser that missed something up to the very end means the end of what is there.
        if self.text[start..].trim().is_empty() {
            start = start.min(self.text.trim_end().len());
        }
        let line_start = self.text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = self.text[start..].find('\n').map_or(self.text.len(), |at| start + at);
        let line = self.text[line_start..line_end].trim_end_matches('\r');
        let end = span.end.min(line_start + line.len()).max(start);
        let (text, caret) = shown(line, (start - line_start).min(line.len()), end - line_start);
        let column = self.text[line_start..start].chars().count() + 1;
        Excerpt { offset: start, line: self.line(start), column, text, caret }
    }
}

/// Returns a line without its secrets, and where the caret is then.
fn shown(line: &str, start: usize, end: usize) -> (String, (usize, usize)) {
    let secrets = secret::secrets(line);
    let mut kept: Vec<(usize, char)> = Vec::new();
    for (at, character) in line.char_indices() {
        match secrets.iter().find(|range| range.contains(&at)) {
            Some(range) if range.start == at => {
                kept.extend(secret::HIDDEN.chars().map(|hidden| (at, hidden)));
            }
            Some(_) => {}
            // A tab would move the caret; other control characters the terminal.
            None => kept.push((at, if character.is_control() { ' ' } else { character })),
        }
    }
    // The first kept character at or behind the place; inside a secret that is the sign for it.
    let inside = secrets.iter().find(|range| range.contains(&start)).map_or(start, |range| range.start);
    let first = kept.iter().position(|(at, _)| *at >= inside).unwrap_or(kept.len());
    let last = kept.iter().rposition(|(at, _)| *at < end).map_or(first, |at| at + 1).max(first + 1);
    let from = if kept.len() <= WIDEST { 0 } else { first.saturating_sub(WIDEST / 2) };
    let to = kept.len().min(from + WIDEST);
    let mut text: String = kept[from..to].iter().map(|(_, character)| *character).collect();
    let mut before = first - from;
    if from > 0 {
        text.insert_str(0, "... ");
        before += 4;
    }
    if to < kept.len() {
        text.push_str(" ...");
    }
    (text, (before, last.min(to).saturating_sub(first).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Text {
        Text::new(Path::new("t.toml"), text.to_owned())
    }

    #[test]
    fn the_caret_stands_below_the_place() {
        let mistake = text("a = 1\nttl = \"ä\" # x\n").mistake(&(12..16), "is wrong").hint("write it well");
        assert_eq!(
            mistake.to_string(),
            "t.toml:2:7: is wrong\n   |\n 2 | ttl = \"ä\" # x\n   |       ^^^\n   = write it well"
        );
    }

    #[test]
    fn a_line_is_shown_without_secrets_and_cut_to_what_can_be_read() {
        let line = "store = \"redis://app:hush@h\" tll = 1";
        let mistake = text(line).mistake(&(29..32), "x").to_string();
        assert!(mistake.contains("redis://…@h\" tll = 1\n   |                       ^^^"), "{mistake}");
        let inside = text(line).mistake(&(9..28), "x").to_string();
        assert!(!inside.contains("hush") && inside.contains(" ^^^^^^^^^^^^"), "{inside}");
        let long = format!("{}tll{}", "x".repeat(500), "y".repeat(500));
        let mistake = text(&long).mistake(&(500..503), "x").to_string();
        assert!(mistake.lines().all(|line| line.len() < 130) && mistake.contains("tll"), "{mistake}");
    }

    #[test]
    fn a_place_outside_the_text_is_its_end() {
        for span in [0..0, 5..9, 999..1000] {
            let shown = text("a\nü").mistake(&span, "x").to_string();
            assert!(shown.contains('^'), "{shown}");
        }
    }
}
