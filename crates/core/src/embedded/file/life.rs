//! Death is seen through the kernel: a living process keeps its file locked, and nobody else can.
//!
//! The lock is one open file description, opened for writing (so that its close can be watched), taken before the
//! file has its name, never unlocked, only closed. Whoever inherits the description keeps the life alive: that is how
//! a supervisor outlives the process that it supervises for.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::failure::is_gone;
use super::layout::{Layout, entries};
use crate::random::Random;

/// The life of one open store.
#[derive(Debug)]
pub(super) struct Life {
    id: String,
    path: PathBuf,
    file: File,
    inode: (u64, u64),
}

/// How often a life begins anew because somebody swept its unfinished file away.
const TRIES: usize = 100;

/// Begins the name of a file that is not locked yet.
const UNFINISHED: &str = ".new-";

impl Life {
    /// Begins a life in `folder`.
    pub(super) fn begin(folder: &Path, random: &Random) -> io::Result<Self> {
        for _ in 0..TRIES {
            if let Some(life) = Self::try_begin(folder, random)? {
                return Ok(life);
            }
        }
        Err(io::Error::other("others remove the file again and again before it is finished"))
    }

    fn try_begin(folder: &Path, random: &Random) -> io::Result<Option<Self>> {
        // The process id is for people; what makes the name unique, and hard to guess, is drawn.
        let id = format!("{}-{:032x}", std::process::id(), random.next_u128());
        let unfinished = folder.join(format!("{UNFINISHED}{id}"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        let path = folder.join(&id);
        // Locked first and named afterwards: under its own name a free lock always means death.
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                // Somebody who sweeps probes it just now and will remove it.
                let _ = fs::remove_file(&unfinished);
                return Ok(None);
            }
            Err(error) => {
                let _ = fs::remove_file(&unfinished);
                return Err(error.into());
            }
        }
        match fs::rename(&unfinished, &path) {
            Ok(()) => {}
            Err(error) if is_gone(&error) && folder.exists() => return Ok(None),
            Err(error) => {
                let _ = fs::remove_file(&unfinished);
                return Err(error);
            }
        }
        let metadata = file.metadata()?;
        Ok(Some(Self { id, path, inode: (metadata.dev(), metadata.ino()), file }))
    }

    /// Returns the name that records can hold.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Tells whether the file is still where it was begun: if not, the directory was removed, moved or replaced, and
    /// whoever opens the path now does not see us.
    pub(super) fn is_in_place(&self) -> io::Result<bool> {
        match fs::symlink_metadata(&self.path) {
            Ok(metadata) => Ok((metadata.dev(), metadata.ino()) == self.inode),
            Err(error) if is_gone(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts the file among those that records may name.
    pub(super) fn sign(&self, lives: &Path) -> io::Result<()> {
        match fs::hard_link(&self.path, lives.join(&self.id)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Duplicates the description for a supervisor; the duplicate is closed on exec unless its owner says otherwise.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(self.file.try_clone()?.into())
    }

    /// Takes the file away before the end; for a store that was refused.
    pub(super) fn abandon(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// What a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pulse {
    Alive,
    Dead,
    /// There is no file: no proof of anything.
    Missing,
}

/// Tells whether whoever locked the file at `path` lives.
pub(super) fn probe(path: &Path) -> io::Result<Pulse> {
    // Read-only, so that our own close does not look like a death; not blocking, should it be a pipe.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = match OpenOptions::new().read(true).custom_flags(i32::try_from(flags).unwrap_or(0)).open(path)
    {
        Ok(file) => file,
        Err(error) if is_gone(&error) => return Ok(Pulse::Missing),
        Err(error) => return Err(error),
    };
    // Shared, so that two who probe at once do not take each other for the living.
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Pulse::Dead),
        Err(Errno::WOULDBLOCK) => Ok(Pulse::Alive),
        Err(error) => Err(error.into()),
    }
}

/// Tells whether the process behind a life sign is certainly gone.
pub(super) fn is_dead(lives: &Path, life_sign: &str) -> bool {
    // It stands in a record that anybody may have written: it must not lead out of the folder.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if life_sign.is_empty() || !life_sign.bytes().all(plain) {
        return false;
    }
    match probe(&lives.join(life_sign)) {
        Ok(Pulse::Dead) => true,
        Ok(Pulse::Alive) | Err(_) => false,
        Ok(Pulse::Missing) => entries(lives).is_ok_and(|names| {
            names.iter().filter_map(|name| name.to_str()?.split_once('.')).any(|(id, _)| id == life_sign)
        }),
    }
}

/// Tells whether anybody has a store open in this folder of openers.
pub(super) fn anybody_lives(openers: &Path) -> io::Result<bool> {
    for name in entries(openers)? {
        let unfinished = name.to_string_lossy().starts_with(UNFINISHED);
        // Whoever is not finished looks at us afterwards, and we are finished.
        if !unfinished && probe(&openers.join(name))? == Pulse::Alive {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How long the dead are remembered: no lease that names one lasts longer, and forgetting costs time, never safety.
const REMEMBERED: Duration = Duration::from_secs(25 * 3600);

/// Takes away what the dead left behind.
///
/// Each step can be done by several at once and stopped anywhere; what fails is done by the next who comes.
pub(super) fn sweep(layout: &Layout, now: Duration) {
    // What is being written first, then who writes: who began to write was among the openers before.
    for name in entries(&layout.scratch).unwrap_or_default() {
        let writer = name.to_string_lossy();
        let writer = writer.split('.').next().unwrap_or_default();
        if matches!(probe(&layout.openers.join(writer)), Ok(Pulse::Dead | Pulse::Missing)) {
            let _ = fs::remove_file(layout.scratch.join(&name));
        }
    }
    for name in entries(&layout.openers).unwrap_or_default() {
        let path = layout.openers.join(name);
        if matches!(probe(&path), Ok(Pulse::Dead)) {
            let _ = fs::remove_file(path);
        }
    }
    for name in entries(&layout.lives).unwrap_or_default() {
        let path = layout.lives.join(&name);
        match name.to_str().map(|name| name.split_once('.')) {
            // A record may still name it: the dead are remembered under another name, with the time they were found.
            Some(None) if matches!(probe(&path), Ok(Pulse::Dead)) => {
                let mut found_dead = name;
                found_dead.push(format!(".{}", now.as_secs()));
                let _ = fs::rename(&path, layout.lives.join(found_dead));
            }
            Some(Some((_, seconds))) => {
                let found = seconds.parse().map(Duration::from_secs).unwrap_or(Duration::ZERO);
                if now.saturating_sub(found) > REMEMBERED {
                    let _ = fs::remove_file(path);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "life_test.rs"]
mod tests;
