//! What the operating system refuses: full, read-only, forbidden, too many. Root is stopped by no mode, so each case is
//! this program once more, in a place or as a user that is.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::{Resource, Rlimit, setrlimit};
use tenure_core::embedded::FileStore;
use tenure_core::store::{Change, ErrorKind, LeaseStore, Released, Renewal, StoreError};

use crate::other::{DIRECTORY, directory, this_program};
use crate::support::{bid, election, lead, release, renew, try_lead};

const LONG: Duration = Duration::from_secs(600);

/// Runs one of the ignored tests below by `wrapper`, and passes if it has passed.
fn pass(wrapper: &[&OsStr], test: &str, directory: &Path) {
    let program = this_program(&format!("refused::{test}"));
    let words: Vec<_> = wrapper.iter().copied().chain(program.iter().map(OsStr::new)).collect();
    let output = Command::new(words[0]).args(&words[1..]).env(DIRECTORY, directory).output();
    let Output { status, stdout, stderr } = output.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    let said = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
    assert!(status.success() && said.contains("1 passed"), "{words:?} did not pass:\n{said}");
}

fn check(error: &StoreError, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{error} does not say {word:?}");
    }
}

/// Runs a test in a mount namespace of its own, with a small file system at the directory.
fn pass_in_small_file_system(test: &str) {
    let top = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=256k,mode=700 tmpfs \"$TENURE_TEST_DIRECTORY\" && exec \"$@\"";
    let mut wrapper = vec!["unshare", "--mount"];
    if !rustix::process::geteuid().is_root() {
        wrapper.push("--map-root-user");
    }
    wrapper.extend(["sh", "-c", script, "sh"]);
    let wrapper: Vec<_> = wrapper.into_iter().map(OsStr::new).collect();
    pass(&wrapper, test, top.path());
}

#[test]
fn a_full_disk_fails_the_call_and_keeps_the_record() {
    pass_in_small_file_system("full_disk");
}

#[tokio::test]
#[ignore = "runs on a small file system, see above"]
async fn full_disk() {
    let store = FileStore::open(directory()).unwrap();
    let (held, free) = (election("held"), election("free"));
    let lease = lead(&store, &held, LONG).await;
    let before = store.read(&held).await.unwrap().unwrap();
    let ballast = directory().join("ballast");
    let filled = fs::write(&ballast, vec![1; 1024 * 1024]);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);

    check(&renew(&store, &lease).await.unwrap_err(), ErrorKind::Unavailable, &["full", "free some space"]);
    check(&release(&store, &lease).await.unwrap_err(), ErrorKind::Unavailable, &["full"]);
    check(&store.acquire(&free, &bid(LONG)).await.unwrap_err(), ErrorKind::Unavailable, &["full"]);
    let after = store.read(&held).await.unwrap().unwrap();
    assert_eq!((after.holder, after.token), (before.holder, before.token));
    let scratch =
        fs::read_dir(directory().join("boots")).unwrap().next().unwrap().unwrap().path().join("scratch");
    assert_eq!(fs::read_dir(scratch).unwrap().count(), 0, "no half-written file is left");

    fs::remove_file(ballast).unwrap();
    assert!(matches!(renew(&store, &lease).await.unwrap(), Renewal::Renewed(..)));
    lead(&store, &free, LONG).await;
}

#[test]
fn a_read_only_file_system_is_denied() {
    pass_in_small_file_system("read_only");
}

#[tokio::test]
#[ignore = "runs on a small file system, see above"]
async fn read_only() {
    let store = FileStore::open(directory()).unwrap();
    let lease = lead(&store, &election("a"), LONG).await;
    // Bound over itself first: the open life file keeps the file system as such from being made read-only.
    let mount = |words: &[&str]| Command::new("mount").args(words).status().unwrap().success();
    let path = directory().to_str().unwrap().to_owned();
    assert!(mount(&["--bind", &path, &path]) && mount(&["-o", "remount,ro,bind", &path]));
    let words = ["read-only", "choose another directory"];
    check(&renew(&store, &lease).await.unwrap_err(), ErrorKind::Denied, &words);
    check(&release(&store, &lease).await.unwrap_err(), ErrorKind::Denied, &words);
    check(&store.acquire(&election("b"), &bid(LONG)).await.unwrap_err(), ErrorKind::Denied, &words);
    check(&FileStore::open(directory()).unwrap_err(), ErrorKind::Denied, &words);
    assert!(store.read(&election("a")).await.unwrap().is_some());
    let reader = FileStore::at(directory()).open_to_read().unwrap();
    assert!(
        reader.read(&election("a")).await.unwrap().unwrap().leader().is_some(),
        "reading needs no writing"
    );
}

