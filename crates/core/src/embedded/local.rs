//! What this machine tells about itself, for whatever keeps state in a directory of it.

use std::path::{Path, PathBuf};

use super::file::{boot, place};
use crate::store::StoreError;

/// Reads the kernel's name for this boot.
pub(crate) fn boot_id() -> Result<String, StoreError> {
    boot::boot_id()
}

/// Makes a directory if it is not there, and checks that it is a private one on a local file system.
pub(crate) fn prepare(path: &Path) -> Result<PathBuf, StoreError> {
    place::prepare(path, place::Allowed::default())
}
