//! Waits that end: with the fact that is waited for, or with a failed test.

use std::future::Future;
use std::time::Duration;

use tenure_core::SystemClock;
use tenure_core::clock::ClockExt;

/// How long anything may take here. Only a broken test comes near it, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Waits for `work`, at most for `limit`.
pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = SystemClock.sleep(limit) => None,
    }
}

/// How often a fact is looked at that nobody announces.
#[cfg(feature = "servers")]
pub(crate) const LOOK: Duration = Duration::from_millis(5);

/// Looks again and again until `look` finds something, at most for [`LIMIT`].
#[cfg(feature = "servers")]
pub(crate) async fn look_until<T>(look: impl AsyncFn() -> Option<T>) -> Option<T> {
    within(LIMIT, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            SystemClock.sleep(LOOK).await;
        }
    })
    .await
}
