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

/// Writes the words of a command without what may be a password: within a word, and behind a flag that asks for one.
pub(crate) fn masked_words(words: &[String]) -> impl Iterator<Item = String> {
    let is_asked_for = |flag: &str| {
        let flag = flag.to_ascii_lowercase();
        flag.starts_with('-')
            && ["pass", "pwd", "secret", "token", "key", "auth"].iter().any(|word| flag.contains(word))
    };
    let before = std::iter::once(None).chain(words.iter().map(Some));
    words.iter().zip(before).map(move |(word, before)| {
        let hidden = !word.starts_with('-') && before.is_some_and(|flag| is_asked_for(flag));
        if hidden { HIDDEN.to_owned() } else { masked(word) }
    })
}

/// Finds what must not be shown of a line, in order and without overlap.
///
/// It rather hides too much: a mistyped address is the one that ends in a message.
pub(crate) fn secrets(line: &str) -> Vec<Range<usize>> {
    let found = logins(line).chain(named(line)).chain(options(line)).chain(queries(line)).chain(ports(line));
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

/// Options of an address that are no secrets.
const HARMLESS: [&str; 16] = [
    "prefix",
    "key",
    "db",
    "user",
    "ca",
    "certificate",
    "server_name",
    "call_timeout",
    "longest_ttl",
    "min_ttl",
    "survives_restart",
    "allow_eviction",
    "min_replicas",
    "max_server_skew",
    "tls",
    "sentinel_user",
];

/// The options of an address from the first on that is not known to be harmless: its name may be mistyped.
fn queries(line: &str) -> impl Iterator<Item = Range<usize>> {
    let begin = line.find("://").and_then(|scheme| Some(scheme + line[scheme..].find('?')? + 1));
    let secret = begin.and_then(|begin| {
        let mut at = begin;
        for option in line[begin..].split('&') {
            let Some((name, _)) = option.split_once('=') else { return Some(at) };
            if !HARMLESS.contains(&name) && !name.starts_with("allow_") {
                return Some(at + name.len() + 1);
            }
            at += option.len() + 1;
        }
        None
    });
    secret.map(|at| at..line.len()).into_iter()
}

/// What stands in the place of a port and is none: the host may have been forgotten behind a password.
fn ports(line: &str) -> impl Iterator<Item = Range<usize>> {
    let place = line.find("://").map(|scheme| scheme + 3).filter(|from| !line[*from..].contains('@'));
    let port = place.and_then(|from| {
        let host = &line[from..];
        let end = host.find(['/', '?', '"', '\'', ' ']).unwrap_or(host.len());
        // An address of version 6 has colons, too.
        let colon = host[..end].rfind(':').filter(|_| !host.starts_with('['))?;
        let port = &host[colon + 1..end];
        let is_port = port.split(',').next().is_some_and(|port| port.chars().all(|c| c.is_ascii_digit()));
        (!is_port).then_some(from + colon + 1..from + end)
    });
    port.into_iter()
}

/// What follows a word for a password, up to the end of the line: a password may hold any separator.
fn named(line: &str) -> impl Iterator<Item = Range<usize>> {
    let lower = line.to_ascii_lowercase();
    let words = ["password", "passwd", "pwd", "secret", "api-key", "api_key", "apikey"];
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
    let behind_port =
        line.match_indices(',').filter(|_| !line.contains("://")).map(|(comma, _)| comma + 1).find(
            |behind| {
                let before = line[..behind - 1].trim_end_matches(|c: char| c.is_ascii_digit());
                before.ends_with(':') && before.len() < behind - 1 && line[*behind..].contains('=')
            },
        );
    let begin = named.into_iter().chain(behind_port).min();
    begin.map(|begin| begin..line.len()).into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_commands_are_hidden() {
        let words = ["worker", "--password", "hush", "--api-key=hush2", "-v", "file", "--secret=hush3"]
            .map(str::to_owned);
        let shown: Vec<_> = masked_words(&words).collect();
        assert_eq!(shown, ["worker", "--password", "…", "--api-key=…", "-v", "file", "--secret=…"]);
    }

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
            ("redis://h:1,i:2/0?prefix=a&db=1", "redis://h:1,i:2/0?prefix=a&db=1"),
            (
                "store = \"redis://h:6379?prefix=a&pasword=hush\"",
                "store = \"redis://h:6379?prefix=a&pasword=…",
            ),
            ("store = \"redis://app:hush\"", "store = \"redis://app:…\""),
            ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
            ("  conection = \"h:1,pasword=hush\"", "  conection = \"h:1,…"),
            ("  connection = \"h:1,pasword=hush\"", "  connection = \"h:1,…"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }
}
