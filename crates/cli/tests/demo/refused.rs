//! What cannot be shown is refused with a way out, and nothing is left of it.

use crate::session::TENURE;
use crate::stage::Stage;

#[test]
fn without_a_terminal_the_script_is_named() {
    let refused = |args: &[&str], words: &[&str]| {
        let stage = Stage::new();
        let output = stage.command(TENURE).arg("demo").args(args).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{args:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {said}");
        stage.assert_empty();
    };
    refused(&[], &["terminal", "hint: `tenure demo --script`"]);
    refused(&["--json"], &["--script"]);
    refused(&["--script", "--ttl", "1ms"], &["ttl"]);
    refused(&["--script", "--ttl", "soon"], &["soon", "such as"]);
}

#[test]
fn a_place_that_can_hold_no_store_is_named() {
    let stage = Stage::new();
    let missing = stage.path().join("missing");
    let output = stage.command(TENURE).args(["demo", "--script"]).env("TMPDIR", missing).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot make a directory"), "{said}");
}

#[test]
fn a_candidate_of_nobody_does_not_begin() {
    let stage = Stage::new();
    let output = stage.command(TENURE).args(["demo", "--child-of", "1", "--", "list"]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(125), &b""[..]));
}
