//! The plain-verbs door shows every property, whatever storage lies behind it.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod fixtures;

use fixtures::ttl::Entries;
use tenure_testkit::conformance::assert_conforms;

#[tokio::test(start_paused = true)]
async fn entries_in_memory_conform() {
    assert_conforms("ttl", Entries::plain).await;
}

#[tokio::test(start_paused = true)]
async fn a_pointer_to_the_door_conforms() {
    assert_conforms("ttl-pointer", Entries::pointer).await;
}

#[tokio::test(start_paused = true)]
async fn entries_whose_reads_and_writes_mix_conform() {
    assert_conforms("ttl-slow", Entries::slow).await;
}

#[tokio::test(start_paused = true)]
async fn storage_with_types_of_its_own_conforms() {
    assert_conforms("ttl-typed", Entries::typed).await;
}

#[tokio::test(start_paused = true)]
async fn storage_with_four_verbs_alone_conforms() {
    assert_conforms("ttl-bare", Entries::bare).await;
}

#[tokio::test(start_paused = true)]
async fn storage_that_cannot_tell_how_long_an_entry_lives_conforms() {
    assert_conforms("ttl-untold", Entries::untold).await;
}

#[tokio::test(start_paused = true)]
async fn storage_that_cannot_tell_and_whose_reads_and_writes_mix_conforms() {
    assert_conforms("ttl-slow-untold", Entries::slow_untold).await;
}
