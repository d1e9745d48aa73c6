//! Aligned columns.

use std::io::{self, Write};

/// Lines whose columns stand below each other.
pub(crate) struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    /// Begins a table with its headings.
    pub(crate) fn new<const COLUMNS: usize>(headings: [&str; COLUMNS]) -> Self {
        Self { lines: vec![headings.map(str::to_owned).into()] }
    }

    /// Begins a table without headings.
    pub(crate) fn plain() -> Self {
        Self { lines: Vec::new() }
    }

    pub(crate) fn row<const COLUMNS: usize>(&mut self, cells: [String; COLUMNS]) {
        self.lines.push(cells.into());
    }

    pub(crate) fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            self.lines.iter().filter_map(|line| line.get(column)).map(|cell| width(cell)).max()
        };
        let widths: Vec<_> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
        for line in &self.lines {
            let mut text = String::new();
            for (cell, column) in line.iter().zip(&widths) {
                text.push_str(cell);
                text.extend(std::iter::repeat_n(' ', column.saturating_sub(width(cell)) + GAP));
            }
            writeln!(output, "{}", text.trim_end())?;
        }
        Ok(())
    }
}

/// Spaces between two columns.
const GAP: usize = 2;

/// Counts what is seen: a colour is not.
fn width(cell: &str) -> usize {
    let (mut seen, mut in_colour) = (0, false);
    for c in cell.chars() {
        match c {
            '\x1b' => in_colour = true,
            'm' if in_colour => in_colour = false,
            _ if in_colour => {}
            _ => seen += 1,
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_whatever_is_in_them() {
        let mut table = Table::new(["A", "BB", "C"]);
        table.row(["größer".into(), "\x1b[32mx\x1b[0m".into(), "y".into()]);
        table.row([String::new(), "xyz".into(), String::new()]);
        let mut output = Vec::new();
        table.write(&mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert_eq!(text, "A       BB   C\ngrößer  \x1b[32mx\x1b[0m    y\n        xyz\n");
    }
}
