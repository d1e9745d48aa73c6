//! Stable identity: a restarted process takes its own unexpired lease at once, if it can prove that it is its own.
//!
//! The proof is a file in a state directory on this machine that is locked for as long as a process with the identity
//! lives. A record says which file that was (device and inode) and under which boot of the machine. Whoever holds the
//! lock of the very same file in the same boot knows that the process that wrote the record is gone. A copy of the
//! directory is another file; a copy of the whole machine has another boot id. After a reboot every process is gone,
//! but a cloned disk looks just like a reboot: then only the platform's own id of the machine counts.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::embedded::local;
use crate::flaw::{Flaw, flawed};
use crate::name::{Identity, InvalidName};
use crate::store::{Holder, Origin};

/// Why a stable identity cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// The name breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Another process has it.
    #[error(
        "identity {identity:?} is in use by another live process (it holds {path:?}): give each process an identity of \
         its own"
    )]
    InUse {
        /// The identity.
        identity: Identity,
        /// The file that it holds.
        path: PathBuf,
    },
    /// The state directory cannot be used.
    #[error(
        "state directory {directory:?} cannot be used: {why}; choose a writable one on a local disk, or do without an identity"
    )]
    Directory {
        /// Which directory.
        directory: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A name that stays the same over restarts of one machine, and the proof that no other process has it.
///
/// The proof is given up when this is dropped, or the process ends.
pub struct StableIdentity {
    identity: Identity,
    origin: Origin,
    // Held for as long as this process has the identity; never unlocked, only closed.
    file: File,
}

impl StableIdentity {
    /// Takes the identity `name`, with its proof in `state_directory` (made if it is not there).
    ///
    /// `instance_id` is the platform's id of this machine, where it has one: with it the lease is taken over after a
    /// reboot too.
    ///
    /// # Errors
    /// If another live process has it, or the directory is not a writable one on a local file system.
    pub fn open(
        name: impl AsRef<str>,
        state_directory: impl AsRef<Path>,
        instance_id: Option<String>,
    ) -> Result<Self, IdentityError> {
        let identity = Identity::new(name)?;
        let directory = state_directory.as_ref();
        let unusable = |why: &dyn fmt::Display| IdentityError::Directory {
            directory: directory.into(),
            why: why.to_string(),
        };
        let boot_id = local::boot_id().map_err(|error| unusable(&error))?;
        let directory = local::prepare(directory).map_err(|error| unusable(&error))?;
        let path = directory.join(file_name(&identity));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| unusable(&error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(IdentityError::InUse { identity, path }),
            Err(error) => return Err(unusable(&io::Error::from(error))),
        }
        // The file may have been replaced between opening and locking: then the lock proves nothing.
        let (held, there) = (file.metadata(), fs::metadata(&path));
        let (held, there) = match (held, there) {
            (Ok(held), Ok(there)) => (held, there),
            (Err(error), _) | (_, Err(error)) => return Err(unusable(&error)),
        };
        if (held.dev(), held.ino()) != (there.dev(), there.ino()) {
            return Err(unusable(&"its file was replaced while it was opened"));
        }
        let state_id = Some(format!("{}:{}", held.dev(), held.ino()));
        let origin = Origin { boot_id: Some(boot_id), instance_id, state_id };
        Ok(Self { identity, origin, file })
    }

    /// Returns the name.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the file whose lock is the proof, for a supervisor that outlives this process and must keep it.
    #[must_use]
    pub fn proof(&self) -> &File {
        &self.file
    }

    /// Tells whether `holder` was a process with this identity that is certainly gone.
    pub(crate) fn was_ours(&self, holder: &Holder) -> bool {
        let (ours, theirs) = (&self.origin, &holder.origin);
        let same = |a: &Option<String>, b: &Option<String>| a.is_some() && a == b;
        let same_boot = same(&ours.boot_id, &theirs.boot_id);
        let gone = if same_boot {
            same(&ours.state_id, &theirs.state_id)
        } else {
            theirs.boot_id.is_some() && same(&ours.instance_id, &theirs.instance_id)
        };
        let gone = gone || flawed(Flaw::IdentityWithoutProof);
        holder.identity.as_ref() == Some(&self.identity) && gone
    }
}

/// Letters, digits and hyphens stand for themselves, every other byte for its number: one file per identity.
fn file_name(identity: &Identity) -> String {
    use std::fmt::Write;
    let mut name = String::from("identity-");
    for byte in identity.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            name.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    // A file name has at most 255 bytes; an identity this long keeps its beginning and a sum of all of it.
    if name.len() > 200 {
        let sum = identity.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        name.truncate(200);
        let _ = write!(name, "~{sum:016x}");
    }
    name
}

impl fmt::Debug for StableIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StableIdentity({:?})", self.identity)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::name::{Attempt, BidId, CandidateId};
    use crate::random::Random;

    fn holder(identity: &str, origin: Origin) -> Holder {
        let random = Random::from_seed(1);
        Holder {
            candidate: CandidateId::new("earlier").unwrap(),
            identity: Some(Identity::new(identity).unwrap()),
            origin,
            bid: BidId::new(&random),
            attempt: Attempt::new(&random),
            ttl: std::time::Duration::from_secs(30),
            metadata: crate::store::Metadata::new(),
            acquired_at: SystemTime::UNIX_EPOCH,
            renewed_at: SystemTime::UNIX_EPOCH,
            renew_count: 0,
            previous: None,
        }
    }

    #[test]
    fn only_the_very_same_file_in_the_same_boot_or_the_same_machine_after_a_reboot_is_ours() {
        let directory = tempfile::tempdir().unwrap();
        let stable =
            StableIdentity::open("web-1", directory.path().join("state"), Some("i-1".into())).unwrap();
        let ours = stable.origin().clone();
        let some = |text: &str| Some(text.to_owned());
        let another_boot = Origin { boot_id: some("another"), ..ours.clone() };
        for (what, identity, origin, expected) in [
            ("same file, same boot", "web-1", ours.clone(), true),
            ("another identity", "web-2", ours.clone(), false),
            ("a copy of the directory", "web-1", Origin { state_id: some("1:2"), ..ours.clone() }, false),
            ("after a reboot", "web-1", another_boot.clone(), true),
            (
                "a clone of the machine",
                "web-1",
                Origin { instance_id: some("i-2"), ..another_boot.clone() },
                false,
            ),
            ("no platform id", "web-1", Origin { instance_id: None, ..another_boot }, false),
            ("nothing known", "web-1", Origin::default(), false),
        ] {
            assert_eq!(stable.was_ours(&holder(identity, origin)), expected, "{what}");
        }
    }

    #[test]
    fn a_second_live_process_is_refused_until_the_first_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let first = StableIdentity::open("web 1/ü", &state, None).unwrap();
        let error = StableIdentity::open("web 1/ü", &state, None).unwrap_err();
        assert!(matches!(error, IdentityError::InUse { .. }), "{error}");
        assert!(error.to_string().contains("another live process"));
        let other = StableIdentity::open("web 1-ü", &state, None).unwrap();
        assert_ne!(other.origin().state_id, first.origin().state_id);
        drop(first);
        StableIdentity::open("web 1/ü", &state, None).unwrap();
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_refused_with_a_way_out() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        // The kernel's own tables are on no disk.
        for path in [file.as_path(), Path::new("/proc")] {
            let error = StableIdentity::open("web-1", path, None).unwrap_err();
            let message = error.to_string();
            assert!(message.contains("do without an identity"), "{message}");
        }
        assert!(matches!(StableIdentity::open(" ", &file, None), Err(IdentityError::Name(_))));
    }

    #[test]
    fn every_identity_has_a_file_name_of_its_own_that_fits() {
        let long = "ü".repeat(127);
        let names: std::collections::BTreeSet<_> =
            ["a", "a/b", "a%b", "a%2fb", "A", &long, &format!("{long}x"), &"y".repeat(255)]
                .iter()
                .map(|name| file_name(&Identity::new(name).unwrap()))
                .collect();
        assert_eq!(names.len(), 8);
        assert!(names.iter().all(|name| name.len() < 255));
    }
}
