//! The store that meets the faults.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use tenure_core::clock::ClockExt;
use tenure_core::store::{
    Acquisition, Bid, Change, Changes, ControlRequest, ErrorKind, Guarantees, LeaseRecord, LeaseStore,
    Operator, Pause, Release, Released, Renew, Renewal, Requested, StoreError,
};
use tenure_core::{Attempt, CandidateId, Clock, ElectionName};
use tokio::sync::oneshot;

use super::{Fault, Faults, Verb};
use crate::twist::operator_of;

/// Wraps a store so that its calls fail, hang, arrive late or twice, as [`Faults`] say.
///
/// Without faults it is the store itself. What operators do is never disturbed.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: Arc<S>,
    faults: Faults,
    clock: Arc<dyn Clock>,
}

impl<S> Clone for Faulty<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), faults: self.faults.clone(), clock: Arc::clone(&self.clock) }
    }
}

impl<S: LeaseStore> Faulty<S> {
    /// Wraps `inner`; delays are timed by `clock`.
    pub fn new(inner: S, clock: Arc<dyn Clock>) -> Self {
        Self { inner: Arc::new(inner), faults: Faults::default(), clock }
    }

    /// Returns what decides about the calls.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// Returns the store underneath, which no fault reaches.
    #[must_use]
    pub fn inner(&self) -> &S {
        &self.inner
    }

    /// Makes one call under the fault that was decided for it. `call` makes a new call to the store each time.
    async fn call<T, C, F>(&self, verb: Verb, elections: &[ElectionName], call: C) -> Result<T, StoreError>
    where
        T: Send + 'static,
        C: Fn(Arc<S>) -> F,
        F: Future<Output = T> + Send + 'static,
    {
        let reach = || call(Arc::clone(&self.inner));
        match self.faults.take(verb, elections) {
            None => Ok(reach().await),
            Some(Fault::Delay(delay)) => {
                self.clock.sleep(delay).await;
                Ok(reach().await)
            }
            Some(Fault::Before(kind)) => Err(self.error(verb, kind, "the request was lost")),
            Some(Fault::After(kind)) => {
                reach().await;
                Err(self.error(verb, kind, "the answer was lost"))
            }
            Some(Fault::Hang) => {
                self.faults.hang().await;
                Ok(reach().await)
            }
            Some(Fault::Duplicate) => {
                let first = reach().await;
                reach().await;
                Ok(first)
            }
            Some(Fault::Late { give_up }) => self.late(verb, reach(), give_up).await,
        }
    }

    async fn late<T: Send + 'static>(
        &self,
        verb: Verb,
        call: impl Future<Output = T> + Send + 'static,
        give_up: Option<Duration>,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        self.faults.hold_back(Box::pin(async move {
            // Nobody may be waiting any more; the call was made all the same.
            drop(answer.send(call.await));
        }));
        let gives_up = async {
            match give_up {
                Some(give_up) => self.clock.sleep(give_up).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Ok(answer) = answered => Ok(answer),
            () = gives_up => Err(self.error(verb, ErrorKind::Timeout, "the request is held back")),
        }
    }

    fn error(&self, verb: Verb, kind: ErrorKind, message: &str) -> StoreError {
        let operation = match verb {
            Verb::Acquire => "acquire",
            Verb::Renew => "renew",
            Verb::Release => "release",
            Verb::Read => "read",
            Verb::Watch => "watch",
        };
        StoreError::new(kind, self.inner.guarantees().store, operation, message)
    }
}

#[async_trait]
impl<S: LeaseStore> LeaseStore for Faulty<S> {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.call(Verb::Acquire, std::slice::from_ref(election), |inner| {
            let (election, bid) = (election.clone(), bid.clone());
            async move { inner.acquire(&election, &bid).await }
        })
        .await?
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let elections: Vec<_> = renewals.iter().map(|r| r.lease.election.clone()).collect();
        let answers = self
            .call(Verb::Renew, &elections, |inner| {
                let renewals = renewals.to_vec();
                async move { inner.renew(&renewals).await }
            })
            .await;
        answers.unwrap_or_else(|error| vec![Err(error); renewals.len()])
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let election = std::slice::from_ref(&release.lease.election);
        self.call(Verb::Release, election, |inner| {
            let release = release.clone();
            async move { inner.release(&release).await }
        })
        .await?
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        self.call(Verb::Read, std::slice::from_ref(election), |inner| {
            let election = election.clone();
            async move { inner.read(&election).await }
        })
        .await?
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let changes = self.inner.watch(elections)?;
        let (faults, clock, elections) = (self.faults.clone(), Arc::clone(&self.clock), elections.to_vec());
        let troubled = changes.then(move |change| {
            let fault = faults.take(Verb::Watch, &elections);
            let (faults, clock) = (faults.clone(), Arc::clone(&clock));
            async move {
                match fault {
                    None => vec![change],
                    Some(Fault::Delay(delay)) => {
                        clock.sleep(delay).await;
                        vec![change]
                    }
                    Some(Fault::Before(_) | Fault::After(_)) => vec![Change::Gap],
                    Some(Fault::Hang | Fault::Late { .. }) => {
                        faults.hang().await;
                        vec![change]
                    }
                    Some(Fault::Duplicate) => vec![change.clone(), change],
                }
            }
        });
        Some(Box::pin(troubled.flat_map(stream::iter)))
    }

    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        self.inner.operator().map(|_| self as &dyn Operator)
    }
}

#[async_trait]
impl<S: LeaseStore> Operator for Faulty<S> {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        operator_of(self.inner.as_ref(), "list")?.list(prefix).await
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        operator_of(self.inner.as_ref(), "request")?.request(election, attempt, request).await
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        operator_of(self.inner.as_ref(), "pause")?.pause(election, attempt, pause).await
    }

    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError> {
        operator_of(self.inner.as_ref(), "resume")?.resume(election, attempt).await
    }

    async fn candidates(&self, election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        operator_of(self.inner.as_ref(), "candidates")?.candidates(election).await
    }
}

#[cfg(test)]
#[path = "faulty_test.rs"]
mod tests;
