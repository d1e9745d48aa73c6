//! The reference of the command, docs/cli.md: its own help, written down.

use std::fmt::Write;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::Cli;

/// Columns of the help: a terminal's, whatever terminal the tests run in.
const WIDTH: usize = 100;

/// Renders the help of a command and of all its verbs.
fn render(command: Command) -> String {
    let mut command = command.term_width(WIDTH);
    command.build();
    let mut text = String::from(
        "# The command\n\nThis page is the help of the command, written down by a test. What the verbs write with \
         `--json` stands in [json.md](json.md).\n",
    );
    section(&mut text, 2, &mut command);
    let verbs: Vec<_> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    for verb in verbs {
        if let Some(verb) = command.find_subcommand_mut(&verb) {
            section(&mut text, 2, verb);
        }
    }
    text
}

fn section(text: &mut String, level: usize, command: &mut Command) {
    let help = command.render_long_help().to_string();
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let _ = write!(text, "\n{} {name}\n\n```text\n", "#".repeat(level));
    for line in help.trim_end().lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text.push_str("```\n");
}

#[test]
fn the_reference_is_what_the_command_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let rendered = render(Cli::command());
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &rendered).expect("docs can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differences: Vec<_> = differences(&written, &rendered);
    assert!(
        differences.is_empty(),
        "docs/cli.md differs from the help:\n{}\n\
         hint: look at each difference; if it is meant, run again with UPDATE_SNAPSHOTS=1",
        differences.join("\n")
    );
}

fn differences(written: &str, rendered: &str) -> Vec<String> {
    let gone = written.lines().filter(|line| !rendered.lines().any(|other| other == *line));
    let new = rendered.lines().filter(|line| !written.lines().any(|other| other == *line));
    let mut found: Vec<_> =
        gone.map(|line| format!("- {line}")).chain(new.map(|line| format!("+ {line}"))).collect();
    if found.is_empty() && written != rendered {
        found.push("the same lines in another order".to_owned());
    }
    found
}

#[test]
fn the_command_is_put_together_well() {
    Cli::command().debug_assert();
}

#[test]
fn every_verb_has_examples_and_every_flag_a_text() {
    for verb in Cli::command().get_subcommands() {
        let name = verb.get_name();
        let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.contains("Examples:\n  tenure ") && after.contains("Exit code:"), "{name}: {after}");
        for arg in verb.get_arguments() {
            assert!(arg.get_help().is_some(), "{name}: {} has no text", arg.get_id());
        }
    }
}
