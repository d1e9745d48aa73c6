//! Store calls under way, each in a task of its own, and their answers.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::name::Attempt;

/// Calls of one verb for one election. A handful at most, so they are asked one after the other; while there are none,
/// they take no memory.
pub(crate) struct Calls<T> {
    under_way: Vec<(Attempt, oneshot::Receiver<T>)>,
}

impl<T> Calls<T> {
    pub(crate) fn new() -> Self {
        Self { under_way: Vec::new() }
    }

    /// Makes room for one call, which is most often all.
    pub(crate) fn for_one() -> Self {
        Self { under_way: Vec::with_capacity(1) }
    }

    pub(crate) fn push(&mut self, attempt: Attempt, answer: oneshot::Receiver<T>) {
        self.under_way.push((attempt, answer));
    }

    pub(crate) fn len(&self) -> usize {
        self.under_way.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    pub(crate) fn contains(&self, attempt: Attempt) -> bool {
        self.under_way.iter().any(|(waiting, _)| *waiting == attempt)
    }

    /// Waits for the next answer: `None` if nothing is under way, no value if the call ended without one. Nothing is
    /// lost if this is dropped.
    pub(crate) async fn next(&mut self) -> Option<(Attempt, Option<T>)> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Answers as [`next`](Self::next) does, or wakes the task when there is an answer.
    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(Attempt, Option<T>)>> {
        for place in 0..self.under_way.len() {
            if let Poll::Ready(answer) = Pin::new(&mut self.under_way[place].1).poll(context) {
                let (attempt, _) = self.under_way.remove(place);
                return Poll::Ready(Some((attempt, answer.ok())));
            }
        }
        if self.under_way.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[tokio::test]
    async fn answers_come_in_the_order_in_which_they_are_given_and_none_is_lost() {
        let random = Random::from_seed(1);
        let mut calls = Calls::new();
        assert!(calls.next().await.is_none());
        let mut askers = Vec::new();
        for number in 0..3 {
            let (sender, receiver) = oneshot::channel();
            calls.push(Attempt::new(&random), receiver);
            askers.push((number, sender));
        }
        let (last, sender) = askers.pop().unwrap();
        sender.send(last).unwrap();
        // Dropped while it waits for nothing that is there.
        assert_eq!(calls.next().await.and_then(|(_, answer)| answer), Some(2));
        assert!(futures_util::FutureExt::now_or_never(calls.next()).is_none());
        let (_, sender) = askers.remove(0);
        drop(sender);
        assert_eq!(calls.next().await.map(|(_, answer)| answer), Some(None));
        let (number, sender) = askers.remove(0);
        sender.send(number).unwrap();
        assert_eq!(calls.next().await.and_then(|(_, answer)| answer), Some(1));
        assert!(calls.is_empty());
    }
}
