//! What users want called, and the tasks in which that runs.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::task::JoinHandle;

use super::leadership::{Leadership, TermState};
use super::{CallbackError, EndReason, Limit};

pub(crate) type Called = Pin<Box<dyn Future<Output = Result<(), CallbackError>> + Send>>;

/// Something to call, again and again. Shared with the task that calls it: the call itself may block, and that must not
/// be the elector's loop. Terms follow one another, so nobody waits for the lock.
pub(crate) type Callback<T> = Arc<Mutex<dyn FnMut(T) -> Called + Send>>;

/// What users want called, and when an elector's errand is done.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) elected: Option<Callback<Leadership>>,
    pub(crate) lost: Option<Callback<EndReason>>,
    pub(crate) term_end: Option<Callback<EndReason>>,
    /// The term ends when `elected` is over.
    pub(crate) ends_term: bool,
    /// The term ends when the last clone of the leadership is dropped.
    pub(crate) ends_with_last_drop: bool,
    pub(crate) limit: Limit,
    /// Leads once, until the last clone of the leadership is dropped.
    pub(crate) once: bool,
    /// Tells whether what the elector runs for is done.
    pub(crate) done: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Callbacks {
    /// Tells whether the elector is not to stand again after a term.
    pub(crate) fn is_done(&self) -> bool {
        self.once || self.done.as_ref().is_some_and(|done| done())
    }

    /// Tells whether there is nothing to call, and nothing that ends the elector but its handle.
    pub(crate) fn is_empty(&self) -> bool {
        let called = self.elected.is_some() || self.lost.is_some() || self.term_end.is_some();
        let ends = self.ends_term || self.ends_with_last_drop || self.once || self.done.is_some();
        !called && !ends && matches!(self.limit, Limit::Never)
    }
}

/// A callback that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{callback}: {error}")]
pub(crate) struct Failed {
    pub(crate) callback: &'static str,
    pub(crate) error: String,
}

/// The work of one term.
pub(crate) struct Work {
    elected: Option<JoinHandle<Result<(), CallbackError>>>,
}

/// What is called at the end of a term.
pub(crate) struct Ending {
    lost: Option<JoinHandle<Result<(), CallbackError>>>,
    term_end: Option<JoinHandle<Result<(), CallbackError>>>,
}

impl Ending {
    pub(crate) fn begin(callbacks: &Callbacks, reason: &EndReason) -> Self {
        let lost = callbacks.lost.as_ref().filter(|_| reason.is_loss());
        Self {
            lost: lost.map(|lost| spawn(lost, reason.clone())),
            term_end: callbacks.term_end.as_ref().map(|term_end| spawn(term_end, reason.clone())),
        }
    }
}

impl Work {
    pub(crate) fn begin(callbacks: &Callbacks, term: &Arc<TermState>) -> Self {
        let leadership = Leadership::new(Arc::clone(term));
        let elected = callbacks.elected.as_ref().map(|elected| spawn(elected, leadership));
        Self { elected }
    }

    /// Answers how `on_elected` ended, once, or wakes the task when it does.
    pub(crate) fn poll_elected_over(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        poll_over("on_elected", &mut self.elected, context)
    }

    /// Drops the work that runs in `on_elected`, as far as it can be dropped: at its next await.
    pub(crate) fn kill(&self) {
        if let Some(task) = &self.elected {
            task.abort();
        }
    }

    /// Waits for the next callback that is over, or for all work to have ended (`None`). Nothing is lost if this is
    /// dropped and called again.
    pub(crate) async fn drained(
        &mut self,
        ending: &mut Ending,
        term: &TermState,
    ) -> Option<Result<(), Failed>> {
        let Ending { lost, term_end } = ending;
        let callbacks = [("on_elected", &mut self.elected), ("on_lost", lost), ("on_term_end", term_end)];
        for (callback, task) in callbacks {
            if task.is_some() {
                return Some(poll_fn(|context| poll_over(callback, task, context)).await);
            }
        }
        term.work_ended().await;
        None
    }
}

/// Answers how a callback ended, once, or wakes the task when it does.
fn poll_over(
    callback: &'static str,
    task: &mut Option<JoinHandle<Result<(), CallbackError>>>,
    context: &mut Context<'_>,
) -> Poll<Result<(), Failed>> {
    let Some(running) = task else { return Poll::Pending };
    let over = ready!(Pin::new(running).poll(context));
    *task = None;
    Poll::Ready(outcome(callback, over))
}

/// Calls in a task of its own, so that whatever blocks or panics does it there.
fn spawn<T: Send + 'static>(callback: &Callback<T>, argument: T) -> JoinHandle<Result<(), CallbackError>> {
    let callback = Arc::clone(callback);
    tokio::spawn(async move {
        let called = {
            let mut call = callback.lock().unwrap_or_else(PoisonError::into_inner);
            (*call)(argument)
        };
        called.await
    })
}

fn outcome(
    callback: &'static str,
    joined: Result<Result<(), CallbackError>, tokio::task::JoinError>,
) -> Result<(), Failed> {
    match joined {
        Ok(Err(error)) => Err(Failed { callback, error: error.to_string() }),
        Err(error) if error.is_panic() => {
            Err(Failed { callback, error: panic_text(error.into_panic().as_ref()) })
        }
        // Over, or killed by us: that is how it had to end.
        Ok(Ok(())) | Err(_) => Ok(()),
    }
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no text"))
}
