//! Leases in a directory of this machine: the store for whoever has no other.
//!
//! No process holds a lock that others need, so that one stopped at any instruction blocks nobody; death is seen
//! through the kernel, so that a killed holder's elections are free at once; a reboot frees everything.

pub(super) mod boot;
mod directory;
mod failure;
mod inotify;
mod layout;
mod life;
pub(super) mod place;
mod records;
mod repair;
mod success;
mod tokens;
mod watch;

use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use self::directory::Directory;
use self::failure::failure;
use self::layout::{Layout, number_name, numbers_in};
use self::life::Life;
use self::place::Allowed;
pub use self::repair::Repaired;
use crate::clock::{Clock, SystemClock};
use crate::name::ElectionName;
use crate::random::Random;
use crate::store::versioned::Versioned;
use crate::store::{
    Acquisition, Bid, Changes, Guarantees, LeaseRecord, LeaseStore, Operator, Release, Released, Renew,
    Renewal, StoreError,
};

/// Leases in a directory; clones share one open store.
///
/// Everybody who opens the same directory on this machine takes part. All processes must run as the directory's owner,
/// and nobody else may write to it.
///
/// While a clone of the store is open its process counts as alive. When the last one is dropped, or the process ends,
/// leases that it still holds are free at once, unless somebody inherited its [life file](Self::life_file).
///
/// Calls must be made inside a tokio runtime, whose blocking threads do the work; opening must not.
/// Not fork-safe: a forked child shares its parent's life.
#[derive(Clone)]
pub struct FileStore {
    leases: Versioned<Directory>,
}

/// How a [`FileStore`] is opened.
#[derive(Clone, Debug)]
pub struct FileStoreBuilder {
    path: PathBuf,
    allowed: Allowed,
    clock: Arc<dyn Clock>,
    boot_id: Option<String>,
}

impl FileStore {
    /// Opens the directory at `path`, making it if it is not there.
    ///
    /// # Errors
    /// `Invalid` for a place that breaks a rule (not a directory, another owner, writable by others, not a known local
    /// file system, another boot's processes in it), `Denied` where the operating system refuses, else `Unavailable`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        Self::at(path).open()
    }

    /// Begins to open the directory at `path`, with choices.
    pub fn at(path: impl AsRef<Path>) -> FileStoreBuilder {
        FileStoreBuilder {
            path: path.as_ref().to_path_buf(),
            allowed: Allowed::default(),
            clock: Arc::new(SystemClock),
            boot_id: None,
        }
    }

    /// Returns the directory for whoever names none: `$TENURE_DIR`, else `/var/lib/tenure` for root, else
    /// `$XDG_STATE_HOME/tenure`, else `~/.local/state/tenure`.
    ///
    /// # Errors
    /// `Invalid` if the environment names none of them.
    pub fn default_directory() -> Result<PathBuf, StoreError> {
        place::default_directory(|name| std::env::var_os(name), rustix::process::geteuid().is_root())
    }

    /// Returns the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.leases.inner().inner.layout.top
    }

    /// Duplicates the open file that shows others that this store's holder lives.
    ///
    /// Whoever keeps a duplicate open keeps the leases from being free early: a supervisor inherits it and closes it
    /// when all work has ended. It is never to be unlocked, only closed. It is closed on exec unless that is changed.
    ///
    /// # Errors
    /// `Unavailable` if no more files can be opened, `Denied` if the store was opened to read.
    pub fn life_file(&self) -> Result<OwnedFd, StoreError> {
        let inner = &self.leases.inner().inner;
        let duplicate = inner.life("open")?.duplicate();
        duplicate.map_err(|error| failure("open", "duplicate the life file in", &inner.layout.openers, error))
    }

    /// Returns the file of the election's newest record, or, if there is none, of its first one; the folder around it
    /// holds this election's records and nothing else. For tests that write past the store.
    ///
    /// # Errors
    /// As every read.
    #[doc(hidden)]
    pub fn record_file(&self, election: &ElectionName) -> Result<PathBuf, StoreError> {
        let folder = self.leases.inner().inner.layout.election(election);
        let numbers = numbers_in(&folder).map_err(|error| failure("read", "look into", &folder, error))?;
        Ok(folder.join(number_name(numbers.last().copied().unwrap_or(1))))
    }

    /// Mends an election whose record cannot be understood: afterwards it is free, and its next token is above every
    /// one granted before.
    ///
    /// Whoever led before hears `Lost` at its next renewal; until then it may act, and only a fence holds it back.
    ///
    /// # Errors
    /// `Conflict` if somebody else wrote the record meanwhile; else as every write.
    pub async fn repair(&self, election: &ElectionName) -> Result<Repaired, StoreError> {
        let election = election.clone();
        let directory = self.leases.inner();
        directory.work("repair", move |inner| inner.repair(&election)).await
    }
}

