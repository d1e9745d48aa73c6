//! The file store shows every property, in real time and in a real directory, also behind a pointer.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod fixtures;

use std::sync::Arc;

use fixtures::file::Files;
use tenure_core::embedded::FileStore;
use tenure_testkit::conformance::assert_conforms;
use tenure_testkit::process;

#[tokio::test]
async fn the_file_store_conforms() {
    assert_conforms("file", || Files::fresh(|handle| handle)).await;
}

#[tokio::test]
async fn a_pointer_to_the_file_store_conforms() {
    // The pointer itself is the store under test.
    assert_conforms("file-pointer", || Files::fresh(|handle| Arc::new(handle))).await;
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    process::lead_for_ever(|directory| Arc::new(FileStore::open(directory).unwrap()));
}
