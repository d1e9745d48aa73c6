//! One concept, one word: public names use the words of the design, not their rivals.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that have a better one here, and what that is.
const RIVALS: &[(&str, &str)] = &[
    ("resource", "election"),
    ("lock", "election or lease"),
    ("node", "candidate"),
    ("instance", "candidate"),
    ("client", "candidate"),
    ("backend", "store"),
    ("provider", "store"),
    ("driver", "store"),
    ("owner", "holder or leader"),
    ("epoch", "term"),
    ("generation", "term"),
    ("heartbeat", "renew"),
    ("margin", "drift, latency or drain_timeout"),
    ("notification", "event or status"),
    ("service", "elections"),
    ("yield", "resign or hand off"),
    ("vacate", "release or resign"),
    ("timeout", "drain_timeout or call_timeout"),
    ("guard", "fence"),
    ("key", "election"),
];

/// Public names that use a rival in its own right.
const ALLOWED: &[(&str, &str)] = &[
    ("instance_id", "the platform's word for a machine"),
    ("ClientCertificates", "TLS's own word"),
    ("drain_timeout", "the design's own word"),
    ("call_timeout", "the design's own word"),
    ("attempt_timeout", "how long one attempt is waited for"),
    ("Timeout", "an error kind"),
    ("timeout", "how long an answer is waited for, as a flag"),
    ("resource", "what a fence protects"),
    ("guard", "what a fence does over a write"),
    ("guard_async", "likewise"),
    ("Key", "where a value stands in storage of the user's own"),
    ("key", "likewise"),
    ("Keys", "likewise"),
    ("ChangedKeys", "likewise"),
];

#[test]
fn public_names_use_the_words_of_the_design() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for place in ["crates", "stores"] {
        rust_files(&root.join(place), &mut files);
    }
    let mut names = 0;
    let mut wrong = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a source file");
        for name in public_names(&text) {
            names += 1;
            wrong.extend(rival_in(&name).map(|(rival, word)| {
                format!(
                    "{}: `{name}` says {rival:?}: say {word}",
                    file.strip_prefix(&root).unwrap_or(file).display()
                )
            }));
        }
    }
    assert!(names > 200, "only {names} public names were found: the search is broken");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// The pages hold every flag and every key: tests of the command see to that.
#[test]
fn flags_and_keys_use_the_words_of_the_design() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |page| fs::read_to_string(docs.join(page)).expect("a page");
    let (flags, keys) = (flags(&read("cli.md")), keys(&read("json.md")));
    assert!(flags.len() > 20, "only {flags:?} were found: the search is broken");
    assert!(keys.len() > 30, "only {keys:?} were found: the search is broken");
    let wrong: Vec<_> = flags
        .iter()
        .chain(&keys)
        .filter_map(|name| rival_in(name).map(|(rival, word)| format!("`{name}` says {rival:?}: say {word}")))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Finds the flags in the help, as names.
fn flags(page: &str) -> BTreeSet<String> {
    let words = page.split(|c: char| !(c.is_alphanumeric() || c == '-'));
    words.filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty()).map(as_name).collect()
}

fn as_name(flag: &str) -> String {
    flag.replace('-', "_")
}

/// Finds the keys in the first column of the tables.
fn keys(page: &str) -> BTreeSet<String> {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    rows.map(|(key, _)| key.to_owned()).filter(|key| !key.contains(' ')).collect()
}

#[test]
fn the_search_finds_rivals_in_every_kind_of_name() {
    let text = "pub struct NodeInfo {\n    pub owner: String,\n}\npub enum X {\n    Locked,\n}\n\
                pub async fn heartbeat_now() {}\npub(crate) fn lock() {}\n";
    let found: Vec<_> = public_names(text).into_iter().filter(|name| rival_in(name).is_some()).collect();
    assert_eq!(found, ["NodeInfo", "owner", "heartbeat_now"]);
    let flags = flags("      --lock-wait <D>\n  -h, --help\n");
    assert_eq!(flags, ["help", "lock_wait"].map(str::to_owned).into());
    assert!(rival_in("lock_wait").is_some());
    assert_eq!(keys("| `owner` | x |\n| `tenure list --json` | y |\n"), ["owner".to_owned()].into());
    assert!(rival_in("Blocked").is_none() && rival_in("clock").is_none() && rival_in("monkey").is_none());
}

fn rust_files(directory: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("tests") && !path.ends_with("target") {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("_test"))
        {
            files.push(path);
        }
    }
}

fn public_names(text: &str) -> Vec<String> {
    const KINDS: &[&str] = &["fn", "struct", "enum", "trait", "type", "const", "static", "mod"];
    let mut names = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix("pub ") else { continue };
        let mut words =
            rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty());
        let name = match rest.split_once(':') {
            // A field: one word before the colon.
            Some((field, _)) if field.chars().all(|c| c.is_alphanumeric() || c == '_') => {
                Some(field.to_owned())
            }
            _ => words.find(|word| KINDS.contains(word)).and_then(|_| words.next()).map(str::to_owned),
        };
        names.extend(name);
    }
    names
}

/// Finds a rival among the words that a name is made of.
fn rival_in(name: &str) -> Option<(&'static str, &'static str)> {
    if ALLOWED.iter().any(|(allowed, _)| *allowed == name) {
        return None;
    }
    let mut words = vec![String::new()];
    for c in name.chars() {
        if c == '_' || c.is_uppercase() {
            words.push(String::new());
        }
        if c != '_' {
            words.last_mut().expect("never empty").extend(c.to_lowercase());
        }
    }
    RIVALS.iter().copied().find(|(rival, _)| words.iter().any(|word| word == rival))
}
