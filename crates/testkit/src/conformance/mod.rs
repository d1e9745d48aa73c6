//! The public suite that every store must pass: one property per file, run by one call.
//!
//! A store's test makes a [`Fixture`] and calls [`assert_conforms`]. Each property runs on a fresh fixture, in a task of
//! its own, and within [`Fixture::limit`]. What a fixture cannot do is left out *and reported*; nothing passes silently.
//! The elections of a property begin with its name in lower case (`a16b-…`), except where names are what it is about.
//!
//! [`assert_conforms`] also notes its report under cargo's target directory, for the store × property table:
//! `cargo run -p tenure-testkit --bin conformance-table` prints it and fails if anything differs from the snapshot
//! `conformance.snapshot`, for example if fewer properties apply to a store than before.
//!
//! # Example
//!
//! The whole conformance test of a store:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use async_trait::async_trait;
//! use tenure_core::Clock;
//! use tenure_core::embedded::MemoryStore;
//! use tenure_core::store::LeaseStore;
//! use tenure_testkit::VirtualClock;
//! use tenure_testkit::conformance::{Fixture, Property, assert_conforms};
//!
//! struct Memory {
//!     clock: Arc<VirtualClock>,
//!     store: MemoryStore,
//! }
//!
//! impl Memory {
//!     async fn fresh() -> Self {
//!         let clock = Arc::new(VirtualClock::new());
//!         Self { store: MemoryStore::with_clock(clock.clone()), clock }
//!     }
//! }
//!
//! #[async_trait]
//! impl Fixture for Memory {
//!     async fn handle(&self) -> Arc<dyn LeaseStore> {
//!         // A real store opens a new connection here.
//!         Arc::new(self.store.clone())
//!     }
//!
//!     fn clock(&self) -> Arc<dyn Clock> {
//!         // A real server has `SystemClock`, and waits are real.
//!         self.clock.clone()
//!     }
//!
//!     fn ttl(&self) -> Duration {
//!         Duration::from_secs(10)
//!     }
//!
//!     fn applies(&self, property: Property) -> Result<(), &'static str> {
//!         match property {
//!             Property::A30 => Err("leases hang on no session"),
//!             _ => Ok(()),
//!         }
//!     }
//! }
//!
//! # // As in a test: #[tokio::test(start_paused = true)]
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! // #[tokio::test(start_paused = true)]
//! // async fn conforms() {
//! let report = assert_conforms("memory", Memory::fresh).await;
//! assert!(report.summary().starts_with("memory: 27 of 31 pass\n"), "{}", report.summary());
//! // }
//! # }
//! ```

mod a01_one_winner;
mod a02_second_refused;
mod a03_free_again;
mod a04_names;
mod a05_counter;
mod a06_tokens_rise;
mod a07_repeated_bid;
mod a08_renew_extends;
mod a09_renew_holder_only;
mod a10_release_holder_only;
mod a11_overwritten;
mod a12_corrupt;
mod a13_answer_lost;
mod a14_request_lost;
mod a15_outage;
mod a16_refusals;
mod a16b_late_writes;
mod a17_watch;
mod a18_list;
mod a19_successor;
mod a20_renew_many;
mod a21_duplicates;
mod a22_applied_attempt;
mod a23_lost_release;
mod a24_floor;
mod a25_clones;
mod a26_requests;
mod a27_frozen;
mod a28_abandoned;
mod a29_previous;
mod a30_session;
mod cx;
mod fixture;
mod network;
mod property;
mod report;
mod stepwise;
pub mod table;

use std::any::Any;
use std::future::Future;
use std::sync::Arc;

use tenure_core::clock::ClockExt;
use tokio::task::JoinError;

use cx::Cx;

pub use fixture::{ByHand, Fixture, Freezer, Network, Refusal, Restart, Session, Stall, Trouble, WallClock};
pub use property::Property;
pub use report::{Report, Verdict};

/// Runs every property on a store, each on a fixture of its own made by `fresh`.
///
/// `store` is the name under which the store stands in the table; it has no colon.
pub async fn check<M, F, X>(store: &str, fresh: M) -> Report
where
    M: Fn() -> F,
    F: Future<Output = X> + Send + 'static,
    X: Fixture,
{
    let mut report = Report::new(store);
    for &property in Property::ALL {
        // In a task of its own, as everything that follows: a panic fails this property and no other.
        let verdict = match tokio::spawn(fresh()).await {
            Ok(fixture) => run(property, Arc::new(fixture)).await,
            Err(error) => Verdict::Fail(format!("there is no fixture: {}", message(error))),
        };
        report.add(property, verdict);
    }
    report
}

/// Runs every property on a store as [`check`] does, notes the report for the table, and fails where the store does.
///
/// Prints the report's [summary](Report::summary), which a test's output shows with `--no-capture`, and returns the
/// report.
///
/// # Panics
/// With a list of the properties that do not hold.
pub async fn assert_conforms<M, F, X>(store: &str, fresh: M) -> Report
where
    M: Fn() -> F,
    F: Future<Output = X> + Send + 'static,
    X: Fixture,
{
    let report = check(store, fresh).await;
    report.save();
    report.assert_all();
    print!("{}", report.summary());
    report
}

async fn run(property: Property, fixture: Arc<dyn Fixture>) -> Verdict {
    if let Err(reason) = fixture.applies(property) {
        return Verdict::NotApplicable(reason.to_owned());
    }
    let (clock, limit) = (fixture.clock(), fixture.limit());
    let cx = Cx::new(fixture, property);
    let mut task = tokio::spawn(property.check(Arc::clone(&cx)));
    tokio::select! {
        biased;
        checked = &mut task => match checked {
            Ok(Ok(())) => Verdict::Pass {
                left_out: cx.left_out().into_iter().map(str::to_owned).collect(),
            },
            Ok(Err(reason)) => Verdict::NotApplicable(reason.to_owned()),
            Err(error) => Verdict::Fail(message(error)),
        },
        () = clock.sleep(limit) => {
            task.abort();
            Verdict::Fail(format!("it hangs: no end within {limit:?}"))
        }
    }
}

/// Returns what a panic said.
fn message(error: JoinError) -> String {
    match error.try_into_panic() {
        Ok(panic) => said(panic.as_ref()),
        Err(error) => error.to_string(),
    }
}

fn said(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "it panicked".to_owned())
}
