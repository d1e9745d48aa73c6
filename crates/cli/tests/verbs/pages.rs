//! `tenure completions` and `tenure man`.

use std::fs;
use std::process::Command;

use crate::stage::Stage;

#[test]
fn a_shell_takes_its_completions_and_knows_the_verbs() {
    let stage = Stage::new();
    let script = stage.folder().join("tenure.bash");
    fs::write(&script, stage.run(&["completions", "bash"]).expect(0)).unwrap();
    let ask = r#"source "$0"; COMP_WORDS=(tenure st); COMP_CWORD=1; _tenure tenure st tenure; echo "${COMPREPLY[*]}""#;
    let reply = Command::new("bash").args(["-c", ask]).arg(&script).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&reply.stdout).trim(), "status", "{reply:?}");
    for shell in ["zsh", "fish"] {
        let script = stage.run(&["completions", shell]);
        assert!(script.expect(0).contains("doctor"), "{script:?}");
    }
    let unknown = stage.run(&["completions", "tcsh"]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("tcsh") && unknown.stderr.contains("bash"), "{unknown:?}");
}

#[test]
fn every_verb_has_its_page() {
    let stage = Stage::new();
    let folder = stage.folder().join("man1");
    stage.run(&["man", "--dir", folder.to_str().unwrap()]).expect(0);
    for (page, words) in [
        ("tenure.1", "tenure\\-run(1)"),
        ("tenure-run.1", "\\-\\-election"),
        ("tenure-doctor.1", "Tries the store out"),
    ] {
        let text = fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.starts_with(".ie") && text.contains(words), "{page}: {text}");
    }
    assert!(stage.run(&["man"]).expect(0).contains("Leader election for any program"));

    let file = stage.folder().join("file");
    fs::write(&file, "").unwrap();
    let refused = stage.run(&["man", "--dir", file.to_str().unwrap()]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("cannot write the pages to"), "{refused:?}");
}
