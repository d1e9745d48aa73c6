//! The suite has teeth: for every property there is a broken store that fails it, and no other.

// Nothing of it leaves the test program, and all of it is test code.
#![allow(unreachable_pub, clippy::unwrap_used)]

#[path = "../fixtures/mod.rs"]
mod fixtures;

mod broken;
mod exclusion;
mod faults;
mod holder;
mod more;
mod special;
mod tokens;
mod wider;

use std::future::Future;
use std::sync::Arc;

use broken::Broken;
use fixtures::{Memory, Records};
use tenure_core::Clock;
use tenure_testkit::Twist;
use tenure_testkit::conformance::{Fixture, Property, Verdict, check};

/// Runs the suite on a memory store with `twist` and checks that `property` fails, for the reason `why`, and nothing
/// else does.
async fn bites<T: Twist>(property: Property, why: &str, twist: fn(Arc<dyn Clock>) -> T) {
    let fresh = || async move {
        let base = Memory::fresh(|store, _| Arc::new(store)).await;
        let clock = base.clock();
        Broken::new(base, twist(clock))
    };
    fails_only(&[(property, why)], fresh).await;
}

/// The same over records that can be written by hand.
async fn bites_records<T: Twist>(property: Property, why: &str, twist: fn() -> T) {
    let fresh = || async move { Broken::new(Records::fresh().await, twist()) };
    fails_only(&[(property, why)], fresh).await;
}

async fn fails_only<M, F, X>(expected: &[(Property, &str)], fresh: M)
where
    M: Fn() -> F,
    F: Future<Output = X> + Send + 'static,
    X: Fixture,
{
    let report = check("broken", fresh).await;
    let mut failures = Vec::new();
    for (property, verdict) in report.verdicts() {
        if let Verdict::Fail(message) = verdict {
            failures.push((*property, message.as_str()));
        }
    }
    let properties: Vec<_> = expected.iter().map(|&(property, _)| property).collect();
    assert_eq!(report.failures(), properties, "{failures:#?}");
    for ((property, message), (_, why)) in failures.iter().zip(expected) {
        assert!(message.contains(why), "{property} fails for another reason: {message}");
    }
}

/// A twist that is none.
struct Straight;

impl Twist for Straight {}

#[tokio::test(start_paused = true)]
async fn a_store_without_a_defect_fails_nothing() {
    let fresh = || async {
        let base = Memory::fresh(|store, _| Arc::new(store)).await;
        Broken::new(base, Straight)
    };
    fails_only(&[], fresh).await;
    let fresh = || async { Broken::new(Records::fresh().await, Straight) };
    fails_only(&[], fresh).await;
}
