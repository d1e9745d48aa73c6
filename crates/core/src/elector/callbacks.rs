//! What users want called, and the tasks in which that runs.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinHandle;

use super::leadership::{Leadership, TermState};
use super::{CallbackError, EndReason};

pub(crate) type Called = Pin<Box<dyn Future<Output = Result<(), CallbackError>> + Send>>;

/// Something to call, again and again. Shared with the task that calls it: the call itself may block, and that must not
/// be the elector's loop. Terms follow one another, so nobody waits for the lock.
pub(crate) type Callback<T> = Arc<Mutex<dyn FnMut(T) -> Called + Send>>;

/// What users want called.
#[derive(Default)]
pub(crate) struct Callbacks {
    pub(crate) elected: Option<Callback<Leadership>>,
    pub(crate) lost: Option<Callback<EndReason>>,
    pub(crate) term_end: Option<Callback<EndReason>>,
    /// The term ends when `elected` is over.
    pub(crate) ends_term: bool,
    /// The term ends when the last clone of the leadership is dropped.
    pub(crate) ends_with_last_drop: bool,
}

/// A callback that failed.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) callback: &'static str,
    pub(crate) error: String,
}

/// The work of one term.
pub(crate) struct Work {
    term: Arc<TermState>,
    elected: Option<JoinHandle<Result<(), CallbackError>>>,
    ending: Vec<(&'static str, JoinHandle<Result<(), CallbackError>>)>,
}

impl Work {
    pub(crate) fn begin(callbacks: &Callbacks, term: &Arc<TermState>) -> Self {
        let leadership = Leadership::new(Arc::clone(term));
        let elected = callbacks.elected.as_ref().map(|elected| spawn(elected, leadership));
        Self { term: Arc::clone(term), elected, ending: Vec::new() }
    }

    /// Waits until `on_elected` is over; never completes if it is, or if there is none.
    pub(crate) async fn elected_over(&mut self) -> Result<(), Failed> {
        let Some(task) = &mut self.elected else {
            return std::future::pending().await;
        };
        let over = outcome("on_elected", task.await);
        self.elected = None;
        over
    }

    /// Calls what is to be called at the end.
    pub(crate) fn end(&mut self, callbacks: &Callbacks, reason: &EndReason) {
        if reason.is_loss()
            && let Some(lost) = &callbacks.lost
        {
            self.ending.push(("on_lost", spawn(lost, reason.clone())));
        }
        if let Some(term_end) = &callbacks.term_end {
            self.ending.push(("on_term_end", spawn(term_end, reason.clone())));
        }
    }

    /// Drops the work that runs in `on_elected`, as far as it can be dropped: at its next await.
    pub(crate) fn kill(&self) {
        if let Some(task) = &self.elected {
            task.abort();
        }
    }

    /// Waits for the next callback that is over, or for all work to have ended (`None`). Nothing is lost if this is
    /// dropped and called again.
    pub(crate) async fn drained(&mut self) -> Option<Result<(), Failed>> {
        if self.elected.is_some() {
            return Some(self.elected_over().await);
        }
        if let Some((callback, task)) = self.ending.first_mut() {
            let over = outcome(callback, task.await);
            self.ending.remove(0);
            return Some(over);
        }
        self.term.work_ended().await;
        None
    }
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
