use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

use tempfile::{TempDir, tempdir};

use super::super::Fence;
use super::*;

fn fence_in(dir: &TempDir) -> Fence {
    Fence::open(dir.path().join("mark")).unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_mark_outlives_its_fence() {
    let dir = tempdir().unwrap();
    fence_in(&dir).guard(FencingToken(41), || ()).unwrap();
    let fence = fence_in(&dir);
    assert_eq!(fence.highest().unwrap(), FencingToken(41));
    assert!(fence.guard(FencingToken(40), || ()).is_err());
    fence.guard(FencingToken(41), || ()).unwrap();
}

#[test]
fn a_missing_file_is_zero_and_is_created_by_the_first_write_only() {
    let dir = tempdir().unwrap();
    let fence = fence_in(&dir);
    assert_eq!(fence.highest().unwrap(), FencingToken::ZERO);
    fence.check(FencingToken(1)).unwrap();
    assert_eq!(names(dir.path()), [""; 0]);
    fence.guard(FencingToken(1), || ()).unwrap();
    assert_eq!(names(dir.path()), ["mark", "mark.raise.lock", "mark.write.lock"]);
}

#[test]
fn the_mark_is_in_the_file_before_the_write_runs() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("mark");
    fence_in(&dir)
        .guard(FencingToken(9), || {
            assert_eq!(parse(&fs::read(&path).unwrap()), Ok(FencingToken(9)));
        })
        .unwrap();
}

#[test]
fn a_second_write_with_the_same_token_writes_nothing_to_the_disk() {
    let dir = tempdir().unwrap();
    let (fence, path) = (fence_in(&dir), dir.path().join("mark"));
    fence.guard(FencingToken(9), || ()).unwrap();
    let before = fs::metadata(&path).unwrap();
    let unchanged = |now: &fs::Metadata| (now.ino(), now.ctime_nsec()) == (before.ino(), before.ctime_nsec());
    fence.guard(FencingToken(9), || ()).unwrap();
    assert!(unchanged(&fs::metadata(&path).unwrap()));
    // Another process cannot know whether what it reads was ever made durable: it writes it anew, once.
    let other = fence_in(&dir);
    other.guard(FencingToken(9), || ()).unwrap();
    assert!(!unchanged(&fs::metadata(&path).unwrap()));
}

#[test]
fn a_mark_cut_short_at_any_byte_lets_nothing_in_and_is_left_as_it_is() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("mark");
    let running = fence_in(&dir);
    running.guard(FencingToken(1234), || ()).unwrap();
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let opened = Fence::open(&path).unwrap_err();
        assert!(matches!(&opened, FenceError::Corrupt { .. }), "{length}: {opened:?}");
        assert!(opened.to_string().contains("restore it"), "{opened}");
        let guarded = running.guard(FencingToken(9999), || panic!("ran on a broken mark")).unwrap_err();
        assert!(matches!(guarded, FenceError::Corrupt { .. }), "{length}: {guarded:?}");
        assert_eq!(fs::read(&path).unwrap(), &whole[..length]);
    }
    fs::write(&path, &whole).unwrap();
    assert!(fence_in(&dir).guard(FencingToken(1233), || ()).is_err());
}

#[test]
fn any_changed_bit_and_any_garbage_is_noticed() {
    let whole = render(FencingToken(1234)).into_bytes();
    assert_eq!(parse(&whole), Ok(FencingToken(1234)));
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&changed).is_err(), "{bit}");
    }
    let longer = [whole.clone(), b"x".to_vec()].concat();
    for garbage in [&longer[..], &[0; 70], &[0xff; 128], b"42\n", b"tenure-fence 2 highest 42\n"] {
        assert!(parse(garbage).is_err());
    }
    assert!(u64::try_from(render(FencingToken(u64::MAX)).len()).unwrap() < MAX_BYTES);
}

