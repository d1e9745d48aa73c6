//! The picture, as lines that fit a window of any size.

use std::time::Duration;

use super::candidate::{Candidate, Role};
use super::cast::Cast;
use super::timeline::{LEGEND, Timeline};
use crate::duration;
use crate::show::colour::{Tone, paint};

/// A piece of a line in one colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// What is drawn.
pub(super) struct View<'a> {
    pub(super) rows: Vec<Row<'a>>,
    /// Who leads, in a sentence.
    pub(super) leader: String,
    /// What happened, the last at the end.
    pub(super) log: &'a [String],
    pub(super) ttl: Duration,
    pub(super) colours: bool,
}

/// One candidate.
pub(super) struct Row<'a> {
    pub(super) letter: char,
    pub(super) is_chosen: bool,
    pub(super) state: String,
    pub(super) tone: Tone,
    pub(super) timeline: &'a Timeline,
}

/// As wide as the longest state.
const STATE_WIDTH: usize = 18;

const KEYS: [&str; 2] = [
    "1 2 3 or arrows: choose one.  k kill  s stop  c continue  r start again  q quit",
    "x cut off from the store, and connect again  h let the leader hand off to it",
];

/// Draws the view for so many columns and rows. What does not fit is left out, the least needed first.
pub(super) fn draw(view: &View<'_>, (columns, rows): (usize, usize)) -> Vec<String> {
    let candidates: Vec<_> = view.rows.iter().map(|row| line_of(row, columns)).collect();
    let title = format!("Three candidates, one election; a lease lasts {}", duration::show(view.ttl));
    let plain = |text: &str| vec![Span { text: text.to_owned(), tone: Tone::Plain }];
    let is_roomy = rows >= 14;
    let mut lines = Vec::new();
    if is_roomy {
        lines.extend([plain(&title), plain("")]);
    }
    lines.extend(candidates);
    if is_roomy {
        lines.extend([plain(LEGEND), plain("")]);
    }
    lines.push(plain(&view.leader));
    if is_roomy {
        lines.push(plain(""));
    }
    let bottom: &[&str] = if is_roomy { &["", KEYS[0], KEYS[1]] } else { &KEYS };
    let room = rows.saturating_sub(lines.len() + bottom.len());
    let happened = &view.log[view.log.len().saturating_sub(room)..];
    lines.extend(happened.iter().map(|text| plain(text)));
    // The keys stand at the bottom.
    lines.resize(lines.len() + room - happened.len(), plain(""));
    lines.extend(bottom.iter().map(|text| plain(text)));
    lines.truncate(rows);
    lines.into_iter().map(|line| paint_line(line, columns, view.colours)).collect()
}

fn line_of(row: &Row<'_>, columns: usize) -> Vec<Span> {
    let chosen = if row.is_chosen { '>' } else { ' ' };
    let head = format!("{chosen} {}  ", row.letter);
    let state = format!("{:STATE_WIDTH$}  ", row.state);
    let room = columns.saturating_sub(head.len() + state.len());
    let mut line = vec![Span { text: head, tone: Tone::Plain }, Span { text: state, tone: row.tone }];
    line.extend(row.timeline.draw(room));
    line
}

/// Cuts a line to the width, and only then paints it: colours have no width.
fn paint_line(line: Vec<Span>, columns: usize, colours: bool) -> String {
    let mut room = columns;
    let mut text = String::new();
    for span in line {
        let cut: String = span.text.chars().take(room).collect();
        room -= cut.chars().count();
        text.push_str(&paint(cut, span.tone, colours));
    }
    text
}

/// Tells how a candidate looks.
pub(super) fn tone(candidate: &Candidate) -> Tone {
    match candidate.role {
        Role::Gone => Tone::Bad,
        _ if candidate.is_stopped || candidate.is_cut_off => Tone::Kept,
        Role::Leading(_) => Tone::Good,
        _ => Tone::Plain,
    }
}

/// Says who leads.
pub(super) fn leader(cast: &Cast) -> String {
    let Some((seat, token)) = cast.leader() else {
        let is_anybody_there = cast.candidates().iter().any(Candidate::is_there);
        let hint = if is_anybody_there { "" } else { " Start a candidate with r." };
        return format!("Nobody leads.{hint}");
    };
    let (letter, candidate) = (cast.letter(seat), &cast.candidates()[seat]);
    if candidate.is_stopped {
        format!("Nobody renews the lease of term {token}: {letter} is stopped. It runs out.")
    } else if candidate.is_cut_off {
        format!("{letter} leads, term {token}, until its deadline: it cannot renew the lease.")
    } else {
        format!("{letter} leads, term {token}.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view<'a>(timeline: &'a Timeline, log: &'a [String], colours: bool) -> View<'a> {
        let row = |letter, is_chosen, state: &str| Row {
            letter,
            is_chosen,
            state: state.into(),
            tone: Tone::Good,
            timeline,
        };
        View {
            rows: vec![
                row('A', false, "leads, term 3"),
                row('B', true, "stopped in term 12"),
                row('C', false, "gone"),
            ],
            leader: "A leads, term 3.".into(),
            log,
            ttl: Duration::from_secs(2),
            colours,
        }
    }

    #[test]
    fn it_fits_every_window() {
        let timeline = Timeline::default();
        let log: Vec<_> = (0..50).map(|number| format!("{number} happened")).collect();
        for (columns, rows) in [(80, 24), (300, 100), (40, 10), (20, 5), (1, 1), (0, 0), (5, 200), (200, 3)] {
            let lines = draw(&view(&timeline, &log, false), (columns, rows));
            assert!(lines.len() <= rows, "{columns}x{rows}: {} lines", lines.len());
            assert!(lines.iter().all(|line| line.len() <= columns), "{columns}x{rows}: {lines:#?}");
            assert!(lines.iter().all(|line| !line.contains('\x1b')));
        }
    }

    #[test]
    fn the_usual_window_shows_everything_and_a_small_one_who_leads() {
        let timeline = Timeline::default();
        let log = ["first".to_owned(), "last".to_owned()];
        let lines = draw(&view(&timeline, &log, false), (80, 24));
        assert_eq!(lines.len(), 24);
        assert_eq!(lines[3].trim_end(), "> B  stopped in term 12");
        for text in ["A leads, term 3.", "first", "last", KEYS[0], KEYS[1], LEGEND] {
            assert!(lines.iter().any(|line| line == text), "{text:?} is not in {lines:#?}");
        }
        let small = draw(&view(&timeline, &log, false), (80, 4));
        assert_eq!(small[3], "A leads, term 3.");
    }

    #[test]
    fn colours_come_after_the_cut() {
        let timeline = Timeline::default();
        let lines = draw(&view(&timeline, &[], true), (8, 3));
        assert_eq!(lines[0], "  A  \x1b[32mlea\x1b[0m");
    }
}
