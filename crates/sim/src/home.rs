//! Where a process with a stable identity lives: a machine with a boot id and perhaps an instance id, and a state
//! directory on its disk.
//!
//! The directories, their files and their locks are real ones. The ids are simulated, since all of it runs on one
//! machine: the door of a process writes its simulated origin into bids, and shows it whatever it finds of its own
//! origin as the real one.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use tempfile::TempDir;
use tenure_core::ElectionName;
use tenure_core::store::{
    Acquisition, Bid, Changes, Guarantees, LeaseRecord, LeaseStore, Operator, Origin, Release, Released,
    Renew, Renewal, StoreError,
};

use crate::network::unpoisoned;

/// The disks of a run, in a temporary directory that ends with it.
#[derive(Default)]
pub struct Disks {
    place: OnceLock<TempDir>,
    made: AtomicUsize,
}

/// A state directory and the machine that it is on.
#[derive(Clone, Debug)]
pub struct Home {
    /// The state directory.
    pub directory: PathBuf,
    /// What a process that lives there says of where it runs.
    pub origin: Origin,
}

impl Disks {
    fn next(&self) -> usize {
        self.made.fetch_add(1, Ordering::Relaxed)
    }

    fn directory(&self, number: usize) -> io::Result<PathBuf> {
        let place = match self.place.get() {
            Some(place) => place,
            None => {
                let made = TempDir::new()?;
                self.place.get_or_init(|| made)
            }
        };
        let directory = place.path().join(number.to_string());
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(directory)
    }

    /// Makes a machine with an empty disk; `instance_id`: its platform names it.
    ///
    /// # Errors
    /// If this machine gives no directory.
    pub fn machine(&self, instance_id: bool) -> io::Result<Home> {
        let number = self.next();
        let origin = Origin {
            boot_id: Some(format!("boot {number}")),
            instance_id: instance_id.then(|| format!("instance {number}")),
            state_id: Some(format!("disk {number}")),
        };
        Ok(Home { directory: self.directory(number)?, origin })
    }

    /// Copies the state directory to another one of the same machine.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn copy_directory(&self, home: &Home) -> io::Result<Home> {
        let number = self.next();
        let directory = self.directory(number)?;
        copy(&home.directory, &directory)?;
        let state_id = Some(format!("disk {number}"));
        Ok(Home { directory, origin: Origin { state_id, ..home.origin.clone() } })
    }

    /// Clones the machine with its disk: the files have the same numbers there, boot and instance are others.
    ///
    /// # Errors
    /// If it cannot be copied.
    pub fn clone_machine(&self, home: &Home) -> io::Result<Home> {
        let number = self.next();
        let directory = self.directory(number)?;
        copy(&home.directory, &directory)?;
        let boot_id = Some(format!("boot {number}"));
        let instance_id = home.origin.instance_id.as_ref().map(|_| format!("instance {number}"));
        Ok(Home { directory, origin: Origin { boot_id, instance_id, ..home.origin.clone() } })
    }

    /// Starts the machine again.
    #[must_use]
    pub fn reboot(&self, home: &Home) -> Home {
        let boot_id = Some(format!("boot {}", self.next()));
        Home { origin: Origin { boot_id, ..home.origin.clone() }, ..home.clone() }
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The door of a process that lives somewhere.
pub struct Elsewhere {
    inner: Arc<dyn LeaseStore>,
    /// Where it is simulated to run.
    here: Origin,
    /// Where it really runs.
    real: Mutex<Origin>,
}

impl Elsewhere {
    /// Makes the door of a process at `home`.
    #[must_use]
    pub fn new(inner: Arc<dyn LeaseStore>, home: &Home) -> Self {
        Self { inner, here: home.origin.clone(), real: Mutex::default() }
    }

    /// Shows the process its own origin where the record has its simulated one.
    fn seen_from_here(&self, mut record: LeaseRecord) -> LeaseRecord {
        let real = unpoisoned(&self.real);
        if let Some(holder) = &mut record.holder {
            let origin = &mut holder.origin;
            for (theirs, here, real) in [
                (&mut origin.boot_id, &self.here.boot_id, &real.boot_id),
                (&mut origin.instance_id, &self.here.instance_id, &real.instance_id),
                (&mut origin.state_id, &self.here.state_id, &real.state_id),
            ] {
                if theirs == here {
                    theirs.clone_from(real);
                }
            }
        }
        record
    }
}

#[async_trait]
impl LeaseStore for Elsewhere {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        unpoisoned(&self.real).clone_from(&bid.origin);
        let bid = Bid { origin: self.here.clone(), ..bid.clone() };
        Ok(match self.inner.acquire(election, &bid).await? {
            Acquisition::Refused(record) => Acquisition::Refused(Box::new(self.seen_from_here(*record))),
            acquired @ Acquisition::Acquired(_) => acquired,
        })
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        self.inner.renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.inner.release(release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        self.inner.read(election).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        self.inner.watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}
