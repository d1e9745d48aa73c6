//! The fence: the resource's side of fencing, which refuses tokens lower than the highest seen.
//!
//! A leader that was paused may wake up after its term and go on with the write that it was about to make;
//! no clock of its own can tell it. So the side that is written to keeps a *mark*, the highest token that has
//! come, and lets no lower one in:
//!
//! ```
//! use tenure_core::{Fence, FencingToken};
//!
//! let fence = Fence::new();
//! fence.guard(FencingToken(7), || "written by term 7").unwrap();
//! let late = fence.guard(FencingToken(6), || "never runs");
//! assert!(late.unwrap_err().to_string().contains("newer leader"));
//! ```
//!
//! # What a guarded write can count on
//!
//! 1. On arrival the mark is raised to the token, durably. From here on every older token is refused, also
//!    those that already wait: an old leader that writes without a pause cannot keep a new one out.
//! 2. Then it waits until the write that is running has ended. Comparing first and writing later would let an
//!    older write, once let in, land after a newer one.
//! 3. Then the token is compared again, and the write runs. Inside one process this goes in order of arrival;
//!    several processes with the *same* token take turns in no set order.
//!
//! An error always means that the write has not run. The fence does not reach further than the write that it
//! holds: a request that was sent and given up may still arrive somewhere later. If the resource can compare
//! tokens itself (a conditional update in a database), do it there.
//!
//! A process frozen in the middle of its write keeps the fence closed: nobody can know whether the rest of
//! the write is still to come. Killing the process opens it.

mod mark_file;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use self::mark_file::{HeldFile, MarkFile};
use crate::token::FencingToken;

/// Why a fence did not let a write run; it has not run, not even in part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The token is lower than the highest seen: its term is over.
    #[error(
        "fencing token {token} is refused, {highest} has been seen: a newer leader has been here, stop writing"
    )]
    Refused {
        /// The token that came.
        token: FencingToken,
        /// The highest token that has been seen.
        highest: FencingToken,
    },
    /// The operating system refused a step on the fence's files; the mark is the old one or the new one.
    #[error("cannot {step} {}: {source}; the guarded write has not run{}", path.display(), way_out(source))]
    Io {
        /// What was to be done.
        step: &'static str,
        /// The file or directory that it was to be done to.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file of the mark says nothing that can be trusted; nothing is let in and the file is left as it
    /// is.
    #[error(
        "the fence's mark file {} {found}; the highest token cannot be told from it: \
         restore it from a copy, or, once every older leader has surely stopped, delete it and the next token to \
         come begins a new mark",
        path.display()
    )]
    Corrupt {
        /// The file of the mark.
        path: PathBuf,
        /// What is wrong with it.
        found: String,
    },
    /// The path cannot be that of a fence.
    #[error("fence path {path:?} {rule}")]
    Invalid {
        /// The path as it was given.
        path: PathBuf,
        /// The rule that it breaks and what to do.
        rule: &'static str,
    },
}

/// Says what a person can do about the usual causes.
fn way_out(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ": free some space and try again",
        io::ErrorKind::ReadOnlyFilesystem => {
            ": the fence must be able to raise its mark, use a writable place"
        }
        io::ErrorKind::PermissionDenied => {
            ": this user must be able to read the fence's files and to write in their directory"
        }
        io::ErrorKind::NotFound => ": create its directory first",
        _ => "",
    }
}

/// Refuses tokens lower than the highest seen, and holds over each write that it lets in.
///
/// One fence is for one guarded thing and for the tokens of one election. Clones share the mark.
/// The [module](self) says what a guarded write can count on.
#[derive(Clone)]
pub struct Fence {
    // The turn of the guarded write. An async mutex, because it may be held over an await; tokio's is handed
    // on in order of arrival, so that nobody starves, and a panic in a write does not poison it.
    turn: Arc<Mutex<()>>,
    mark: Arc<Mark>,
}

struct Mark {
    // Highest token seen by this process. Kept beside the file, so that a file that is deleted or put back
    // to an older copy under a running process does not let older tokens in again.
    highest: AtomicU64,
    file: Option<MarkFile>,
}

/// The right to run one write.
struct Hold {
    // Fields drop in this order: the file first, so that whoever has the turn next finds it free.
    _file: Option<HeldFile>,
    _turn: OwnedMutexGuard<()>,
}

impl Default for Fence {
    fn default() -> Self {
        Self::new()
    }
}

impl Fence {
    /// Begins a fence in memory, at zero: for a resource that lives and dies with this process.
    #[must_use]
    pub fn new() -> Self {
        Self::over(None)
    }

