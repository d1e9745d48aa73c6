//! The one thing that must outlive a power cut: that no token is ever granted twice.
//!
//! For each election a durable *ceiling* says that no token above it was granted. It is raised by many at once, so that
//! almost no grant waits for the disk; after a reboot tokens go on above the ceiling. The ceiling is the highest number
//! that names a file in the election's folder: whoever raises it adds a name, so that no two can lower it for each
//! other and nobody needs a lock.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::failure::failure;
use super::layout::{folder_of, make_folder, number_name, numbers_in};
use super::place::sync_folder;
use crate::name::ElectionName;
use crate::store::StoreError;
use crate::token::FencingToken;

/// Tokens that one wait for the disk pays for.
const STEP: u64 = 1024;

/// Ceilings that are remembered. Forgetting one costs the next grant of its election one wait for the disk, nothing
/// else; a process that leads ever new elections must not grow.
const REMEMBERED: usize = 16_384;

/// The ceilings of all elections.
#[derive(Debug)]
pub(super) struct Ceilings {
    root: PathBuf,
    /// Those known to be on the disk.
    durable: Mutex<BTreeMap<ElectionName, u64>>,
}

impl Ceilings {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, durable: Mutex::default() }
    }

    /// Returns the election's ceiling, 0 if it has none.
    pub(super) fn read(&self, election: &ElectionName) -> Result<u64, StoreError> {
        let folder = folder_of(&self.root, election);
        let numbers =
            numbers_in(&folder).map_err(|error| failure("read the token", "look into", &folder, error))?;
        Ok(numbers.last().copied().unwrap_or(0))
    }

    /// Makes sure that the ceiling on the disk is not below `token`.
    pub(super) fn cover(&self, election: &ElectionName, token: FencingToken) -> Result<(), StoreError> {
        if self.is_covered(election, token) {
            return Ok(());
        }
        let folder = folder_of(&self.root, election);
        let refused = |error| failure("keep the token", "write to", &folder, error);
        let mut ceiling = self.read(election)?;
        if ceiling < token.0 {
            ceiling = token.0.saturating_add(STEP - 1);
            self.raise(&folder, ceiling).map_err(refused)?;
        } else {
            // Somebody else raised it and may have been stopped before it was on the disk.
            self.sync(&folder).map_err(refused)?;
        }
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() >= REMEMBERED && !durable.contains_key(election) {
            // All at once: which of them is used again cannot be told, and this way each pays at most once per round.
            durable.clear();
        }
        let known = durable.entry(election.clone()).or_default();
        *known = ceiling.max(*known);
        Ok(())
    }

    /// Tells whether the ceiling on the disk is known not to be below `token`; without looking at the disk.
    pub(super) fn is_covered(&self, election: &ElectionName, token: FencingToken) -> bool {
        let durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        durable.get(election).is_some_and(|ceiling| *ceiling >= token.0)
    }

    /// Waits until the names in a folder are on the disk. The name is what counts, and it stands in the folder; each
    /// folder's own name stands in the one above. All of them every time: whoever made a folder may have been stopped
    /// before it was on the disk.
    fn sync(&self, folder: &Path) -> io::Result<()> {
        folder.ancestors().take_while(|folder| folder.starts_with(&self.root)).try_for_each(sync_folder)
    }

    fn raise(&self, folder: &Path, ceiling: u64) -> io::Result<()> {
        if !folder.exists() {
            make_folder(folder)?;
        }
        let path = folder.join(number_name(ceiling));
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        file.sync_all()?;
        self.sync(folder)?;
        // Only now, and only lower ones: the highest that ever was on the disk stays.
        for lower in numbers_in(folder)?.into_iter().filter(|number| *number < ceiling) {
            let _ = fs::remove_file(folder.join(number_name(lower)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn election() -> ElectionName {
        ElectionName::new("a/b").unwrap()
    }

    #[test]
    fn a_ceiling_covers_many_tokens_and_is_never_below_a_granted_one() {
        let root = tempfile::tempdir().unwrap();
        let ceilings = Ceilings::new(root.path().into());
        assert_eq!(ceilings.read(&election()).unwrap(), 0);
        let mut raised = 0;
        let mut last = 0;
        for token in 1..=3000 {
            ceilings.cover(&election(), FencingToken(token)).unwrap();
            let ceiling = ceilings.read(&election()).unwrap();
            assert!(ceiling >= token);
            raised += usize::from(ceiling != last);
            last = ceiling;
        }
        assert_eq!(raised, 3);
        assert_eq!(numbers_in(&folder_of(root.path(), &election())).unwrap().len(), 1);
        ceilings.cover(&election(), FencingToken(u64::MAX)).unwrap();
        assert_eq!(Ceilings::new(root.path().into()).read(&election()).unwrap(), u64::MAX);
    }

    #[test]
    fn ever_new_names_leave_a_bounded_number_of_ceilings_in_memory() {
        let root = tempfile::tempdir().unwrap();
        let ceilings = Ceilings::new(root.path().into());
        let remembered = |n: usize| (ElectionName::new(format!("job-{n}")).unwrap(), 1024);
        ceilings.durable.lock().unwrap().extend((0..REMEMBERED).map(remembered));
        ceilings.cover(&election(), FencingToken(7)).unwrap();
        assert!(ceilings.is_covered(&election(), FencingToken(7)));
        assert_eq!(ceilings.durable.lock().unwrap().len(), 1);
        // What was forgotten is on the disk all the same.
        let (forgotten, _) = remembered(0);
        assert!(!ceilings.is_covered(&forgotten, FencingToken(1)));
        ceilings.cover(&forgotten, FencingToken(1)).unwrap();
        assert!(ceilings.read(&forgotten).unwrap() >= 1);
    }

    #[test]
    fn nobody_lowers_the_ceiling_of_another() {
        let root = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let root = root.path();
                scope.spawn(move || {
                    for round in 0..50 {
                        let token = FencingToken(round * 4000 + thread * 1000 + 1);
                        // Each time without memory, as another process would.
                        let ceilings = Ceilings::new(root.into());
                        ceilings.cover(&election(), token).unwrap();
                        assert!(ceilings.read(&election()).unwrap() >= token.0);
                    }
                });
            }
        });
    }
}
