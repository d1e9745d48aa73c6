//! The mark of a fence in a file, shared by the processes of one machine.
//!
//! Three files: the mark, which is only ever replaced whole (written beside, synced, renamed over), so that a
//! reader needs no lock and a crash leaves the old or the new one; and two locks, which are never replaced,
//! because a lock on a file that was renamed over is a lock on nothing. One lock is for raising the mark and
//! held for moments, the other for the guarded write: were they one, an old leader that writes without a
//! pause would keep a new one from raising the mark for as long as the kernel happens to favour it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::retry_on_intr;

use super::FenceError;
use crate::token::FencingToken;

const RAISE_LOCK: &str = ".raise.lock";
const WRITE_LOCK: &str = ".write.lock";
const NEW: &str = ".new";

/// What every mark begins with; the number is that of the format.
const HEAD: &str = "tenure-fence 1 highest ";

/// More than any mark has (head, 20 digits, 16 digits of checksum): what is longer is not one, and is not
/// read whole.
const MAX_BYTES: u64 = 128;

/// The longest file name for a mark: 255 bytes, what file systems allow, without the longest ending that is
/// added.
const MAX_FILE_NAME_BYTES: usize = 255 - RAISE_LOCK.len();

/// How often a lock file may vanish while it is waited for, before somebody must be told.
const MAX_LOCK_ATTEMPTS: usize = 100;

#[derive(Debug)]
pub(super) struct MarkFile {
    path: PathBuf,
    // Highest token that this process has itself made durable, plus one; zero for none. Seeing a mark in the
    // file is not enough: whoever wrote it may have been killed, or told of a failing disk, before it was
    // durable.
    durable: AtomicU64,
}

/// The lock of the guarded write; closing the file gives it back, and so does the end of the process.
#[derive(Debug)]
pub(super) struct HeldFile {
    _file: File,
}

