//! Where the demonstration happens: a temporary directory with one store, and for each candidate a way of its own to it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use tenure::{FileStore, Random};

use super::Failure;

/// The directory goes with it.
pub(super) struct Place {
    folder: PathBuf,
    pub(super) store: FileStore,
}

impl Place {
    pub(super) fn make() -> Result<Self, Failure> {
        let name = format!("tenure-demo-{:016x}", Random::from_os().next_u64());
        let folder = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&folder).map_err(Failure::system("make a directory"))?;
        let opened = FileStore::open(folder.join("store"));
        opened.map(|store| Self { folder: folder.clone(), store }).map_err(|error| {
            let _ = fs::remove_dir_all(folder);
            error.into()
        })
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the way to the store that the candidate of a seat uses.
    pub(super) fn way(&self, seat: usize) -> PathBuf {
        self.folder.join(format!("way-{seat}"))
    }

    pub(super) fn connect(&self, seat: usize) -> io::Result<()> {
        self.lead(seat, self.store.path())
    }

    /// Lets the way lead to itself. Whoever uses it gets an error that tells nothing about the store: neither that the
    /// lease is lost nor that it is there. So it is with a network that is down.
    pub(super) fn cut_off(&self, seat: usize) -> io::Result<()> {
        self.lead(seat, &self.way(seat))
    }

    /// In one step: nobody finds no way at all, which would mean that the store was removed.
    fn lead(&self, seat: usize, to: &Path) -> io::Result<()> {
        let draft = self.folder.join(format!("draft-{seat}"));
        symlink(to, &draft)?;
        fs::rename(draft, self.way(seat))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_is_cut_and_connected_again_and_everything_goes_with_the_place() {
        let place = Place::make().unwrap();
        let folder = place.folder().to_path_buf();
        for _ in 0..2 {
            place.connect(0).unwrap();
            place.connect(1).unwrap();
            place.cut_off(0).unwrap();
            let cut = fs::metadata(place.way(0)).unwrap_err();
            assert_eq!(rustix::io::Errno::from_io_error(&cut), Some(rustix::io::Errno::LOOP));
            assert!(fs::metadata(place.way(1)).unwrap().is_dir());
        }
        place.connect(0).unwrap();
        assert!(fs::metadata(place.way(0)).unwrap().is_dir());
        drop(place);
        assert!(!folder.exists());
    }
}
