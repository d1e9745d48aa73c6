//! Whatever a file holds, it is read or refused, and nothing panics.
//!
//! Good and broken files are changed at random, by a seed; TENURE_FUZZ_SECONDS=60 goes on for so long with each format.

#![allow(clippy::unwrap_used)] // Tests.

mod support;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tenure_config::Config;
use tenure_core::{Clock, Random, SystemClock};

const ROUNDS: usize = 400;

/// What files are made of, and what parsers trip over.
const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    "\\",
    "\n",
    "\t",
    " ",
    ":",
    "=",
    ",",
    ".",
    "#",
    "//",
    "/*",
    "*/",
    "${",
    "%{",
    "<<E\n",
    "&a",
    "*a",
    "!!str ",
    "---\n",
    "...\n",
    "|\n",
    ">-\n",
    "? ",
    "- ",
    "~",
    "null",
    "true",
    "0x",
    "1e999",
    "-",
    "nan",
    "\u{feff}",
    "ä",
    "\u{1f600}",
    "\0",
    "\r",
    "\u{2028}",
    "\"\"\"",
    "'''",
    "[[",
    "]]",
    "\\u12",
    "\\ud800",
    "env(",
    "env(\"X\")",
    "elections",
    "election \"a\" {",
    "ttl",
    "store",
    "\"redis://a:b@c\"",
    "1979-05-27",
    "for x in",
    "if",
    "...",
    "? 1 : 2",
    // What changes nothing.
    "\n\n",
    "  ",
];

fn files(ends: &[&str]) -> Vec<String> {
    let entries = ["tests/good", "tests/broken"].into_iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    let wanted = paths.iter().filter(|path| ends.contains(&path.extension().unwrap().to_str().unwrap()));
    let simple = ends.iter().filter(|end| **end == "json").map(|_| "{ \"ttl\": \"10s\" }\n".to_owned());
    wanted.map(|path| fs::read_to_string(path).unwrap()).chain(simple).collect()
}

struct Changer {
    random: Random,
}

impl Changer {
    fn below(&self, limit: usize) -> usize {
        usize::try_from(self.random.next_u64() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    /// Returns a place between two characters.
    fn place(&self, text: &str) -> usize {
        let mut at = self.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    fn change(&self, text: &mut String, others: &[String]) {
        let from = self.place(text);
        // A few characters more.
        let to = text[from..].char_indices().nth(self.below(40)).map_or(text.len(), |(more, _)| from + more);
        match self.below(6) {
            0 => text.insert_str(from, PIECES[self.below(PIECES.len())]),
            1 => text.replace_range(from..to, ""),
            2 => {
                let piece = text[from..to].to_owned();
                text.insert_str(self.place(text), &piece);
            }
            3 => {
                let other = &others[self.below(others.len())];
                let (c, d) = (self.place(other), self.place(other));
                text.insert_str(from, &other[c.min(d)..c.max(d)]);
            }
            4 => text.truncate(from),
            _ => text.insert_str(from, &PIECES[self.below(PIECES.len())].repeat(self.below(300))),
        }
        if text.len() > 20_000 {
            let end = (0..=20_000).rev().find(|at| text.is_char_boundary(*at)).unwrap();
            text.truncate(end);
        }
    }
}

fn fuzz(end: &str, ends: &[&str]) {
    let seed = std::env::var("TENURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(4711);
    let changer = Changer { random: Random::from_seed(seed) };
    let good = files(ends);
    assert!(good.len() > 3, "there are only {} files to begin with", good.len());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("tenure.{end}"));
    let seconds = std::env::var("TENURE_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| SystemClock.now().plus(Duration::from_secs(seconds)));
    let (mut rounds, mut read) = (0, 0);
    while until.map_or(rounds < ROUNDS, |until| !until.has_passed(SystemClock.now())) {
        let mut text = good[changer.below(good.len())].clone();
        for _ in 0..=changer.below(4) {
            changer.change(&mut text, &good);
        }
        fs::write(&file, &text).unwrap();
        let sources = support::sources(folder.path()).variable("LEASE", "12s");
        // A panic shows the text that did it.
        let loaded = std::panic::catch_unwind(|| {
            Config::load(&sources).map(|config| (config.show(), config.show_json()))
        });
        match loaded {
            Ok(Ok(_)) => read += 1,
            Ok(Err(mistakes)) => assert!(!mistakes.all().is_empty() && !mistakes.to_string().is_empty()),
            Err(_) => panic!("seed {seed}, round {rounds}: this file panics:\n{text}"),
        }
        rounds += 1;
    }
    println!("{end}: {rounds} rounds, {read} of them without a mistake");
    assert!(read > 0, "all of {rounds} files were broken: the changes are too coarse");
}

#[test]
fn toml_never_panics() {
    fuzz("toml", &["toml"]);
}

#[test]
fn json_never_panics() {
    fuzz("json", &["json"]);
}

#[test]
fn yaml_never_panics() {
    fuzz("yaml", &["yaml", "yml"]);
}

#[test]
fn hcl_never_panics() {
    fuzz("hcl", &["hcl", "honua"]);
}

#[test]
fn what_lies_too_deep_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(40_000), close.repeat(40_000));
    for (end, text) in [
        ("toml", format!("a = {}", deep("[", "]"))),
        ("toml", format!("a = {}", deep("{a=", "}"))),
        ("toml", format!("{}a = 1", "a.".repeat(40_000))),
        ("toml", format!("[{}a]", "\"=\".".repeat(40_000))),
        ("json", deep("[", "]")),
        ("json", deep("{\"a\":", "}")),
        ("yaml", deep("[", "]")),
        ("yaml", deep("{a: ", "}")),
        ("yaml", "- ".repeat(40_000)),
        ("yaml", (0..2000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect()),
        ("hcl", format!("a = {}", deep("[", "]"))),
        ("hcl", format!("a = {}", deep("(", ")"))),
        ("hcl", format!("a = {}1", "-".repeat(40_000))),
        ("hcl", format!("a = {}", deep("1 ? 2 : (", ")"))),
        ("hcl", format!("a = {}1", "1 ? 2 : ".repeat(40_000))),
        ("hcl", format!("a = {}1", "1 + ".repeat(40_000))),
        ("hcl", format!("a = {}", deep("\"${", "}\""))),
        ("hcl", deep("a {\n", "}\n").replace("1}", "}")),
        ("hcl", format!("a = b{}", ".c".repeat(40_000))),
    ] {
        let folder = folder.path();
        let file = folder.join(format!("deep.{end}"));
        fs::write(&file, text).unwrap();
        let loaded = Config::load(&support::sources(folder).file(&file));
        assert!(loaded.is_err(), "{end}");
    }
}
