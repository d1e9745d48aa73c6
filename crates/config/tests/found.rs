//! Which file is read, and what is said if it cannot be.

#![allow(clippy::unwrap_used)] // Tests.

mod support;

use std::fs;
use std::path::Path;

use tenure_config::Config;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn file_of(config: &Config) -> &str {
    config.file().map_or("none", |file| file.file_name().unwrap().to_str().unwrap())
}

#[test]
fn the_named_file_comes_before_this_directory_before_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let sources = support::sources(folder.path());
    assert_eq!(file_of(&Config::load(&sources).unwrap()), "none");
    write(folder.path(), "etc/any.yml", "ttl: 20s\n");
    assert_eq!(file_of(&Config::load(&sources).unwrap()), "any.yml");
    write(folder.path(), "tenure.json", "{}");
    assert_eq!(file_of(&Config::load(&sources).unwrap()), "tenure.json");
    write(folder.path(), "a.hcl", "");
    let sources = sources.variable("TENURE_CONFIG", folder.path().join("a.hcl").to_str().unwrap());
    assert_eq!(file_of(&Config::load(&sources).unwrap()), "a.hcl");
    write(folder.path(), "b.honua", "");
    let sources = sources.file(folder.path().join("b.honua"));
    assert_eq!(file_of(&Config::load(&sources).unwrap()), "b.honua");
}

#[test]
fn two_files_in_one_place_are_a_mistake_that_names_both() {
    for (first, second) in [("tenure.toml", "tenure.yml"), ("etc/a.json", "etc/b.toml")] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), first, "");
        write(folder.path(), second, "");
        let said = Config::load(&support::sources(folder.path())).unwrap_err().to_string();
        assert!(said.contains(first) && said.contains(second) && said.contains("--config"), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tenure.ini", "");
    write(folder.path(), "bytes.toml", "");
    fs::write(folder.path().join("bytes.toml"), b"a = 1\nb = \"\xff\"\n").unwrap();
    fs::create_dir(folder.path().join("folder.toml")).unwrap();
    for (name, words) in [
        ("nothing.toml", &["cannot be read", "named by --config"][..]),
        ("tenure.ini", &["how it is written", ".toml"]),
        ("bytes.toml", &["line 2", "UTF-8"]),
        ("folder.toml", &["is a directory"]),
    ] {
        let sources = support::sources(folder.path()).file(folder.path().join(name));
        let said = Config::load(&sources).unwrap_err().to_string();
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    let empty = support::sources(folder.path()).variable("TENURE_CONFIG", "");
    assert!(Config::load(&empty).unwrap_err().to_string().contains("TENURE_CONFIG: it names no file"));
}

#[test]
fn mistakes_of_flags_environment_and_file_come_together() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tenure.toml", "tll = \"1s\"\n");
    let sources = support::sources(folder.path()).flag("ttl", "soon").variable("TENURE_STORE", "");
    let sources = sources.variable("TENURE_LATENCY", "9").variable("TENURE_ELECTION", " ");
    let said = Config::load(&sources).unwrap_err().to_string();
    for words in [
        "5 mistakes",
        "--ttl: ttl is \"soon\"",
        "TENURE_STORE: ",
        "TENURE_LATENCY: ",
        "TENURE_ELECTION: ",
        "ttl\"?",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let both = support::sources("tests/none").flag("ttl", "9s").flag("profile", "fast");
    let said = Config::load(&both).unwrap_err().to_string();
    assert!(said.contains("--profile and --ttl contradict each other"), "{said}");
}

#[test]
fn a_variable_that_is_nearly_ours_is_warned_of() {
    let sources = support::sources("tests/none").variable("TENURE_TLL", "1s").variable("TENURE_SEED", "7");
    let config = Config::load(&sources).unwrap();
    let warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["TENURE_TLL: this variable is not used\nhint: did you mean TENURE_TTL?"]);
}

#[test]
fn a_file_that_somebody_else_can_have_written_is_obeyed_only_if_it_is_named() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "tenure.toml", "ttl = \"20s\"\n");
    let path = folder.path().join("tenure.toml");
    let sources = support::sources(folder.path());
    assert!(Config::load(&sources).is_ok());

    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let said = Config::load(&sources).unwrap_err().to_string();
    assert!(said.contains("everybody may write it") && said.contains("--config"), "{said}");
    assert!(Config::load(&sources.clone().file(&path)).is_ok());

    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    // Only root can give a file away.
    if chown(&path, Some(65_534), None).is_ok() {
        let said = Config::load(&sources).unwrap_err().to_string();
        assert!(said.contains("belongs to user 65534") && said.contains("--config"), "{said}");
        assert!(Config::load(&sources.file(&path)).is_ok());
    }
}

#[test]
fn what_is_no_plain_file_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.toml");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let said = Config::load(&support::sources(folder.path()).file(&pipe)).unwrap_err().to_string();
    assert!(said.contains("name a plain one"), "{said}");
}