impl MarkFile {
    pub(super) fn open(given: &Path) -> Result<Self, FenceError> {
        let invalid = |rule| FenceError::Invalid { path: given.to_owned(), rule };
        let Some(name) = given.file_name() else {
            return Err(invalid("names no file: give the path of a file, such as /var/lib/billing/fence"));
        };
        if name.len() > MAX_FILE_NAME_BYTES {
            return Err(invalid("has a file name longer than 244 bytes: shorten it"));
        }
        if given.as_os_str().as_bytes().contains(&0) {
            return Err(invalid("contains a NUL byte: remove it"));
        }
        if given.as_os_str().as_bytes().ends_with(b"/") {
            return Err(invalid("ends with a slash: give the path of a file"));
        }
        let directory = match given.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let path = match fs::canonicalize(given) {
            Ok(path) => path,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if fs::symlink_metadata(given).is_ok() {
                    return Err(invalid(
                        "is a symbolic link to nothing: remove it or create what it points to",
                    ));
                }
                fs::canonicalize(directory).map_err(io_error("open the directory", directory))?.join(name)
            }
            Err(e) => return Err(io_error("open", given)(e)),
        };
        match fs::metadata(&path) {
            Ok(data) if data.is_dir() => Err(invalid("is a directory: give the path of a file in it")),
            Ok(data) if !data.is_file() => Err(invalid("is not a regular file: give another path")),
            _ => Ok(Self { path, durable: AtomicU64::new(0) }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the highest token that this process has made durable.
    pub(super) fn durable(&self) -> Option<FencingToken> {
        self.durable.load(Ordering::SeqCst).checked_sub(1).map(FencingToken)
    }

    /// Reads the mark, `None` if there is no file; needs no lock, since the file is only replaced whole.
    pub(super) fn read(&self) -> Result<Option<FencingToken>, FenceError> {
        let file = match read_only().open(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(io_error("open", &self.path)(e)),
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(io_error("read", &self.path))?;
        let corrupt = |found| FenceError::Corrupt { path: self.path.clone(), found };
        parse(&bytes).map(Some).map_err(corrupt)
    }

    /// Raises the mark to `token` if `admit` agrees to the mark that is found; afterwards it is durable.
    pub(super) fn raise(
        &self,
        token: FencingToken,
        admit: impl Fn(FencingToken) -> Result<(), FenceError>,
    ) -> Result<(), FenceError> {
        let look = || {
            let found = self.read()?;
            admit(found.unwrap_or(FencingToken::ZERO))?;
            Ok(found == Some(token) && self.durable() >= Some(token))
        };
        // First without the lock, since marks do not go down: the usual write of a term costs no more than
        // this.
        if look()? {
            return Ok(());
        }
        let _lock = self.lock(RAISE_LOCK)?;
        // Again with it: somebody may have raised the mark in between, and must not be written over.
        if look()? {
            return Ok(());
        }
        self.replace(token)?;
        // The last number there is wraps to none: that token is then written anew each time, which is merely
        // slow.
        self.durable.fetch_max(token.0.wrapping_add(1), Ordering::SeqCst);
        Ok(())
    }

    /// Waits for the lock of the guarded write.
    pub(super) fn hold(&self) -> Result<HeldFile, FenceError> {
        self.lock(WRITE_LOCK).map(|file| HeldFile { _file: file })
    }

    /// Replaces the mark; a crash at any point leaves the old or the new one.
    fn replace(&self, token: FencingToken) -> Result<(), FenceError> {
        let new = self.beside(NEW);
        // Left by a crash. Removed and not opened, so that nothing is written through a link that lies there.
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(io_error("remove", &new)(e)),
            _ => {}
        }
        let renamed = self
            .write_new(&new, token)
            .and_then(|()| fs::rename(&new, &self.path).map_err(io_error("replace the mark by", &new)));
        if renamed.is_err() {
            // Best effort: the next raise removes it as well, and the first error is the one to tell.
            let _ = fs::remove_file(&new);
        }
        renamed?;
        // The name lies in the directory: without this the rename itself may be lost in a crash.
        let directory = self.path.parent().unwrap_or(Path::new("/"));
        let failed = io_error("make durable the directory", directory);
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(failed)
    }

    fn write_new(&self, new: &Path, token: FencingToken) -> Result<(), FenceError> {
        let failed = io_error("write", new);
        let written = OpenOptions::new().write(true).create_new(true).open(new).and_then(|mut file| {
            if let Ok(old) = fs::metadata(&self.path) {
                // Whoever could read the old file must be able to read the new one. Only root may give a
                // file away; for others the group is tried, and what fails here shows as a clear error to
                // whoever it shuts out.
                let _ = fchown(&file, Some(old.uid()), Some(old.gid()))
                    .or_else(|_| fchown(&file, None, Some(old.gid())));
                file.set_permissions(old.permissions())?;
            }
            file.write_all(render(token).as_bytes())?;
            // Before the rename: otherwise a crash could leave the new name with nothing in it.
            file.sync_all()
        });
        written.map_err(failed)
    }

    /// Waits for an exclusive lock on a file beside the mark, which is created if it is missing.
    fn lock(&self, ending: &str) -> Result<File, FenceError> {
        let path = self.beside(ending);
        for _ in 0..MAX_LOCK_ATTEMPTS {
            // Created only if missing: in a shared directory the kernel may refuse "create" on the file of
            // another user.
            let file = match read_only().open(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    read_only().append(true).create(true).open(&path)
                }
                opened => opened,
            };
            let file = file.map_err(io_error("open the lock", &path))?;
            retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))
                .map_err(|e| io_error("lock", &path)(e.into()))?;
            // Somebody may have deleted it during the wait: then this is a lock that nobody else will see.
            let held = file.metadata().map_err(io_error("look at the lock", &path))?;
            match fs::symlink_metadata(&path) {
                Ok(there) if (there.dev(), there.ino()) == (held.dev(), held.ino()) => return Ok(file),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(io_error("look at the lock", &path)(e)),
            }
        }
        let vanished = io::Error::other("it is deleted again and again by somebody else");
        Err(io_error("keep the lock", &path)(vanished))
    }

    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = OsString::from(&self.path);
        path.push(ending);
        path.into()
    }
}

/// Opens what must be a regular file without following a link, and without blocking on a pipe that was put in
/// its place.
fn read_only() -> OpenOptions {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).custom_flags(flags.bits().cast_signed());
    options
}

fn io_error(step: &'static str, path: &Path) -> impl Fn(io::Error) -> FenceError {
    move |source| FenceError::Io { step, path: path.to_owned(), source }
}

fn render(token: FencingToken) -> String {
    let said = format!("{HEAD}{token}");
    format!("{said} check {:016x}\n", checksum(said.as_bytes()))
}

/// Takes exactly what [`render`] writes, so that a file cut short or changed anywhere is noticed.
fn parse(bytes: &[u8]) -> Result<FencingToken, String> {
    if bytes.is_empty() {
        return Err("is empty".into());
    }
    let text = String::from_utf8_lossy(bytes);
    let Some(said) = text.strip_prefix(HEAD) else {
        let shown: String = text.chars().take(40).collect();
        return Err(format!("does not begin with {HEAD:?} but with {shown:?}"));
    };
    let digits = said.split(' ').next().unwrap_or_default();
    let token = digits.parse().ok().map(FencingToken);
    token
        .filter(|token| render(*token).as_bytes() == bytes)
        .ok_or_else(|| "is cut short or changed: its checksum does not match".into())
}

/// FNV-1a, 64 bits: notices accidents, which is all that is asked; it keeps no forger out.
fn checksum(bytes: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
#[path = "mark_file_test.rs"]
mod tests;
