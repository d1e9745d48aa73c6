//! What a directory must be before leases can live in it.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::failure::{failure, invalid};
use super::layout::make_folder;
use crate::store::StoreError;

/// What was asked for by name although it is not known to be safe.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::embedded) struct Allowed {
    pub(super) unknown_file_system: bool,
    pub(super) shifted_clock: bool,
}

/// Makes the directory if it is not there, and checks it.
pub(in crate::embedded) fn prepare(path: &Path, allowed: Allowed) -> Result<PathBuf, StoreError> {
    let path = absolute(path)?;
    if !allowed.shifted_clock {
        check_clock()?;
    }
    if !path.exists() {
        make_folder(&path).map_err(|error| failure("open", "make the directory", &path, error))?;
        // A power cut must not take the directory with its tokens away again.
        if let Some(parent) = path.parent() {
            sync_folder(parent).map_err(|error| failure("open", "write to disk", parent, error))?;
        }
    }
    check_owner(&path)?;
    if !allowed.unknown_file_system {
        check_file_system(&path)?;
    }
    Ok(path)
}

/// Checks a directory that is only to be read, if it is there. Whose it is and who else may write to it is for those to
/// judge who take part.
pub(super) fn find(path: &Path, allowed: Allowed) -> Result<PathBuf, StoreError> {
    let path = absolute(path)?;
    if !allowed.shifted_clock {
        check_clock()?;
    }
    match fs::metadata(&path) {
        Ok(metadata) => check_kind(&path, &metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
        Err(error) => return Err(failure("open", "look at", &path, error)),
    }
    if !allowed.unknown_file_system {
        check_file_system(&path)?;
    }
    Ok(path)
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    if path.as_os_str().is_empty() {
        return Err(invalid("open", "the path of the directory is empty: name a directory"));
    }
    std::path::absolute(path).map_err(|error| failure("open", "find", path, error))
}

/// Waits until the names in a folder are on the disk.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn check_owner(path: &Path) -> Result<(), StoreError> {
    let metadata = fs::metadata(path).map_err(|error| failure("open", "look at", path, error))?;
    check_kind(path, &metadata)?;
    let user = rustix::process::geteuid().as_raw();
    if metadata.uid() != user {
        return Err(invalid(
            "open",
            format!(
                "{} belongs to user {}, this process runs as user {user}: files that one makes the other cannot read, \
                 so all processes must run as the directory's owner; change the owner or choose another directory",
                path.display(),
                metadata.uid()
            ),
        ));
    }
    let mode = metadata.mode() & 0o7777;
    if mode & 0o022 != 0 {
        let inside =
            if mode & STICKY == 0 { "" } else { ", or name a directory inside it, which is then made" };
        return Err(invalid(
            "open",
            format!(
                "{} has mode {mode:o}: other users could remove or replace what is in it, so nobody but its owner may \
                 write there; chmod 700 it{inside}",
                path.display()
            ),
        ));
    }
    check_above(path)
}

fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), StoreError> {
    if metadata.is_dir() {
        return Ok(());
    }
    let path = path.display();
    let message =
        format!("{path} is a file, and leases need a directory: name one, it is made if it is not there");
    Err(invalid("open", message))
}

/// In a directory with this bit everybody may only remove his own.
const STICKY: u32 = 0o1000;

