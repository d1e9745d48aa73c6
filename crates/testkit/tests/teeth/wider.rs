//! Stores that break A17 to A20 and A26 to A28.

use std::collections::BTreeSet;
use std::sync::Mutex;

use async_trait::async_trait;
use futures_util::StreamExt;
use tenure_core::ElectionName;
use tenure_core::store::{
    Acquisition, Bid, Change, Changes, ErrorKind, LeaseStore, Next, Operator, RecordState, Release, Released,
    Renew, Renewal, StoreError,
};
use tenure_testkit::Twist;
use tenure_testkit::conformance::Property;

use crate::bites;

/// Reports new holders, but no releases.
struct SilentAboutReleases;

impl Twist for SilentAboutReleases {
    fn watch(&self, inner: &dyn LeaseStore, elections: &[ElectionName]) -> Option<Changes> {
        let told = |change: &Change| match change {
            // The suite first asks whether anything is reported at all: there it speaks.
            Change::Record(record) => {
                record.state != RecordState::Free || record.election.as_str().ends_with("beside")
            }
            Change::Gap => true,
        };
        let changes = inner.watch(elections)?;
        Some(Box::pin(changes.filter(move |change| std::future::ready(told(change)))))
    }
}

#[tokio::test(start_paused = true)]
async fn a17_a_release_is_not_reported() {
    bites(Property::A17, "a release: nothing within", |_| SilentAboutReleases).await;
}

/// Lists one page and stops.
struct OnePage;

#[async_trait]
impl Twist for OnePage {
    async fn list(&self, inner: &dyn Operator, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        let mut listed = inner.list(prefix).await?;
        listed.truncate(512);
        Ok(listed)
    }
}

#[tokio::test(start_paused = true)]
async fn a18_a_long_list_is_cut() {
    bites(Property::A18, "512 elections are listed", |_| OnePage).await;
}

/// Knows no cool-down.
struct NeverCools;

#[async_trait]
impl Twist for NeverCools {
    async fn release(&self, inner: &dyn LeaseStore, release: &Release) -> Result<Released, StoreError> {
        let mut release = release.clone();
        if matches!(release.next, Next::CoolDown(_)) {
            release.next = Next::Anybody;
        }
        inner.release(&release).await
    }
}

#[tokio::test(start_paused = true)]
async fn a19_a_cool_down_is_ignored() {
    bites(Property::A19, r#"should be refused in "a19-cool-down""#, |_| NeverCools).await;
}

/// Puts two of many answers into each other's places.
struct MixesUp;

#[async_trait]
impl Twist for MixesUp {
    async fn renew(&self, inner: &dyn LeaseStore, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = inner.renew(renewals).await;
        if answers.len() > 500 {
            answers.swap(498, 499);
        }
        answers
    }
}

#[tokio::test(start_paused = true)]
async fn a20_two_answers_change_places() {
    bites(Property::A20, "the answer at place 498", |_| MixesUp).await;
}

/// A pause takes the lease from the holder.
struct PauseEndsTerms;

#[async_trait]
impl Twist for PauseEndsTerms {
    async fn renew_one(&self, inner: &dyn LeaseStore, renewal: &Renew) -> Result<Renewal, StoreError> {
        let record = inner.read(&renewal.lease.election).await?;
        if let Some(record) = record.filter(|record| record.pause.is_some()) {
            return Ok(Renewal::Lost(Some(Box::new(record))));
        }
        inner.renew(std::slice::from_ref(renewal)).await.remove(0)
    }
}

#[tokio::test(start_paused = true)]
async fn a26_a_pause_refuses_a_renewal() {
    bites(Property::A26, r#"should renew "a26-paused""#, |_| PauseEndsTerms).await;
}

/// Lets one bid in at a time, and waits inside.
#[derive(Default)]
struct OneAtATime {
    door: tokio::sync::Mutex<()>,
}

#[async_trait]
impl Twist for OneAtATime {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        let _inside = self.door.lock().await;
        tokio::task::yield_now().await;
        inner.acquire(election, bid).await
    }
}

#[tokio::test(start_paused = true)]
async fn a27_a_frozen_candidate_stops_the_others() {
    bites(Property::A27, "a term beside a frozen participant", |_| OneAtATime::default()).await;
}

/// A bid that is dropped in the middle leaves its election unusable.
#[derive(Default)]
struct StuckWhenDropped {
    stuck: Mutex<BTreeSet<ElectionName>>,
}

/// Notes that a bid did not get to its end.
struct Unfinished<'a> {
    stuck: &'a Mutex<BTreeSet<ElectionName>>,
    election: Option<ElectionName>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(election) = self.election.take() {
            self.stuck.lock().unwrap().insert(election);
        }
    }
}

#[async_trait]
impl Twist for StuckWhenDropped {
    async fn acquire(
        &self,
        inner: &dyn LeaseStore,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        if self.stuck.lock().unwrap().contains(election) {
            return Err(StoreError::new(
                ErrorKind::Unavailable,
                "broken",
                "acquire",
                "somebody is in the middle of it",
            ));
        }
        let mut unfinished = Unfinished { stuck: &self.stuck, election: Some(election.clone()) };
        tokio::task::yield_now().await;
        let answer = inner.acquire(election, bid).await;
        unfinished.election = None;
        answer
    }
}

#[tokio::test(start_paused = true)]
async fn a28_a_dropped_bid_leaves_something_for_ever() {
    bites(Property::A28, "somebody is in the middle of it", |_| StuckWhenDropped::default()).await;
}
