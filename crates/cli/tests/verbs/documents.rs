//! Every command in the help and in the documents does what it is there for.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use tenure::store::Next;

use crate::stage::{HANG, LONG, Running, Said, Stage, TENURE};

/// Verbs whose examples are run elsewhere: `run` has tests of its own, which start and stop what its examples start.
const ELSEWHERE: &[&str] = &["run"];

/// Prepares what the examples talk about: an election that is led, one that had a success, one that is paused.
async fn prepared() -> Stage {
    let stage = Stage::new();
    let lease = stage.lead("billing", "host-1_100_aaaaaaaa").await;
    stage.release(lease, Next::Anybody).await;
    stage.lead_with_names("billing", "host-2_200_bbbbbbbb").await;
    let lease = stage.lead("nightly", "host-1_101_cccccccc").await;
    stage.release_with(lease, Next::Anybody, true, None).await;
    stage.lead("team-a/mail", "host-3_300_dddddddd").await;
    stage.pause("paused", "ops", LONG).await;
    for script in ["send-bills.sh", "report.sh", "worker"] {
        let path = stage.folder().join(script);
        fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    stage
}

/// Returns a shell that runs a line beside the prepared store, as if it were inside the leader of `billing`.
fn shell(stage: &Stage, line: &str) -> Command {
    let programs = std::path::Path::new(TENURE).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    shell
        .args(["-c", line])
        .current_dir(stage.folder())
        .env("PATH", path)
        .env("TENURE_DIR", stage.store.path())
        .env("TENURE_ELECTION", "billing")
        .env("TENURE_CANDIDATE", "host-2_200_bbbbbbbb")
        .env("TENURE_TOKEN", "2")
        .env_remove("TENURE_STORE");
    shell
}

/// Tells whether a line goes on until it is stopped.
fn is_endless(line: &str) -> bool {
    let runs_on = line.contains("tenure run ") && !line.contains("--try") && !line.contains("--once");
    line.starts_with("tenure watch") || runs_on
}

/// Runs a line and returns its exit code; one that goes on by itself is stopped after its first line.
fn code_of(stage: &Stage, line: &str) -> i32 {
    if is_endless(line) {
        let running = Running::start(&mut shell(stage, &format!("exec {line}")));
        assert!(running.lines.recv_timeout(HANG).is_ok(), "{line} prints nothing");
        return 0;
    }
    let said = Said::of(&mut shell(stage, line));
    assert!(!said.stderr.contains("error:"), "{line}: {said:?}");
    said.code.unwrap_or_else(|| panic!("{line} was killed: {said:?}"))
}

/// Returns the examples in the help of a verb.
fn examples(stage: &Stage, verb: &str) -> Vec<String> {
    let help = stage.run(&verb.split_whitespace().chain(["--help"]).collect::<Vec<_>>());
    let (_, after) = help.expect(0).split_once("Examples:\n").unwrap_or_else(|| panic!("{verb}: {help:?}"));
    let examples: Vec<_> =
        after.lines().filter_map(|line| line.strip_prefix("  ")).map(str::to_owned).collect();
    assert!(!examples.is_empty(), "{verb} has no example");
    examples
}

#[tokio::test]
async fn the_examples_in_the_help_do_what_they_say() {
    let stage = prepared().await;
    for verb in ["", "status", "watch", "list", "leader", "history", "doctor", "completions", "man", "config"]
    {
        for example in examples(&stage, verb) {
            let first = example.split_whitespace().nth(1).unwrap();
            if !ELSEWHERE.contains(&first) {
                assert_eq!(code_of(&stage, &example), 0, "{example}");
            }
        }
    }
}

/// Each on a stage of its own, since it changes what it finds: an election with two candidates, of whom the examples name the
/// one that stands by.
#[tokio::test]
async fn the_examples_in_the_help_of_verbs_that_change_something_do_what_they_say() {
    let helped = Stage::new();
    let verbs = ["candidates", "resign", "handoff", "pause", "resume", "release", "repair"];
    for verb in verbs.into_iter().chain(["token", "token floor", "token check"]) {
        for example in examples(&helped, verb) {
            let stage = prepared_to_change(verb).await;
            let _standing = ["web-1_4711_5d0a77e3", "web-2_4711_0c8f2a91"]
                .map(|who| (verb != "repair").then(|| stage.stand("billing", who, LONG)));
            // A directory cannot tell who stands by.
            let code = i32::from(verb == "candidates");
            assert_eq!(code_of(&stage, &example), code, "{example}");
        }
    }
}

async fn prepared_to_change(verb: &str) -> Stage {
    let stage = Stage::new();
    if verb == "repair" {
        stage.lead("billing", "web-1_4711_5d0a77e3").await;
        stage.spoil("billing");
    }
    let path = stage.folder().join("send-bills.sh");
    fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    stage
}

/// Returns the commands in the shell blocks of a page, a line each.
fn commands(page: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match line.trim() {
            "```sh" => inside = true,
            "```" => inside = false,
            command if inside && !command.is_empty() && !command.starts_with('#') => found.push(command),
            _ => {}
        }
    }
    found
}

#[tokio::test]
async fn the_commands_for_trouble_answer_with_yes_or_no() {
    let stage = prepared().await;
    // As somebody finds it whose leader has just gone.
    stage.lead_with("gone", stage.bid("host-4_400_eeeeeeee", Duration::from_millis(1))).await;
    let page = include_str!("../../../../docs/troubleshooting.md");
    let commands = commands(page);
    assert!(commands.len() >= 8, "only {commands:?} were found: the search is broken");
    for command in commands {
        assert!(command.starts_with("tenure "), "{command}");
        let code = code_of(&stage, command);
        assert!(code == 0 || code == 1, "{command} exits with {code}");
    }
}

#[test]
fn the_example_of_a_failover_shows_one() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/failover.sh");
    let said = Said::of(Command::new("sh").arg(script).env("TENURE", TENURE));
    let lines: Vec<_> = said.expect(0).lines().take(3).collect();
    assert_eq!(lines, ["first leads, term 1", "killing the first copy", "second leads, term 2"], "{said:?}");
    assert!(said.stdout.contains("leads") && !said.stderr.contains("error"), "{said:?}");
}

#[test]
fn commands_are_found_in_shell_blocks_only() {
    let page = "text\n```sh\n# why\ntenure list\n\ntenure status\n```\n```text\nnothing\n```\n";
    assert_eq!(commands(page), ["tenure list", "tenure status"]);
    assert!(is_endless("tenure watch a") && is_endless("tenure run --election a -- b"));
    assert!(!is_endless("tenure run --election a --try --once -- b") && !is_endless("tenure list"));
}