/// Whoever may rename a directory above could put another store in the place of this one.
fn check_above(path: &Path) -> Result<(), StoreError> {
    for above in path.ancestors().skip(1) {
        let metadata = fs::metadata(above).map_err(|error| failure("open", "look at", above, error))?;
        let mode = metadata.mode() & 0o7777;
        if mode & 0o002 != 0 && mode & STICKY == 0 {
            return Err(invalid(
                "open",
                format!(
                    "{} has mode {mode:o}: everybody could replace {} in it by another directory; chmod o-w it, or choose \
                     a place that others cannot write to",
                    above.display(),
                    path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// File systems that one kernel alone writes to: linking, locking and listing are then one machine's, at once.
///
/// An overlay is one too: its upper layer belongs to one mount of one kernel.
const LOCAL: [(u32, &str); 7] = [
    (0xEF53, "ext2/3/4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x2FC1_2FC1, "zfs"),
    (0xF2F5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
    (0x794C_7630, "overlay"),
];

/// Names for the message; everything that is not known to be local is refused all the same.
const SHARED: [(u32, &str); 10] = [
    (0x6969, "nfs"),
    (0x517B, "smb"),
    (0xFF53_4D42, "cifs"),
    (0xFE53_4D42, "smb2"),
    (0x6573_5546, "fuse"),
    (0x0102_1997, "9p"),
    (0x00C3_6400, "ceph"),
    (0x786F_4256, "vboxsf"),
    (0x0BD0_0BD0, "lustre"),
    (0x0116_1970, "gfs2"),
];

fn check_file_system(path: &Path) -> Result<(), StoreError> {
    let answer = rustix::fs::statfs(path)
        .map_err(|error| failure("open", "tell the file system of", path, error.into()))?;
    // The type has 32 bits in a field whose width and sign differ from machine to machine.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let magic = answer.f_type as u32;
    judge_file_system(path, magic)
}

fn judge_file_system(path: &Path, magic: u32) -> Result<(), StoreError> {
    if LOCAL.iter().any(|(local, _)| *local == magic) {
        return Ok(());
    }
    let name = SHARED.iter().find(|(shared, _)| *shared == magic).map_or("unknown", |(_, name)| name);
    let local: Vec<_> = LOCAL.iter().map(|(_, name)| *name).collect();
    Err(invalid(
        "open",
        format!(
            "{} is on a file system of type {magic:#x} ({name}); other machines may write to it unseen, so only known \
             local ones are taken ({}): choose a directory on one of them, or a store for several machines; \
             allow_unknown_file_system takes it as it is",
            path.display(),
            local.join(", ")
        ),
    ))
}

fn check_clock() -> Result<(), StoreError> {
    let path = Path::new("/proc/self/timens_offsets");
    match fs::read_to_string(path) {
        Ok(offsets) => judge_clock(&offsets),
        // A kernel without time namespaces.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failure("open", "read", path, error)),
    }
}

fn judge_clock(offsets: &str) -> Result<(), StoreError> {
    for line in offsets.lines() {
        let mut words = line.split_whitespace();
        // Newer kernels name the clock, older ones number it: 7 is the boot clock.
        let boot = matches!(words.next(), Some("boottime" | "7"));
        if boot && words.any(|word| word != "0") {
            return Err(invalid(
                "open",
                format!(
                    "this process is in a time namespace whose boot clock is shifted ({}): leases written by processes \
                     outside would look older or younger than they are; run it outside, or, if every process that uses \
                     the directory is inside, allow_shifted_clock takes it as it is",
                    line.split_whitespace().collect::<Vec<_>>().join(" ")
                ),
            ));
        }
    }
    Ok(())
}

/// Names the directory of this machine and this user, from the environment.
pub(super) fn default_directory(
    variable: impl Fn(&str) -> Option<OsString>,
    is_root: bool,
) -> Result<PathBuf, StoreError> {
    let set = |name: &str| {
        let value = PathBuf::from(variable(name)?);
        (!value.as_os_str().is_empty()).then_some(value)
    };
    if let Some(directory) = set("TENURE_DIR") {
        return Ok(directory);
    }
    if is_root {
        return Ok("/var/lib/tenure".into());
    }
    // A relative path would be another place after every change of directory.
    if let Some(state) = set("XDG_STATE_HOME").filter(|path| path.is_absolute()) {
        return Ok(state.join("tenure"));
    }
    if let Some(home) = set("HOME").filter(|path| path.is_absolute()) {
        return Ok(home.join(".local/state/tenure"));
    }
    Err(invalid(
        "open",
        "none of TENURE_DIR, XDG_STATE_HOME and HOME names a directory: set TENURE_DIR, or name the directory",
    ))
}

#[cfg(test)]
#[path = "place_test.rs"]
mod tests;
