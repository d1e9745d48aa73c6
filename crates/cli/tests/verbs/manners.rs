//! Data on standard output, talk on standard error, and no noise when nobody listens.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::stage::{Said, Stage, TENURE};

#[test]
fn help_and_version_are_data() {
    let stage = Stage::new();
    for args in [&["--help"][..], &["-h"], &["status", "--help"], &["run", "--help"]] {
        let said = stage.run(args);
        assert!(said.expect(0).contains("Usage: tenure") && said.stderr.is_empty(), "{said:?}");
    }
    assert_eq!(stage.run(&["--version"]).expect(0), format!("tenure {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_of_a_verb_can_be_asked_for_in_two_ways() {
    let stage = Stage::new();
    for words in [&["status"][..], &["run"], &["token"], &["token", "floor"]] {
        let by_verb = stage.run(&[&["help"], words].concat());
        let by_flag = stage.run(&[words, &["--help"]].concat());
        assert_eq!(by_verb.expect(0), by_flag.expect(0));
    }
    assert_eq!(stage.run(&["help"]).expect(0), stage.run(&["--help"]).expect(0));
    stage.run(&["help", "nothing"]).refuse(2, &["nothing"]);
}

#[tokio::test]
async fn a_reader_that_has_enough_is_no_error() {
    let stage = Stage::new();
    // More than a pipe takes at once, so that the rest is written to nobody.
    for number in 0..400 {
        stage.pause(&format!("{}-{number}", "x".repeat(240)), "test", crate::stage::LONG).await;
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", "{ \"$0\" list; echo \"code $?\" >&2; } | head -1", TENURE]);
    let said = Said::of(shell.env("TENURE_DIR", stage.store.path()).env_remove("TENURE_STORE"));
    assert_eq!(said.expect(0).lines().count(), 1);
    assert_eq!(said.stderr, "code 0\n");
}

#[tokio::test]
async fn an_answer_that_cannot_be_written_is_an_error() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output =
        stage.command().arg("list").stdout(Stdio::from(full)).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the answer"));
}

#[tokio::test]
async fn nobody_who_hears_the_talk_is_no_error() {
    let stage = Stage::new();
    let closed = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = stage.command().arg("list").stderr(Stdio::from(closed)).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
}

/// Runs the command on a terminal and returns what that shows.
fn on_terminal(command: &mut Command) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    // Everything is read while the terminal is open, and its end is when the last process closes it.
    let mut child = command.stdout(Stdio::from(OwnedFd::from(slave))).spawn().unwrap();
    command.stdout(Stdio::null());
    let mut shown = Vec::new();
    // A terminal that everybody closed answers with an error.
    let _ = File::from(master).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[tokio::test]
async fn colours_are_for_terminals_and_for_those_who_want_them() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    assert!(!stage.run(&["status"]).expect(0).contains('\x1b'));
    let shown = on_terminal(stage.command().arg("status").env("TERM", "xterm"));
    assert!(shown.contains("\x1b[32mheld\x1b[0m"), "{shown:?}");
    let shown = on_terminal(stage.command().arg("status").env("TERM", "xterm").env("NO_COLOR", "1"));
    assert!(shown.contains("held") && !shown.contains('\x1b'), "{shown:?}");
    let shown = on_terminal(stage.command().arg("status").env("TERM", "dumb"));
    assert!(shown.contains("held") && !shown.contains('\x1b'), "{shown:?}");
}
