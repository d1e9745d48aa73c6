//! What the operating system refuses, told with the value, the rule and the way out.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::store::{ErrorKind, StoreError};

/// The store's short name, in errors and guarantees.
pub(super) const STORE: &str = "file";

/// Turns a refused step on a file into the error that a caller can act on.
pub(super) fn failure(operation: &'static str, step: &str, path: &Path, source: io::Error) -> StoreError {
    let (kind, way_out) = judge(&source);
    let message = format!("cannot {step} {}: {source}; {way_out}", path.display());
    StoreError::new(kind, STORE, operation, message).with_source(source)
}

/// Tells of a failed step after the record was put into place: whether it counts is then unknown, whatever refused it.
pub(super) fn unknown(operation: &'static str, step: &str, path: &Path, source: io::Error) -> StoreError {
    let (_, way_out) = judge(&source);
    let message = format!("cannot {step} {}: {source}; {way_out}", path.display());
    StoreError::new(ErrorKind::Unavailable, STORE, operation, message).with_source(source)
}

/// Makes the error of a broken rule.
pub(super) fn invalid(operation: &'static str, message: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Invalid, STORE, operation, message)
}

fn judge(error: &io::Error) -> (ErrorKind, &'static str) {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM) => (
            ErrorKind::Denied,
            "everything in the store's directory must belong to the user that runs this: \
             correct owner and mode, or choose another directory",
        ),
        Some(Errno::ROFS) => (
            ErrorKind::Denied,
            "the file system is mounted read-only: mount it writable or choose another directory",
        ),
        Some(Errno::NOSPC | Errno::DQUOT) => (
            ErrorKind::Unavailable,
            "the disk or the quota is full, what was there before is untouched: free some space",
        ),
        Some(Errno::MFILE | Errno::NFILE) => {
            (ErrorKind::Unavailable, "too many files are open: close some or raise the limit (ulimit -n)")
        }
        Some(Errno::NOTDIR | Errno::ISDIR | Errno::EXIST) => (
            ErrorKind::Invalid,
            "a file stands where a directory should be, or the other way round: move it away or choose another directory",
        ),
        Some(Errno::NOENT) => (
            ErrorKind::Unavailable,
            "it was removed, or nothing can be made there: open the store again, or choose another directory",
        ),
        Some(Errno::LOOP | Errno::NAMETOOLONG | Errno::INVAL) => {
            (ErrorKind::Invalid, "choose another directory")
        }
        _ => (ErrorKind::Unavailable, "look after the disk, then try again"),
    }
}

/// Tells whether there is nothing at a path, or no way that leads to it.
pub(super) fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::STALE))
}
