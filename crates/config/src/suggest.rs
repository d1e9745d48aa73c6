//! The nearest of the names that there are.

/// Returns the name that was probably meant.
pub(crate) fn nearest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    let wrong = plain(wrong);
    let names: Vec<&str> = names.into_iter().collect();
    let best = names.iter().map(|name| (distance(&wrong, &plain(name)), *name)).min()?;
    // A third of the letters may be wrong; more is another word, unless the end of it was left out.
    if best.0 <= wrong.chars().count().max(best.1.chars().count()) / 3 {
        return Some(best.1);
    }
    let mut longer = names.into_iter().filter(|name| wrong.len() > 2 && plain(name).starts_with(&wrong));
    longer.next().filter(|_| longer.next().is_none())
}

/// Says so, if there is one.
pub(crate) fn did_you_mean<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(wrong, names).map(|name| format!("did you mean {name:?}?"))
}

/// Counts the letters to add, remove, change or swap with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    // A name that is longer is a mistake of another kind, and not worth the time.
    let from: Vec<char> = from.chars().take(64).collect();
    let to: Vec<char> = to.chars().take(64).collect();
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            rows[i][j] = match (i, j) {
                (i, 0) => i,
                (0, j) => j,
                (i, j) => {
                    let changed = rows[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                    let one = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                    let swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
                    if swapped { one.min(rows[i - 2][j - 2] + 1) } else { one }
                }
            };
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let names = ["ttl", "renew_interval", "retry_interval", "store"];
        for (wrong, right) in [
            ("tll", "ttl"),
            ("renewInterval", "renew_interval"),
            ("retry-interval", "retry_interval"),
            ("stroe", "store"),
            ("renew", "renew_interval"),
        ] {
            assert_eq!(nearest(wrong, names), Some(right), "{wrong}");
        }
        for wrong in ["", "colour", "x"] {
            assert_eq!(nearest(wrong, names), None, "{wrong}");
        }
    }
}
