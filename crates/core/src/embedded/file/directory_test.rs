use std::path::Path;

use super::super::layout::entries;
use super::super::records::is_built_on;
use super::super::{boot, place};
use super::*;
use crate::clock::SystemClock;

fn name(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

fn open(path: &Path) -> Directory {
    let top = place::prepare(path, place::Allowed::default()).unwrap();
    let layout = Layout::new(top, boot::boot_id().unwrap());
    let random = Random::from_os();
    let life = boot::enter(&layout, &random).unwrap();
    Directory::new(layout, Arc::new(SystemClock), random, Some(life))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_increments_by_each_of_eight_writers_lose_nothing() {
    let top = tempfile::tempdir().unwrap();
    let election = name("counter");
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (directory, election) = (open(top.path()), election.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while done < 1000 {
                    let written = match directory.read(&election).await.unwrap() {
                        None => directory.create(&election, b"1".to_vec()).await.unwrap(),
                        Some(found) => {
                            let count: u64 = String::from_utf8(found.bytes).unwrap().parse().unwrap();
                            let next = (count + 1).to_string().into_bytes();
                            directory.replace(&election, next, &found.revision).await.unwrap()
                        }
                    };
                    // A conflict may also mean that it counted and others came after it: what was read is the truth.
                    done += usize::from(matches!(written, Written::Written(_)));
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let directory = open(top.path());
    let found = directory.read(&election).await.unwrap().unwrap();
    let count: u64 = String::from_utf8(found.bytes).unwrap().parse().unwrap();
    let (number, _) = found.revision.0.split_once('-').unwrap();
    assert_eq!(count.to_string(), number, "every commit saw the one before it");
    assert!(count >= 8000, "{count}");
    let layout = &directory.inner.layout;
    assert_eq!(entries(&layout.scratch).unwrap().len(), 0);
    assert!(numbers_in(&layout.election(&election)).unwrap().len() <= 5);
}

#[tokio::test]
async fn a_commit_that_comes_very_late_is_void() {
    let top = tempfile::tempdir().unwrap();
    let (inner, election) = (open(top.path()).inner, name("a"));
    let folder = inner.layout.election(&election);
    let Written::Written(mut revision) = inner.create(&election, b"1".to_vec()).unwrap() else {
        panic!("conflict");
    };
    for text in 2..=10 {
        let Written::Written(next) =
            inner.replace(&election, text.to_string().into_bytes(), &revision).unwrap()
        else {
            panic!("conflict");
        };
        revision = next;
    }
    for late in [1, 2, 8, 9, 10] {
        let written = inner.commit(&folder, late, 0, b"late".to_vec()).unwrap();
        assert_eq!(written, Written::Conflict, "{late}");
        assert_eq!(inner.read(&election).unwrap().unwrap().bytes, b"10");
    }
    assert!(matches!(inner.replace(&election, b"11".to_vec(), &revision).unwrap(), Written::Written(_)));
    assert_eq!(numbers_in(&folder).unwrap(), [8, 9, 10, 11], "what was void is swept");
}

#[tokio::test]
async fn a_thousand_elections_are_listed_exactly() {
    let top = tempfile::tempdir().unwrap();
    let directory = open(top.path());
    let mut names: Vec<_> = (0..1000).map(|number| name(&format!("app/{number:04} ü"))).collect();
    for name in &names {
        directory.create(name, b"{}".to_vec()).await.unwrap();
    }
    for other in ["b", &"x".repeat(255), "apple"] {
        directory.create(&name(other), b"{}".to_vec()).await.unwrap();
    }
    names.sort();
    assert_eq!(directory.list("app/").await.unwrap(), names);
    assert_eq!(directory.list("").await.unwrap().len(), 1003);
    assert_eq!(directory.list("missing").await.unwrap(), []);
}

#[tokio::test]
async fn a_writer_that_is_slow_to_list_still_hears_that_its_commit_counted() {
    let top = tempfile::tempdir().unwrap();
    let (inner, election) = (open(top.path()).inner, name("a"));
    let folder = inner.layout.election(&election);
    let write = |over: Option<&Revision>| {
        let bytes = b"the same".to_vec();
        let written = match over {
            None => inner.create(&election, bytes).unwrap(),
            Some(over) => inner.replace(&election, bytes, over).unwrap(),
        };
        let Written::Written(revision) = written else {
            panic!("conflict");
        };
        let (number, checksum) = revision.0.split_once('-').unwrap();
        let mark = (number.parse().unwrap(), u64::from_str_radix(checksum, 16).unwrap());
        (revision, mark)
    };
    let (revision, first) = write(None);
    assert!(!is_built_on(&folder, first.0, first.1), "nobody came since");
    let (revision, second) = write(Some(&revision));
    let (_, third) = write(Some(&revision));
    assert!(is_built_on(&folder, first.0, first.1));
    assert!(is_built_on(&folder, second.0, second.1));
    assert!(!is_built_on(&folder, third.0, third.1));
    assert!(!is_built_on(&folder, first.0, second.1), "another one than that which counted");
}
