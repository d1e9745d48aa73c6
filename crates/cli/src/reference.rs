//! Pages that the code writes: docs/cli.md, the help of the command, and docs/settings.md.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Command, CommandFactory};
use tenure::clock::Clock;
use tenure::elector::{Profile, Settings, Timing};
use tenure::store::{Guarantees, LeaseStore};
use tenure::{MemoryStore, SystemClock};

use crate::args::{Cli, SettingsArgs};
use crate::duration;

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
    verbs(&mut text, &mut command);
    text
}

/// Renders the help of all verbs of a command, and of theirs. The verb `help` shows nothing else than this.
fn verbs(text: &mut String, command: &mut Command) {
    for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
        section(text, 2, verb);
        verbs(text, verb);
    }
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

/// Renders the page of the settings: what each flag says, and what the profiles make of them.
fn render_settings() -> String {
    let mut text = String::from(
        "# Settings

This page is written down by a test, from the texts of the flags and from what the code works out.

Only the ttl must be thought about: how long nobody leads after a leader vanished without a word. The rest follows from it.

| flag | is |
|---|---|
",
    );
    for flag in SettingsArgs::augment_args(Command::new("settings")).get_arguments() {
        let (name, help) = (flag.get_long().unwrap_or_default(), flag.get_help());
        let _ = writeln!(text, "| `--{name}` | {} |", help.map(ToString::to_string).unwrap_or_default());
    }
    text.push_str(
        "
## The rule of three

A leader renews three times within a ttl, so that two attempts may fail. What remains after clocks that differ
(`drift`), waking up (`latency`) and stopping the work (`drain_timeout`) must hold two renewals:

```text
2 × renew_interval ≤ ttl × (1 − drift) − latency − drain_timeout
```

Settings that break it are refused, with both numbers.

## Profiles

",
    );
    let profiles = [Profile::Fast, Profile::Balanced, Profile::Stable, Profile::ObjectStorage];
    let timings = profiles.map(|profile| {
        let anywhere = Guarantees { min_ttl: Duration::ZERO, ..MemoryStore::new().guarantees() };
        Settings::profile(profile).resolve(&anywhere).expect("profiles keep the rules")
    });
    text.push_str("| | fast | balanced (default) | stable | object-storage |\n|---|---|---|---|---|\n");
    let mut row = |name: &str, value: &dyn Fn(&Timing) -> String| {
        let values = timings.each_ref().map(value);
        let _ = writeln!(text, "| {name} | {} |", values.join(" | "));
    };
    let short = duration::show;
    row("`ttl`", &|timing| short(timing.ttl));
    row("`renew_interval`", &|timing| short(timing.renew_interval));
    row("`retry_interval`", &|timing| short(timing.retry_interval));
    row("`drain_timeout`", &|timing| short(timing.drain_timeout));
    row("`call_timeout`", &|timing| short(timing.call_timeout));
    row("the leader's requests a minute", &|timing| {
        format!("{:.1}", 60.0 / timing.renew_interval.as_secs_f64())
    });
    row("nobody leads after a crash that the store cannot see", &|timing| {
        format!("{} at most", short(timing.ttl))
    });
    row("so long the store may be away, and the leader leads on", &|timing| {
        let sent = SystemClock.now();
        let deadline = timing.must_stop(sent, timing.ttl).time_since(sent);
        short(deadline.saturating_sub(timing.drain_timeout + timing.renew_interval))
    });
    text.push_str(
        "
- **fast** is for a takeover within two seconds, on a store that is close by. A store that answers slowly for a second, or a
  machine that is busy for so long, costs the term.
- **balanced** is for most services.
- **stable** rides out a store that is away for twenty seconds, such as a failover of its servers.
- **object-storage** is for stores that are paid by the request.

A store with a server has a limit of its own for one call (`call_timeout=2s` in the URL of a Redis): the shorter one counts.

`tenure doctor` measures the way to the store and says which ttl will do.
",
    );
    text
}

#[test]
fn the_reference_is_what_the_command_says() {
    assert_page("docs/cli.md", &render(Cli::command()));
}

#[test]
fn the_page_of_the_settings_is_what_they_say() {
    assert_page("docs/settings.md", &render_settings());
}

fn assert_page(page: &str, rendered: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, rendered).expect("docs can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    let differences: Vec<_> = differences(&written, rendered);
    assert!(
        differences.is_empty(),
        "{page} differs from what the code says:\n{}\n\
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
    check_verbs(&Cli::command());
}

fn check_verbs(command: &Command) {
    for verb in command.get_subcommands() {
        check_verbs(verb);
        let name = verb.get_name();
        let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.contains("Examples:\n  tenure ") && after.contains("Exit code:"), "{name}: {after}");
        for arg in verb.get_arguments() {
            assert!(arg.get_help().is_some(), "{name}: {} has no text", arg.get_id());
        }
    }
}
