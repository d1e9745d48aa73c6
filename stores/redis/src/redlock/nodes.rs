//! Asking all nodes at once, and waiting for as many answers as are needed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::Clock;
use tenure_core::clock::Moment;
use tenure_core::store::{ErrorKind, StoreError};
use tokio::sync::mpsc;

use super::STORE;
use super::merge::Quorum;
use crate::store::{RedisStore, Shared};

/// The nodes; each is a store of its own that knows nothing of the others.
pub(super) struct Nodes {
    each: Vec<RedisStore>,
    pub(super) clock: Arc<dyn Clock>,
}

/// A majority has answered, but more are needed for certainty: the others get as long again as those took, twice, and this at
/// least. A node that is a black hole costs no more.
const GRACE: Duration = Duration::from_millis(20);

/// Answers that come in.
pub(super) struct Asked<T> {
    coming: mpsc::UnboundedReceiver<(usize, Result<T, StoreError>)>,
    sent: Moment,
    /// By the number of the node; `None` is silence.
    pub(super) answers: Vec<Option<Result<T, StoreError>>>,
}

/// How long to wait for answers that would not change much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// A grace after a majority has answered.
    Short,
    /// To the end.
    Long,
}

impl Nodes {
    pub(super) fn new(each: Vec<RedisStore>, clock: Arc<dyn Clock>) -> Self {
        Self { each, clock }
    }

    pub(super) fn quorum(&self) -> Quorum {
        Quorum { nodes: self.each.len() }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Shared>> {
        self.each.iter().map(|store| &store.shared)
    }

    pub(super) fn node(&self, number: usize) -> &Arc<Shared> {
        &self.each[number].shared
    }

    /// Asks each node. A request that was sent is never taken back, whoever waits.
    pub(super) fn ask<T, F>(&self, call: impl Fn(RedisStore) -> F) -> Asked<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let (told, coming) = mpsc::unbounded_channel();
        let sent = self.clock.now();
        for (number, node) in self.each.iter().enumerate() {
            let (told, answer) = (told.clone(), call(node.clone()));
            tokio::spawn(async move { drop(told.send((number, answer.await))) });
        }
        Asked { coming, sent, answers: self.each.iter().map(|_| None).collect() }
    }
}

impl<T> Asked<T> {
    /// Waits until the answers decide, or until there will be no more of them. Each call has its own limit, which comes
    /// first: a connection that left one without an answer is known as such before the next call needs it.
    pub(super) async fn wait(
        &mut self,
        clock: &Arc<dyn Clock>,
        patience: Patience,
        decided: impl Fn(&[Option<Result<T, StoreError>>]) -> bool,
    ) {
        let majority = Quorum { nodes: self.answers.len() }.majority();
        let mut end = Moment::FAR;
        loop {
            tokio::select! {
                biased;
                answer = self.coming.recv() => match answer {
                    Some((node, answer)) => self.answers[node] = Some(answer),
                    None => return,
                },
                () = clock.sleep_until(end) => return,
            }
            if decided(&self.answers) {
                return;
            }
            if patience == Patience::Short && end == Moment::FAR && self.good().count() >= majority {
                let took = clock.now().time_since(self.sent);
                end = clock.now().plus((took * 2).max(GRACE));
            }
        }
    }

    /// Returns the next answer, `None` when there will be no more.
    pub(super) async fn next(&mut self) -> Option<(usize, Result<T, StoreError>)> {
        self.coming.recv().await
    }

    /// Returns the answers that are some, with the number of their node.
    pub(super) fn good(&self) -> impl Iterator<Item = (usize, &T)> {
        let each = self.answers.iter().enumerate();
        each.filter_map(|(number, answer)| Some((number, answer.as_ref()?.as_ref().ok()?)))
    }

    /// Says why there is no outcome.
    pub(super) fn error(&self, operation: &'static str) -> StoreError {
        let troubles = self.answers.iter().flatten().filter_map(|answer| answer.as_ref().err());
        unanswered(self.answers.len(), self.good().count(), operation, troubles)
    }
}

/// Says why a majority of the nodes gave no outcome.
pub(super) fn unanswered<'a>(
    nodes: usize,
    answered: usize,
    operation: &'static str,
    troubles: impl Iterator<Item = &'a StoreError>,
) -> StoreError {
    let quorum = Quorum { nodes };
    let troubles: Vec<_> = troubles.collect();
    let of = |kind| troubles.iter().filter(move |trouble| trouble.kind() == kind);
    // Definite only if a majority can have done nothing.
    let definite = [ErrorKind::Denied, ErrorKind::Invalid, ErrorKind::Corrupt];
    let definite = definite.into_iter().find(|kind| of(*kind).count() > quorum.minority());
    let silence = answered + troubles.len() < nodes || of(ErrorKind::Timeout).next().is_some();
    let kind = definite.unwrap_or(if silence { ErrorKind::Timeout } else { ErrorKind::Unavailable });
    let (majority, first) = (quorum.majority(), of(kind).next().or(troubles.first()));
    let why = first.map(|trouble| format!("; one of them: {trouble}")).unwrap_or_default();
    let message = format!("{answered} of {nodes} nodes gave an outcome, {majority} must agree{why}");
    StoreError::new(kind, STORE, operation, message)
}
