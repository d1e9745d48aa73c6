use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::store::ErrorKind;

fn refused(path: &Path) -> String {
    let error = prepare(path, Allowed::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error.to_string()
}

#[test]
fn a_missing_directory_is_made_for_this_user_alone() {
    let top = tempfile::tempdir().unwrap();
    let path = prepare(&top.path().join("a/b"), Allowed::default()).unwrap();
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_file_in_place_of_the_directory_is_refused() {
    let top = tempfile::tempdir().unwrap();
    let file = top.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(refused(&file).contains("is a file"));
    assert!(refused(&file.join("below")).contains("move it away"));
    assert!(refused(Path::new("")).contains("name a directory"));
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let top = tempfile::tempdir().unwrap();
    for mode in [0o777, 0o1777, 0o770, 0o702] {
        fs::set_permissions(top.path(), fs::Permissions::from_mode(mode)).unwrap();
        let message = refused(top.path());
        assert!(message.contains(&format!("{mode:o}")) && message.contains("chmod 700"), "{message}");
    }
    fs::set_permissions(top.path(), fs::Permissions::from_mode(0o755)).unwrap();
    prepare(top.path(), Allowed::default()).unwrap();
}

#[test]
fn only_known_local_file_systems_are_taken() {
    let path = Path::new("/x");
    for (magic, _) in LOCAL {
        judge_file_system(path, magic).unwrap();
    }
    for (magic, word) in [(0x6969, "nfs"), (0x6573_5546, "fuse"), (0x1234_5678, "unknown")] {
        let message = judge_file_system(path, magic).unwrap_err().to_string();
        for word in [word, "/x", &format!("{magic:#x}"), "ext2/3/4", "allow_unknown_file_system"] {
            assert!(message.contains(word), "{message}");
        }
    }
}

#[test]
fn a_file_system_of_the_kernel_itself_is_refused_unless_asked_for() {
    let proc = Path::new("/proc/self");
    assert!(check_file_system(proc).unwrap_err().to_string().contains("0x9fa0"));
    check_file_system(tempfile::tempdir().unwrap().path()).unwrap();
}

#[test]
fn a_shifted_boot_clock_is_refused() {
    for fine in [
        "",
        "monotonic           0         0\nboottime            0         0\n",
        "monotonic 5 0\nboottime 0 0",
    ] {
        judge_clock(fine).unwrap();
    }
    for shifted in ["boottime 86400 0", "boottime 0 1", "boottime -5 0", "1 0 0\n7 3 0"] {
        let message = judge_clock(shifted).unwrap_err().to_string();
        assert!(message.contains("time namespace") && message.contains("allow_shifted_clock"), "{message}");
    }
    check_clock().unwrap();
}

#[test]
fn the_default_directory_follows_the_environment() {
    let find = |variables: &'static [(&str, &str)], is_root| {
        let get = move |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(value))
        };
        default_directory(get, is_root).map(|path| path.to_str().unwrap().to_owned())
    };
    let all = &[("TENURE_DIR", "/t"), ("XDG_STATE_HOME", "/s"), ("HOME", "/h")];
    assert_eq!(find(all, true).unwrap(), "/t");
    assert_eq!(find(all, false).unwrap(), "/t");
    assert_eq!(find(&[("TENURE_DIR", ""), ("XDG_STATE_HOME", "/s")], true).unwrap(), "/var/lib/tenure");
    assert_eq!(find(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")], false).unwrap(), "/s/tenure");
    assert_eq!(
        find(&[("XDG_STATE_HOME", "relative"), ("HOME", "/h")], false).unwrap(),
        "/h/.local/state/tenure"
    );
    assert!(find(&[], false).unwrap_err().to_string().contains("set TENURE_DIR"));
}

#[test]
fn a_place_that_everybody_could_replace_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let open = directory.path().join("open");
    fs::create_dir(&open).unwrap();
    for (mode, taken) in [(0o777, false), (0o1777, true), (0o755, true)] {
        fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
        let prepared = prepare(&open.join("store"), Allowed::default());
        assert_eq!(prepared.is_ok(), taken, "{mode:o}: {prepared:?}");
    }
}