#[test]
fn what_a_crash_left_beside_the_mark_changes_nothing() {
    let dir = tempdir().unwrap();
    fence_in(&dir).guard(FencingToken(5), || ()).unwrap();
    let next = render(FencingToken(6));
    for length in 0..=next.len() {
        fs::write(dir.path().join("mark.new"), &next[..length]).unwrap();
        let fence = fence_in(&dir);
        assert_eq!(fence.highest().unwrap(), FencingToken(5));
        fence.guard(FencingToken(5), || ()).unwrap();
        assert!(!dir.path().join("mark.new").exists());
    }
}

#[test]
fn a_mark_that_is_deleted_or_put_back_under_a_running_process_lets_nothing_older_in() {
    let dir = tempdir().unwrap();
    let (fence, path) = (fence_in(&dir), dir.path().join("mark"));
    fence.guard(FencingToken(5), || ()).unwrap();
    let put_back: [&dyn Fn(); 2] = [&|| fs::remove_file(&path).unwrap(), &|| {
        fs::write(&path, render(FencingToken(3))).unwrap();
    }];
    for lose_the_mark in put_back {
        lose_the_mark();
        assert!(fence.guard(FencingToken(4), || ()).is_err());
        assert_eq!(fence.highest().unwrap(), FencingToken(5));
        fence.guard(FencingToken(5), || ()).unwrap();
        assert_eq!(fence_in(&dir).highest().unwrap(), FencingToken(5));
    }
}

#[test]
fn a_lock_file_that_is_deleted_between_writes_is_made_anew() {
    let dir = tempdir().unwrap();
    let fence = fence_in(&dir);
    fence.guard(FencingToken(5), || ()).unwrap();
    fs::remove_file(dir.path().join("mark.raise.lock")).unwrap();
    fs::remove_file(dir.path().join("mark.write.lock")).unwrap();
    fence.guard(FencingToken(6), || ()).unwrap();
    assert_eq!(names(dir.path()), ["mark", "mark.raise.lock", "mark.write.lock"]);
}

#[test]
fn paths_that_cannot_be_a_fence_are_refused_with_a_rule() {
    let dir = tempdir().unwrap();
    symlink("nowhere", dir.path().join("dangling")).unwrap();
    let cases = [
        (PathBuf::new(), "names no file"),
        ("/".into(), "names no file"),
        (dir.path().join(".."), "names no file"),
        (dir.path().to_owned(), "is a directory"),
        (format!("{}/x/", dir.path().display()).into(), "ends with a slash"),
        (dir.path().join("dangling"), "symbolic link to nothing"),
        (dir.path().join("x".repeat(245)), "longer than 244 bytes"),
        (dir.path().join("nul\0"), "NUL"),
        ("/dev/null".into(), "not a regular file"),
    ];
    for (path, rule) in cases {
        let refused = Fence::open(&path).unwrap_err();
        assert!(matches!(refused, FenceError::Invalid { .. }), "{refused:?}");
        assert!(refused.to_string().contains(rule), "{refused}");
    }
    let longest = Fence::open(dir.path().join("x".repeat(244))).unwrap();
    longest.guard(FencingToken(1), || ()).unwrap();
    let nowhere = Fence::open(dir.path().join("missing/mark")).unwrap_err();
    assert!(matches!(&nowhere, FenceError::Io { .. }), "{nowhere:?}");
    assert!(nowhere.to_string().contains("create its directory"), "{nowhere}");
}

#[test]
fn a_fence_reached_by_a_link_is_the_same_fence() {
    let dir = tempdir().unwrap();
    fence_in(&dir).guard(FencingToken(5), || ()).unwrap();
    symlink(dir.path().join("mark"), dir.path().join("link")).unwrap();
    let linked = Fence::open(dir.path().join("link")).unwrap();
    linked.guard(FencingToken(6), || ()).unwrap();
    assert!(fence_in(&dir).guard(FencingToken(5), || ()).is_err());
}

