//! What may be a password is not shown: in addresses, in connection strings, and in quoted lines of files.

use std::ops::Range;

/// Stands for what is hidden.
pub(crate) const HIDDEN: &str = "…";

/// Writes a store's address without what may be a password.
pub(crate) fn masked(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for range in secrets(text) {
        shown.push_str(&text[at..range.start]);
        shown.push_str(HIDDEN);
        at = range.end;
    }
    shown.push_str(&text[at..]);
    shown
}

/// Finds what must not be shown of a line, in order and without overlap.
///
/// It rather hides too much: a mistyped address is the one that ends in a message.
pub(crate) fn secrets(line: &str) -> Vec<Range<usize>> {
    let found = logins(line).chain(named(line)).chain(options(line));
    let mut found: Vec<Range<usize>> = found.filter(|range| !range.is_empty()).collect();
    found.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<usize>> = Vec::new();
    for range in found {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// What stands between a scheme and the last `@`: a login, also if characters in it end it too early.
fn logins(line: &str) -> impl Iterator<Item = Range<usize>> {
    let at = line.rfind('@');
    let begin = at.and_then(|at| match line[..at].find("://") {
        Some(colon) => Some(colon + 3),
        // Without the slashes it may be a mistyped scheme; with neither colon nor slash it is no login.
        None => line[..at].find([':', '/']).map(|colon| colon + 1),
    });
    begin.zip(at).map(|(begin, at)| begin..at).into_iter()
}

/// What follows a word for a password, up to the end of the line: a password may hold any separator.
fn named(line: &str) -> impl Iterator<Item = Range<usize>> {
    let lower = line.to_ascii_lowercase();
    let words = ["password", "passwd", "pwd", "secret"];
    let begin = words.iter().filter_map(|word| {
        lower.match_indices(word).find_map(|(at, word)| {
            let behind = at + word.len();
            let rest = &lower[behind..];
            let sign = rest.find(|c: char| !c.is_whitespace() && !matches!(c, '"' | '\''))?;
            rest[sign..].starts_with(['=', ':']).then_some(behind + sign + 1)
        })
    });
    begin.min().map(|begin| begin..line.len()).into_iter()
}

/// What follows the server in a connection string: the word for the password may be the one that is mistyped.
fn options(line: &str) -> impl Iterator<Item = Range<usize>> {
    let named =
        line.to_ascii_lowercase().find("connection").and_then(|at| Some(at + line[at..].find(',')? + 1));
    // Or without that name: `host:port,option=…`.
    let behind_port = line.match_indices(',').map(|(comma, _)| comma + 1).find(|behind| {
        let before = line[..behind - 1].trim_end_matches(|c: char| c.is_ascii_digit());
        before.ends_with(':') && before.len() < behind - 1 && line[*behind..].contains('=')
    });
    let begin = named.into_iter().chain(behind_port).min();
    begin.map(|begin| begin..line.len()).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_hidden_wherever_they_stand() {
        for (text, shown) in [
            ("redis://app:hush@h:6379/0", "redis://…@h:6379/0"),
            ("redis://app:hu/sh@x#@h", "redis://…@h"),
            ("redis:/app:hush@h", "redis:…@h"),
            ("redis://h?password=hush&db=1", "redis://h?password=…"),
            ("h:6379,Password=hush,ssl=true", "h:6379,…"),
            ("  \"password\" : \"hush\",", "  \"password\" :…"),
            ("command = [\"mail\", \"kim@example\"]", "command = [\"mail\", \"kim@example\"]"),
            ("redis://h:1", "redis://h:1"),
            ("  conection = \"h:1,pasword=hush\"", "  conection = \"h:1,…"),
            ("  connection = \"h:1,pasword=hush\"", "  connection = \"h:1,…"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