impl FileStore {
    /// Notes a successful end for the boots to come. A repetition after an error notes it again.
    async fn note_success(&self, release: &Release) -> Result<(), StoreError> {
        let (election, token) = (release.lease.election.clone(), release.lease.token);
        let note = move |inner: &Arc<directory::Inner>| {
            let (root, draft) = (&inner.layout.successes, inner.layout.scratch.join(inner.next_draft()?));
            success::note(root, &election, token, inner.clock.wall(), &draft)
                .map_err(|error| failure("release", "note the success in", root, error))
        };
        self.leases.inner().work("release", note).await
    }

    async fn success_of_earlier_boots(
        &self,
        election: &ElectionName,
    ) -> Result<Option<std::time::Duration>, StoreError> {
        let election = election.clone();
        let look = move |inner: &Arc<directory::Inner>| {
            success::age(&inner.layout.successes, &election, inner.clock.wall())
                .map_err(|error| failure("read", "look into", &inner.layout.successes, error))
        };
        self.leases.inner().work("read", look).await
    }
}

impl FileStoreBuilder {
    /// Takes a directory although its file system is not known to be local to this machine.
    ///
    /// Two machines on one network file system may then lead at the same time.
    #[must_use]
    pub fn allow_unknown_file_system(mut self, allow: bool) -> Self {
        self.allowed.unknown_file_system = allow;
        self
    }

    /// Works although this process's boot clock is shifted against the machine's by a time namespace.
    ///
    /// Safe only if every process that uses the directory is in the same one.
    #[must_use]
    pub fn allow_shifted_clock(mut self, allow: bool) -> Self {
        self.allowed.shifted_clock = allow;
        self
    }

    /// Ends leases by `clock` instead of the machine's clock; every process must use the same one.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Takes this boot id instead of the kernel's; for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn boot_id(mut self, boot_id: impl Into<String>) -> Self {
        self.boot_id = Some(boot_id.into());
        self
    }

    /// Opens the store; does its file work on this thread.
    ///
    /// # Errors
    /// As [`FileStore::open`].
    pub fn open(self) -> Result<FileStore, StoreError> {
        let boot_id = self.this_boot()?;
        let layout = Layout::new(place::prepare(&self.path, self.allowed)?, boot_id);
        let random = Random::from_os();
        let life = boot::enter(&layout, &random)?;
        life::sweep(&layout, self.clock.now().boot());
        Ok(self.store(layout, random, Some(life)))
    }

    /// Opens the store to look at it: nobody sees that it is open, nothing is made or changed on the disk, and a directory
    /// that is not there is read as an empty one. Also for another user than the directory's owner, if the system lets him
    /// read it.
    ///
    /// Everything that would write answers `Denied`.
    ///
    /// # Errors
    /// `Invalid` for a place that can hold no store, or one that another boot's processes use.
    pub fn open_to_read(self) -> Result<FileStore, StoreError> {
        let layout = Layout::new(place::find(&self.path, self.allowed)?, self.this_boot()?);
        boot::look(&layout)?;
        Ok(self.store(layout, Random::from_os(), None))
    }

    fn this_boot(&self) -> Result<String, StoreError> {
        self.boot_id.as_deref().map_or_else(boot::boot_id, boot::checked)
    }

    fn store(self, layout: Layout, random: Random, life: Option<Life>) -> FileStore {
        let directory = Directory::new(layout, Arc::clone(&self.clock), random, life);
        FileStore { leases: Versioned::with_clock(directory, self.clock) }
    }
}

#[async_trait]
impl LeaseStore for FileStore {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.leases.acquire(election, bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        self.leases.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let released = self.leases.release(release).await?;
        if released == Released::Released && release.succeeded {
            self.note_success(release).await?;
        }
        Ok(released)
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let mut record = self.leases.read(election).await?;
        match &mut record {
            Some(record) if record.last_success.is_none() => {
                record.last_success = self.success_of_earlier_boots(election).await?;
            }
            Some(_) => {}
            None => {
                // Nothing is what a directory that took the place of ours shows, too; here that must not pass for an
                // answer.
                let directory = self.leases.inner();
                directory.work("read", |inner| inner.must_be_in_place("read")).await?;
            }
        }
        Ok(record)
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        self.leases.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.leases.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        self.leases.operator()
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileStore").field(&self.path()).finish()
    }
}

#[cfg(test)]
#[path = "mod_test.rs"]
mod tests;
