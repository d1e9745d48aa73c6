//! The versioned door shows every property, whether or not its store can tell the age of a record.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod fixtures;

use fixtures::Records;
use fixtures::everything::Everything;
use tenure_testkit::conformance::assert_conforms;

#[tokio::test(start_paused = true)]
async fn records_that_tell_their_age_conform() {
    assert_conforms("versioned", Records::fresh).await;
}

#[tokio::test(start_paused = true)]
async fn records_that_observers_time_conform() {
    assert_conforms("versioned-observed", Records::without_age).await;
}

#[tokio::test(start_paused = true)]
async fn records_whose_reads_and_writes_mix_conform() {
    assert_conforms("versioned-slow", Records::slow).await;
}

#[tokio::test(start_paused = true)]
async fn records_that_mix_and_that_observers_time_conform() {
    assert_conforms("versioned-slow-observed", Records::slow_without_age).await;
}

#[tokio::test(start_paused = true)]
async fn records_conform_where_everything_can_be_done_to_them() {
    assert_conforms("versioned-everything", Everything::fresh).await;
}