#[test]
fn an_unprivileged_user_is_told_what_it_may_not_do() {
    if !rustix::process::geteuid().is_root() {
        let top = tempfile::tempdir().unwrap();
        return pass(&[], "unprivileged", top.path());
    }
    // The program may stand where nobody else may look: a copy of it stands beside the directory.
    let top = tempfile::tempdir().unwrap();
    fs::set_permissions(top.path(), Permissions::from_mode(0o755)).unwrap();
    let mut program = this_program("refused::unprivileged");
    let copy = top.path().join("program");
    fs::copy(&program[0], &copy).unwrap();
    program[0] = copy.to_str().unwrap().to_owned();
    let directory = top.path().join("directory");
    fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();

    let as_root = FileStore::open(&directory).unwrap_err();
    check(&as_root, ErrorKind::Invalid, &["belongs to user 65534", "runs as user 0", "change the owner"]);
    assert!(FileStore::at(&directory).open_to_read().is_ok(), "root may look");
    let output = Command::new("setpriv")
        .args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"])
        .args(&program)
        .env(DIRECTORY, &directory)
        .output()
        .expect("setpriv is needed for this test: install it (Debian package util-linux)");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "did not pass:\n{said}");
}

#[tokio::test]
#[ignore = "runs as an unprivileged user, see above"]
async fn unprivileged() {
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let top = directory();
    let words = ["owner and mode", "choose another directory"];
    check(
        &FileStore::open("/usr/tenure").unwrap_err(),
        ErrorKind::Denied,
        &["/usr/tenure", "choose another directory"],
    );
    check(&FileStore::open("/usr").unwrap_err(), ErrorKind::Invalid, &["belongs to user 0"]);
    mode(&top, 0o500);
    check(&FileStore::open(&top).unwrap_err(), ErrorKind::Denied, &words);
    mode(&top, 0o000);
    check(&FileStore::at(&top).open_to_read().unwrap_err(), ErrorKind::Denied, &words);
    mode(&top, 0o700);

    let store = FileStore::open(&top).unwrap();
    let lease = lead(&store, &election("a"), LONG).await;
    let boot = fs::read_dir(top.join("boots")).unwrap().next().unwrap().unwrap().path();
    let folder = boot.join("elections/a");
    let record = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    mode(&record, 0o000);
    check(&store.read(&election("a")).await.unwrap_err(), ErrorKind::Denied, &words);
    check(&renew(&store, &lease).await.unwrap_err(), ErrorKind::Denied, &words);
    mode(&record, 0o600);
    mode(&folder, 0o500);
    check(&renew(&store, &lease).await.unwrap_err(), ErrorKind::Denied, &words);
    mode(&folder, 0o700);
    mode(&top.join("tokens"), 0o500);
    check(&store.acquire(&election("b"), &bid(LONG)).await.unwrap_err(), ErrorKind::Denied, &words);
    mode(&top.join("tokens"), 0o700);
    assert_eq!(release(&store, &lease).await.unwrap(), Released::Released);
}

#[test]
fn a_process_with_too_many_files_open_is_told_and_goes_on_when_it_has_closed_some() {
    let top = tempfile::tempdir().unwrap();
    pass(&[], "too_many_files", top.path());
}

#[tokio::test]
#[ignore = "uses up the files of its process, see above"]
async fn too_many_files() {
    let store = FileStore::open(directory()).unwrap();
    let name = election("a");
    let lease = lead(&store, &name, LONG).await;
    let limit = Rlimit { current: Some(64), maximum: Some(64) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        files.push(file);
    }
    let words = ["too many files", "ulimit -n"];
    check(&renew(&store, &lease).await.unwrap_err(), ErrorKind::Unavailable, &words);
    check(&store.read(&name).await.unwrap_err(), ErrorKind::Unavailable, &words);
    check(&FileStore::open(directory()).unwrap_err(), ErrorKind::Unavailable, &words);
    let mut changes = store.watch(std::slice::from_ref(&name)).unwrap();
    assert_eq!(changes.next().await, Some(Change::Gap), "nobody is watched, and that is said");
    files.clear();
    assert!(matches!(renew(&store, &lease).await.unwrap(), Renewal::Renewed(..)));
    assert_eq!(try_lead(&store, &name, LONG).await.unwrap(), None);
}
