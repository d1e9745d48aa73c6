//! The file that tells the command until when it may act: one number, nanoseconds of the boot clock.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tenure::CandidateId;
use tenure::clock::Moment;

/// A file in a folder of its own, which goes with it.
pub(super) struct DeadlineFile {
    folder: PathBuf,
    path: PathBuf,
}

impl DeadlineFile {
    pub(super) fn create(candidate: &CandidateId) -> io::Result<Self> {
        let parent = std::env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|folder| folder.is_dir())
            .unwrap_or_else(std::env::temp_dir);
        let folder = parent.join(format!("tenure-{}", candidate.as_str().replace('/', "_")));
        // Unique by the candidate's random part; one that exists is somebody else's.
        DirBuilder::new().mode(0o700).create(&folder)?;
        let file = Self { path: folder.join("deadline"), folder };
        file.write(0)?;
        Ok(file)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn set(&self, deadline: Moment) -> io::Result<()> {
        self.write(u64::try_from(deadline.boot().as_nanos()).unwrap_or(u64::MAX))
    }

    /// There is no permission any more.
    pub(super) fn end(&self) -> io::Result<()> {
        self.write(0)
    }

    /// Whoever reads sees the old number or the new one, whole.
    fn write(&self, nanoseconds: u64) -> io::Result<()> {
        let draft = self.folder.join("draft");
        fs::write(&draft, format!("{nanoseconds}\n"))?;
        fs::rename(draft, &self.path)
    }
}

impl Drop for DeadlineFile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
