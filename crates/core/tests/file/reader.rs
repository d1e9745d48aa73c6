//! Whoever only reads takes no part: nobody sees him, and he changes nothing on the disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::Signal;
use tenure_core::embedded::FileStore;
use tenure_core::store::{Change, ErrorKind, LeaseStore, Pause, RecordState};
use tenure_core::{Attempt, Random};

use crate::other::Other;
use crate::support::{bid, election, lead, release, soon};

const LONG: Duration = Duration::from_secs(600);

/// Returns everything below a directory.
fn everything(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            folders.extend(path.is_dir().then(|| path.clone()));
            found.push(path);
        }
    }
    found.sort();
    found
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_read_as_empty_and_not_made() {
    let top = tempfile::tempdir().unwrap();
    let place = top.path().join("a/b");
    let reader = FileStore::at(&place).open_to_read().unwrap();
    assert_eq!(reader.read(&election("e")).await.unwrap(), None);
    assert_eq!(reader.operator().unwrap().list("").await.unwrap(), []);
    assert_eq!(everything(top.path()), [] as [PathBuf; 0]);

    let store = FileStore::open(&place).unwrap();
    let lease = lead(&store, &election("e"), LONG).await;
    let seen = reader.read(&election("e")).await.unwrap().unwrap();
    assert_eq!(seen.token, lease.token, "it is read from when somebody makes it");
}

#[tokio::test]
async fn a_reader_sees_everything_and_leaves_nothing_behind() {
    let top = tempfile::tempdir().unwrap();
    let store = FileStore::open(top.path()).unwrap();
    let lease = lead(&store, &election("e"), LONG).await;
    let before = everything(top.path());

    let reader = FileStore::at(top.path()).open_to_read().unwrap();
    let seen = reader.read(&election("e")).await.unwrap().unwrap();
    assert_eq!(seen.leader().unwrap().candidate, lease.candidate);
    assert_eq!(reader.operator().unwrap().list("").await.unwrap(), [election("e")]);
    assert_eq!(reader.guarantees(), store.guarantees());
    let mut changes = reader.watch(&[election("e"), election("never held")]).unwrap();
    soon("the first look", changes.next()).await.unwrap();
    assert_eq!(everything(top.path()), before);

    release(&store, &lease).await.unwrap();
    soon("the release", async {
        loop {
            match changes.next().await.unwrap() {
                Change::Record(record) if record.state == RecordState::Free => break,
                _ => {}
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_reader_sees_that_the_holder_died() {
    let top = tempfile::tempdir().unwrap();
    let mut other = Other::start(top.path());
    other.ask("acquire e 600000");
    let reader = FileStore::at(top.path()).open_to_read().unwrap();
    let mut changes = reader.watch(&[election("e")]).unwrap();
    let first = soon("the first look", changes.next()).await.unwrap();
    assert!(matches!(first, Change::Record(record) if record.leader().is_some()));
    other.signal(Signal::KILL);
    let next = soon("the death", changes.next()).await.unwrap();
    assert!(matches!(next, Change::Record(record) if record.state == RecordState::Free));
}

#[tokio::test]
async fn a_reader_writes_nothing() {
    let top = tempfile::tempdir().unwrap();
    let store = FileStore::open(top.path()).unwrap();
    lead(&store, &election("e"), LONG).await;
    let before = everything(top.path());
    let reader = FileStore::at(top.path()).open_to_read().unwrap();
    let pause = || Pause { by: "test".into(), ends_in: LONG };
    let attempt = || Attempt::new(&Random::from_os());
    let operator = reader.operator().unwrap();
    let errors = [
        reader.acquire(&election("e"), &bid(LONG)).await.unwrap_err(),
        reader.acquire(&election("new"), &bid(LONG)).await.unwrap_err(),
        operator.pause(&election("e"), attempt(), pause()).await.unwrap_err(),
        operator.pause(&election("new"), attempt(), pause()).await.unwrap_err(),
        reader.repair(&election("e")).await.unwrap_err(),
        reader.life_file().unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("opened to read"), "{error}");
    }
    assert_eq!(everything(top.path()), before);
}

#[test]
fn a_place_that_can_hold_no_store_is_refused_to_readers_too() {
    let top = tempfile::tempdir().unwrap();
    let file = top.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = FileStore::at(&file).open_to_read().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert!(refused.to_string().contains("is a file"), "{refused}");

    let proc = FileStore::at("/proc").open_to_read().unwrap_err();
    assert!(proc.to_string().contains("file system"), "{proc}");
}

#[test]
fn a_reader_of_another_boot_is_told_so_instead_of_seeing_nothing() {
    let top = tempfile::tempdir().unwrap();
    let _store = FileStore::at(top.path()).boot_id("first").open().unwrap();
    let refused = FileStore::at(top.path()).boot_id("second").open_to_read().unwrap_err();
    assert!(refused.to_string().contains("two boot ids"), "{refused}");
}
