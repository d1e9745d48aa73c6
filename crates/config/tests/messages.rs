//! Every broken file gets a message that names the place, shows the line, and tells the way out.
//!
//! What is said of `broken/x.toml` stands in `broken/x.toml.txt`. After a change that is meant: UPDATE_SNAPSHOTS=1.

#![allow(clippy::unwrap_used)] // Tests.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use tenure_config::Config;

fn broken_files() -> Vec<PathBuf> {
    let entries = fs::read_dir("tests/broken").unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().unwrap() != "txt").collect();
    files.sort();
    files
}

fn said_of(file: &Path) -> String {
    let sources = support::sources("tests/none").file(file);
    match Config::load(&sources) {
        Ok(config) => panic!("{} has no mistake: {config:?}", file.display()),
        Err(mistakes) => format!("{mistakes}\n"),
    }
}

#[test]
fn every_broken_file_gets_its_message() {
    let files = broken_files();
    assert!(files.len() >= 30, "there are only {} broken files", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let (said, page) = (said_of(&file), PathBuf::from(format!("{}.txt", file.display())));
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            fs::write(&page, &said).unwrap();
        }
        let written = fs::read_to_string(&page).unwrap_or_default();
        if written != said {
            wrong.push(format!("{} was:\n{written}\nis:\n{said}", page.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}\nhint: UPDATE_SNAPSHOTS=1 if it is meant", wrong.join("\n"));
}

#[test]
fn every_message_has_a_place_a_line_and_a_caret_and_no_secret() {
    for file in broken_files() {
        let sources = support::sources("tests/none").file(&file);
        let mistakes = Config::load(&sources).unwrap_err();
        for mistake in mistakes.all() {
            let said = mistake.to_string();
            assert!(said.starts_with(&format!("{}:", file.display())), "{said}");
            assert!(said.contains(" | ") && said.contains('^'), "{said}");
        }
        for shown in [mistakes.to_string(), format!("{mistakes:?}"), format!("{sources:?}")] {
            assert!(!shown.contains("hush"), "{shown}");
        }
    }
}
