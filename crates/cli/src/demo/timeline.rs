//! What a candidate did, half a second a cell.

use std::collections::VecDeque;
use std::time::Duration;

use tenure::FencingToken;

use super::candidate::{Candidate, Role};
use super::picture::Span;
use crate::show::colour::Tone;

/// The time of a cell.
pub(super) const CELL: Duration = Duration::from_millis(500);

/// As many as the widest window shows.
const KEPT: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Gone,
    Killed,
    StandingBy,
    Leading(FencingToken),
    Stopped,
    CutOff,
}

/// What the cells mean.
pub(super) const LEGEND: &str = ". stands by   1### leads, term 1   z stopped   / cut off   X killed";

#[derive(Debug, Default)]
pub(super) struct Timeline {
    cells: VecDeque<Cell>,
}

impl Timeline {
    /// Adds a cell for how a candidate is now.
    pub(super) fn add(&mut self, candidate: &Candidate) {
        let was_there = !matches!(self.cells.back(), None | Some(Cell::Gone | Cell::Killed));
        let cell = match candidate.role {
            Role::Gone if was_there => Cell::Killed,
            Role::Gone => Cell::Gone,
            _ if candidate.is_stopped => Cell::Stopped,
            Role::Leading(token) => Cell::Leading(token),
            _ if candidate.is_cut_off => Cell::CutOff,
            Role::Starting | Role::StandingBy | Role::Past => Cell::StandingBy,
        };
        if self.cells.len() == KEPT {
            self.cells.pop_front();
        }
        self.cells.push_back(cell);
    }

    /// Draws the last cells: what is alike in one piece, a term with its token in front.
    pub(super) fn draw(&self, width: usize) -> Vec<Span> {
        let shown: Vec<Cell> =
            self.cells.iter().skip(self.cells.len().saturating_sub(width)).copied().collect();
        shown.chunk_by(PartialEq::eq).map(|run| piece(run[0], run.len())).collect()
    }
}

fn piece(cell: Cell, length: usize) -> Span {
    let (mark, tone) = match cell {
        Cell::Gone => (' ', Tone::Plain),
        Cell::Killed => ('X', Tone::Bad),
        Cell::StandingBy => ('.', Tone::Plain),
        Cell::Leading(_) => ('#', Tone::Good),
        Cell::Stopped => ('z', Tone::Kept),
        Cell::CutOff => ('/', Tone::Bad),
    };
    let name = match cell {
        Cell::Leading(token) => token.to_string(),
        _ => String::new(),
    };
    let text = name.chars().chain(std::iter::repeat(mark)).take(length).collect();
    Span { text, tone }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(timeline: &Timeline, width: usize) -> String {
        timeline.draw(width).into_iter().map(|span| span.text).collect()
    }

    #[test]
    fn it_shows_the_last_cells_with_the_token_in_front_of_each_term() {
        let mut timeline = Timeline::default();
        assert_eq!(text(&timeline, 10), "");
        let mut a = Candidate::new('A');
        let mut add = |role, is_stopped, is_cut_off, times: usize| {
            (a.role, a.is_stopped, a.is_cut_off) = (role, is_stopped, is_cut_off);
            (0..times).for_each(|_| timeline.add(&a));
        };
        let leading = |token| Role::Leading(FencingToken(token));
        add(Role::Gone, false, false, 1);
        add(Role::StandingBy, false, false, 2);
        add(leading(1), false, false, 3);
        add(leading(12), false, true, 4);
        add(Role::Past, false, true, 2);
        add(leading(12), true, false, 2);
        add(Role::Gone, false, false, 2);
        add(leading(345), false, false, 2);
        assert_eq!(text(&timeline, 80), " ..1##12##//zzX 34");
        assert_eq!(text(&timeline, 11), "12#//zzX 34", "the token stands in front of what is seen");
        assert_eq!(text(&timeline, 0), "");
        (0..KEPT).for_each(|_| timeline.add(&a));
        assert_eq!(timeline.cells.len(), KEPT);
    }
}
