//! Many renewals in one call, none of which may hold up the others.

use std::future::Future;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use super::{ErrorKind, Renew, Renewal, StoreError};
use crate::clock::Clock;

/// Renewals under way at once in one call.
const RENEWALS_AT_ONCE: usize = 64;

/// Makes a call for each renewal; they go out side by side and each answer stands in its place.
///
/// What has no answer after a twelfth of the shortest ttl is answered with `Timeout`: half of what a leader waits for a
/// renewal by default (a sixth of the ttl), so that it still hears the others.
pub(super) async fn renew_together<F>(
    renewals: &[Renew],
    clock: &Arc<dyn Clock>,
    store: &'static str,
    renew: impl Fn(Renew) -> F,
) -> Vec<Result<Renewal, StoreError>>
where
    F: Future<Output = Result<Renewal, StoreError>> + Send + 'static,
{
    // In tasks of their own: the one that is not waited for any longer is not dropped in the middle of its write.
    let calls = renewals.iter().enumerate().map(|(place, renewal)| {
        let call = renew(renewal.clone());
        async move { (place, tokio::spawn(call).await) }
    });
    let mut calls = stream::iter(calls.collect::<Vec<_>>()).buffer_unordered(RENEWALS_AT_ONCE);
    let mut answers: Vec<_> = renewals.iter().map(|_| None).collect();
    let shortest = renewals.iter().map(|renewal| renewal.lease.ttl).min().unwrap_or_default();
    let mut limit = clock.sleep_until(clock.now().plus(shortest / 12));
    loop {
        tokio::select! {
            biased;
            answered = calls.next() => match answered {
                Some((place, answer)) => answers[place] = answer.ok(),
                None => break,
            },
            () = &mut limit => break,
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(no_answer(store)))).collect()
}

fn no_answer(store: &'static str) -> StoreError {
    let message = "no answer before the others of the same call had to be told theirs";
    StoreError::new(ErrorKind::Timeout, store, "renew", message)
}
