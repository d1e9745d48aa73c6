//! The examples run and print what they promise.
#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Far beyond what anything here takes: a test that waits this long hangs.
const HANG: Duration = Duration::from_secs(40);

fn example(name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let path = program.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} was not built", path.display());
    path
}

fn output(name: &str) -> String {
    let output = Command::new(example(name)).output().unwrap();
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn run_while_leading_sends_three_bills() {
    let lines =
        "term 1: I lead\nterm 1: bill 1 sent\nterm 1: bill 2 sent\nterm 1: bill 3 sent\ndone, 3 bills\n";
    assert_eq!(output("run_while_leading"), lines);
}

#[test]
fn one_shot_leads_refuses_waits_and_hands_over() {
    let lines = "term 1: migrating\nthe other one may not: true\nnor after a while: true\n\
                 term 2: the other one's turn\nterm 3: somebody else led since my term 1: true\n";
    assert_eq!(output("one_shot"), lines);
}

#[test]
fn own_storage_and_clock_hold_an_election() {
    assert_eq!(output("own_storage"), "term 1: leading: true\nhalf a minute later, leading: false\n");
}

#[test]
fn periodic_cleans_up_three_times() {
    assert_eq!(output("periodic"), "clean-up 1\nclean-up 2\nclean-up 3\nstopped\n");
}

#[test]
fn what_fails_is_told_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let place = directory.path().join("store");
    for (arguments, words) in [
        ([file.to_str().unwrap(), "5"], "is a file, and leases need a directory"),
        ([place.to_str().unwrap(), "soon"], "invalid digit"),
        ([place.to_str().unwrap(), "0"], "ttl is 0ns: the shortest here is 500ms"),
    ] {
        let output = Command::new(example("callbacks")).args(arguments).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(words), "{words:?} in {told}");
        assert!(!told.contains('{') && !told.contains("Error {") && told.lines().count() == 1, "{told}");
    }
}

/// A candidate in a process of its own, killed with the test.
struct Candidate {
    child: Child,
    lines: Receiver<String>,
}

impl Candidate {
    fn start(directory: &Path, ttl_seconds: u32) -> Self {
        let mut child = Command::new(example("callbacks"))
            .arg(directory)
            .arg(ttl_seconds.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let candidate = Self { child, lines };
        candidate.wait_for("standing by");
        candidate
    }

    fn next(&self) -> String {
        self.lines.recv_timeout(HANG).expect("a line")
    }

    fn wait_for(&self, wanted: &str) {
        while self.next() != wanted {}
    }

    fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        // Gone already, perhaps.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_second_leads_at_once_when_the_first_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    // A ttl far beyond the test: nobody gets by with waiting for it.
    let first = Candidate::start(&place, 3600);
    first.wait_for("term 1: I lead");
    let second = Candidate::start(&place, 3600);
    first.signal("KILL");
    second.wait_for("term 2: I lead");
}

#[test]
fn the_second_leads_at_expiry_when_the_first_is_stopped_and_the_first_acts_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("store");
    let first = Candidate::start(&place, 3);
    first.wait_for("term 1: I lead");
    let second = Candidate::start(&place, 3);
    first.signal("STOP");
    second.wait_for("term 2: I lead");
    while first.lines.try_recv().is_ok() {}
    first.signal("CONT");
    // Whatever it printed before it was stopped has been read: the next line must be the end of its term.
    assert_eq!(first.next(), "my term is over: deadline passed");
    second.signal("INT");
    second.wait_for("stopped");
    first.wait_for("term 3: I lead");
}