#[test]
fn raising_the_mark_keeps_who_may_read_it() {
    let dir = tempdir().unwrap();
    let (fence, path) = (fence_in(&dir), dir.path().join("mark"));
    fence.guard(FencingToken(5), || ()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    fence.guard(FencingToken(6), || ()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
}

/// The variable that makes a copy of this test program write until it is killed, with the file that it
/// appends to.
const CHILD: &str = "TENURE_TEST_FENCE_CHILD";

#[test]
fn child_that_writes_until_it_is_killed() {
    let Some(dir) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    let fence = Fence::open(dir.join("mark")).unwrap();
    let mut log = OpenOptions::new().append(true).create(true).open(dir.join("log")).unwrap();
    loop {
        // Every second write raises the mark, every other one finds it as it is.
        let token = fence.highest().unwrap();
        for token in [token, token.next().unwrap()] {
            match fence.guard(token, || log.write_all(format!("{token}\n").as_bytes()).unwrap()) {
                Ok(()) => println!("wrote {token}"),
                Err(FenceError::Refused { .. }) => {}
                Err(e) => panic!("{e}"),
            }
        }
    }
}

#[test]
fn processes_that_are_killed_at_any_point_leave_a_mark_that_is_not_below_what_was_written() {
    let dir = tempdir().unwrap();
    let start = || {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "fence::mark_file::tests::child_that_writes_until_it_is_killed"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for round in 0..8 {
        let mut children = [start(), start()];
        for child in &mut children {
            // Kept until the kill: a child that cannot print any more would end by itself.
            let mut said = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            // Killed after a different number of writes each round: each time at another point.
            assert_eq!(
                said.by_ref().filter(|line| line.contains("wrote")).take(3 + round).count(),
                3 + round
            );
            child.kill().unwrap();
        }
        for mut child in children {
            child.wait().unwrap();
        }
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        let written: Vec<u64> = log.lines().map(|line| line.parse().unwrap()).collect();
        assert!(written.is_sorted(), "{written:?}");
        let mark = fence_in(&dir).highest().unwrap();
        assert!(Some(&mark.0) >= written.last(), "{mark:?} after {written:?}");
    }
}

/// The variables that make a copy of this test program try to raise a mark where it cannot be raised.
const STUCK: &str = "TENURE_TEST_FENCE_STUCK";
const STUCK_RULE: &str = "TENURE_TEST_FENCE_STUCK_RULE";

#[test]
fn child_that_cannot_raise_the_mark() {
    let Some(dir) = std::env::var_os(STUCK).map(PathBuf::from) else {
        return;
    };
    let rule = std::env::var(STUCK_RULE).unwrap();
    let before = fs::read(dir.join("mark")).unwrap();
    let fence = Fence::open(dir.join("mark")).unwrap();
    let failed = fence.guard(FencingToken(6), || panic!("ran without a durable mark")).unwrap_err();
    assert!(matches!(failed, FenceError::Io { .. }), "{failed:?}");
    assert!(failed.to_string().contains(&rule), "{failed}");
    assert_eq!(fence.highest().unwrap(), FencingToken(5));
    assert_eq!(fs::read(dir.join("mark")).unwrap(), before);
    println!("stuck as it must be: {failed}");
}

/// Makes a small file system with a mark of five, spoils it by `script`, and lets the child above meet it.
fn raise_where(script: &str, rule: &str) {
    let dir = tempdir().unwrap();
    let mark = render(FencingToken(5));
    let all = format!(
        "mount -t tmpfs -o size=32k tenure \"${STUCK}\"; cd \"${STUCK}\"; echo '{}' > mark; \
         touch mark.raise.lock mark.write.lock; {script}; \
         exec \"$EXE\" --exact --nocapture fence::mark_file::tests::child_that_cannot_raise_the_mark",
        mark.trim_end()
    );
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-ec", &all])
        .env("EXE", std::env::current_exe().unwrap())
        .env(STUCK, dir.path())
        .env(STUCK_RULE, rule)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("stuck as it must be"), "{output:?}");
}

#[test]
fn a_full_disk_keeps_the_old_mark_and_runs_no_write() {
    raise_where("dd if=/dev/zero of=fill bs=4k || true", "free some space");
}

#[test]
fn a_read_only_file_system_keeps_the_old_mark_and_runs_no_write() {
    raise_where("mount -o remount,ro .", "writable place");
}
