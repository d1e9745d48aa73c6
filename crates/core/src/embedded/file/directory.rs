//! Byte strings with compare-and-swap in a directory: what the file store does underneath.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::failure::{STORE, failure, invalid};
use super::layout::{Layout, names_in, numbers_in};
use super::life::{self, Life};
use super::tokens::Ceilings;
use super::watch::{self, Watched};
use crate::clock::Clock;
use crate::name::ElectionName;
use crate::random::Random;
use crate::store::versioned::{ChangedNames, Found, Revision, VersionedStore, Written};
use crate::store::wake::Wakes;
use crate::store::{ErrorKind, ExpiryClock, Guarantees, StoreError, TokenOrder, Wake};
use crate::token::FencingToken;

/// An open directory; clones share it.
#[derive(Clone)]
pub(super) struct Directory {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) layout: Layout,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Random,
    /// What shows others that the store is open; none if it was opened to read, which nobody needs to see.
    life: Option<Life>,
    pub(super) ceilings: Ceilings,
    pub(super) wakes: Arc<Wakes>,
    pub(super) watched: Watched,
    drafts: AtomicU64,
}

impl Directory {
    pub(super) fn new(layout: Layout, clock: Arc<dyn Clock>, random: Random, life: Option<Life>) -> Self {
        let inner = Inner {
            ceilings: Ceilings::new(layout.tokens.clone()),
            layout,
            clock,
            random,
            life,
            wakes: Arc::default(),
            watched: Watched::default(),
            drafts: AtomicU64::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Runs `work` where it may block: a hung disk must hold up nobody but its caller.
    pub(super) async fn work<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Arc<Inner>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let inner = Arc::clone(&self.inner);
        blocking(operation, move || work(&inner)).await
    }
}

impl Inner {
    /// Returns what shows others that the store is open; whoever only reads has none, and may not write.
    pub(super) fn life(&self, operation: &'static str) -> Result<&Life, StoreError> {
        self.life.as_ref().ok_or_else(|| {
            let message = format!(
                "{} was opened to read, and nothing is written that way: open it to take part",
                self.layout.top.display()
            );
            StoreError::new(ErrorKind::Denied, STORE, operation, message)
        })
    }

    /// Tells whether others can see that the store is open.
    pub(super) fn takes_part(&self) -> bool {
        self.life.is_some()
    }

    /// Tells whether the directory is still the one that was opened. Whoever only reads wants to know what stands at the
    /// path, whichever directory that is.
    pub(super) fn is_same_directory(&self) -> io::Result<bool> {
        self.life.as_ref().map_or(Ok(true), Life::is_in_place)
    }

    /// Names a file that nobody else writes to.
    pub(super) fn next_draft(&self) -> Result<String, StoreError> {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        Ok(format!("{}.{number}", self.life("write")?.id()))
    }

    fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        let refused = |error| failure("list", "look into", &self.layout.elections, error);
        let mut names = Vec::new();
        for (name, folder) in names_in(&self.layout.elections, prefix).map_err(refused)? {
            // A folder without records was made by somebody who only watches.
            if !numbers_in(&folder).map_err(refused)?.is_empty() {
                names.push(name);
            }
        }
        Ok(names)
    }
}

/// Runs `work` on a thread that may block; it runs to its end even if nobody waits any more.
pub(super) async fn blocking<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return Err(invalid(
            operation,
            "the file store works on the threads of a tokio runtime, and this call is outside of one: \
             call it from a task",
        ));
    };
    runtime.spawn_blocking(work).await.unwrap_or_else(|error| {
        let message = format!("the work was cut off, the runtime is ending: {error}");
        Err(StoreError::new(ErrorKind::Unavailable, STORE, operation, message))
    })
}

#[async_trait]
impl VersionedStore for Directory {
    async fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError> {
        let election = election.clone();
        self.work("read", move |inner| {
            let found = inner.read(&election);
            inner.follow(
                &election,
                found.as_ref().ok().and_then(|found| Some(found.as_ref()?.bytes.as_slice())),
            );
            found
        })
        .await
    }

    async fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError> {
        let election = election.clone();
        self.work("write", move |inner| inner.create(&election, bytes)).await
    }

    async fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        revision: &Revision,
    ) -> Result<Written, StoreError> {
        let (election, revision) = (election.clone(), revision.clone());
        self.work("write", move |inner| inner.replace(&election, bytes, &revision)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        let prefix = prefix.to_owned();
        self.work("list", move |inner| inner.list(&prefix)).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<ChangedNames> {
        Some(watch::watch(&self.inner, elections))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: STORE,
            scope: format!(
                "the processes of this machine and this user that open {}",
                self.inner.layout.top.display()
            ),
            linearizable: true,
            survives_restart: false,
            survives_failover: None,
            clock: ExpiryClock::Machine,
            tokens: TokenOrder::Strict,
            min_ttl: Duration::from_millis(1),
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: vec![
                "a reboot ends every lease; tokens go on rising after it, also after a power cut, if the disk keeps \
                 what it says it has written",
                "a holder whose process is killed frees its elections at once: work that goes on without it (its child \
                 processes) must be covered by a supervisor that holds the same life file",
                "nobody moves, removes, copies over or restores the directory while it is in use: a holder notices at \
                 its next renewal, and until then somebody may lead in the directory that took its place",
                "the file system is local and tells upper from lower case",
                "a pause or snapshot of the whole virtual machine cannot be seen from inside it",
            ],
        }
    }

    async fn life_sign(&self) -> Result<Option<String>, StoreError> {
        self.work("acquire", |inner| {
            // Whoever would begin anew in a directory that took the place of his own must open it again first.
            inner.must_be_in_place("acquire")?;
            let life = inner.life("acquire")?;
            let signed = life.sign(&inner.layout.lives);
            signed.map_err(|error| failure("acquire", "write to", &inner.layout.lives, error))?;
            Ok(Some(life.id().to_owned()))
        })
        .await
    }

    async fn is_dead(&self, life_sign: &str) -> bool {
        let life_sign = life_sign.to_owned();
        self.work("read", move |inner| Ok(life::is_dead(&inner.layout.lives, &life_sign)))
            .await
            .unwrap_or(false)
    }

    async fn token_base(&self, election: &ElectionName) -> Result<u64, StoreError> {
        let election = election.clone();
        self.work("acquire", move |inner| inner.ceilings.read(&election)).await
    }

    async fn before_grant(&self, election: &ElectionName, token: FencingToken) -> Result<(), StoreError> {
        if self.inner.ceilings.is_covered(election, token) {
            return Ok(());
        }
        let election = election.clone();
        self.work("acquire", move |inner| {
            inner.must_be_in_place("acquire")?;
            inner.ceilings.cover(&election, token)
        })
        .await
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Directory({:?})", self.inner.layout.top)
    }
}

#[cfg(test)]
#[path = "directory_test.rs"]
mod tests;