    /// Opens the fence whose mark lies in the file `path`, shared by the processes of one machine.
    ///
    /// A missing file is a mark of zero; the first guarded write creates it. Beside it stand
    /// `path.raise.lock` and `path.write.lock`, which are empty: deleting those while a fence is in use lets
    /// two writes run at once. Deleting the mark forgets it, except in processes that have seen it. Raising
    /// the mark replaces the file; a symbolic link is resolved once, here.
    ///
    /// For a local file system: what a network file system makes of the locks is not known here.
    ///
    /// # Errors
    /// [`FenceError::Invalid`] if the path cannot be that of a file, [`FenceError::Corrupt`] if the file
    /// there is not a mark, [`FenceError::Io`] if it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FenceError> {
        let fence = Self::over(Some(MarkFile::open(path.as_ref())?));
        fence.highest()?;
        Ok(fence)
    }

    fn over(file: Option<MarkFile>) -> Self {
        Self { turn: Arc::default(), mark: Arc::new(Mark { highest: AtomicU64::new(0), file }) }
    }

    /// Runs `write` unless a higher token has been seen; blocks until it is its turn.
    ///
    /// The mark is raised, durably, before `write` runs, and stays raised if `write` fails or panics. In
    /// async code use [`guard_async`](Self::guard_async): this blocks the thread that other tasks, perhaps
    /// the one whose turn it is, need. A write must not guard itself with the same fence again: it would wait
    /// for itself.
    ///
    /// # Errors
    /// Any error means that `write` has not run.
    pub fn guard<T>(&self, token: FencingToken, write: impl FnOnce() -> T) -> Result<T, FenceError> {
        if self.mark.must_raise(token)? {
            self.mark.raise(token)?;
        }
        let turn = block_on(Arc::clone(&self.turn).lock_owned());
        let _hold = self.mark.enter(token, turn)?;
        Ok(write())
    }

    /// Runs the future `write` unless a higher token has been seen; waits until it is its turn.
    ///
    /// As [`guard`](Self::guard), for async writes, on any runtime. The turn ends when `write` is finished or
    /// dropped; what it has spawned, or had begun before it came here, is not held. Dropping this future
    /// while it waits gives up the wait; the mark may have been raised by then.
    ///
    /// # Errors
    /// Any error means that `write` has not been polled.
    pub async fn guard_async<F: Future>(
        &self,
        token: FencingToken,
        write: F,
    ) -> Result<F::Output, FenceError> {
        if self.mark.must_raise(token)? {
            let mark = Arc::clone(&self.mark);
            self.mark.off_thread(move || mark.raise(token)).await?;
        }
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let mark = Arc::clone(&self.mark);
        let _hold = self.mark.off_thread(move || mark.enter(token, turn)).await?;
        Ok(write.await)
    }

    /// Compares `token` with the mark, as a hint only: raises nothing, waits for nothing, holds nothing.
    ///
    /// Good for giving up early. Not good for deciding on a write: between this answer and the write a newer
    /// leader may come. Use [`guard`](Self::guard) for that.
    ///
    /// # Errors
    /// [`FenceError::Refused`] if a higher token has been seen; otherwise the mark cannot be read.
    pub fn check(&self, token: FencingToken) -> Result<(), FenceError> {
        self.mark.admit(token, self.mark.read()?)
    }

    /// Returns the highest token seen, zero if there was none; waits for nothing.
    ///
    /// # Errors
    /// The mark lies in a file that cannot be read. A fence in memory always answers.
    pub fn highest(&self) -> Result<FencingToken, FenceError> {
        let read = self.mark.read()?;
        Ok(self.mark.learn(read))
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence")
            .field("path", &self.mark.file.as_ref().map(MarkFile::path))
            .field("highest", &self.mark.highest.load(Ordering::SeqCst))
            .finish_non_exhaustive()
    }
}

impl Mark {
    fn read(&self) -> Result<FencingToken, FenceError> {
        match &self.file {
            Some(file) => Ok(file.read()?.unwrap_or(FencingToken::ZERO)),
            None => Ok(FencingToken::ZERO),
        }
    }

    /// Takes note of a token that was seen, and returns the highest.
    fn learn(&self, seen: FencingToken) -> FencingToken {
        FencingToken(self.highest.fetch_max(seen.0, Ordering::SeqCst).max(seen.0))
    }

    fn admit(&self, token: FencingToken, read: FencingToken) -> Result<(), FenceError> {
        let highest = self.learn(read);
        if token < highest {
            return Err(FenceError::Refused { token, highest });
        }
        Ok(())
    }

    /// Says whether the token must raise the mark before it waits for its turn, or refuses it at once.
    ///
    /// If this process has made it durable already, the look during the turn is enough.
    fn must_raise(&self, token: FencingToken) -> Result<bool, FenceError> {
        self.admit(token, FencingToken::ZERO)?;
        Ok(self.file.as_ref().is_none_or(|file| file.durable() < Some(token)))
    }

    /// Raises the mark to the token, durably, unless a higher one has been seen.
    fn raise(&self, token: FencingToken) -> Result<(), FenceError> {
        if let Some(file) = &self.file {
            file.raise(token, |read| self.admit(token, read))?;
        }
        // Only now: a mark that could not be made durable was not raised, and must not shut out its
        // predecessor.
        self.admit(token, token)
    }

    /// Enters with the turn in hand; afterwards the write may run.
    fn enter(&self, token: FencingToken, turn: OwnedMutexGuard<()>) -> Result<Hold, FenceError> {
        let file = self.file.as_ref().map(MarkFile::hold).transpose()?;
        // Once more: while this one waited, a newer leader may have come. Who comes after this look has to
        // wait.
        self.raise(token)?;
        Ok(Hold { _file: file, _turn: turn })
    }

    /// Runs work that may wait for another process without blocking the runtime.
    ///
    /// A thread of its own and not one of the runtime's blocking threads: a runtime that shuts down waits
    /// for those, and a frozen process elsewhere must not keep this one from stopping.
    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, FenceError> + Send + 'static,
    ) -> Result<T, FenceError> {
        let Some(file) = &self.file else { return work() };
        let failed = |source| FenceError::Io {
            step: "run a thread for the fence",
            path: file.path().to_owned(),
            source,
        };
        let (answer, answered) = oneshot::channel();
        let work = move || {
            // If nobody listens any more, the answer is dropped, and a hold in it is given back.
            let _ = answer.send(work());
        };
        thread::Builder::new().name("tenure-fence".into()).spawn(work).map_err(failed)?;
        answered.await.map_err(|_| failed(io::Error::other("it ended without an answer")))?
    }
}

/// Waits for a future on this thread, inside a runtime too (where tokio's own blocking calls would panic).
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    // Unconstrained: a task that has used up its budget would get "not yet" for ever, since it cannot yield
    // in here.
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
#[path = "fence/fence_test.rs"]
mod tests;
