//! Reading and committing the records of elections, without any lock.
//!
//! A commit links a finished file to the name of the next number; whoever finds that name taken was second. A process
//! stopped before the link has changed nothing, one stopped after it has nothing left to do that others need.
//!
//! Old records are removed, all but the newest few. So a very late commit can find its name free again, far below the
//! newest: it is void, since readers take the highest, and its writer notices because it lists the folder afterwards.
//! Each record names the checksum of the one that it replaced, so that a writer who is slow to list can tell whether
//! the higher one that it finds was built on its own.
//! The name holds the number and nothing else: were anything in it that two writers could disagree about, such as the
//! token, both would find their name free.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::directory::Inner;
use super::failure::{STORE, failure, invalid, is_gone, unknown};
use super::layout::{make_folder, number_name, numbers_in};
use crate::name::ElectionName;
use crate::store::versioned::{Age, Found, Revision, Written};
use crate::store::{ErrorKind, StoreError};

/// The version of the header; a higher one is not understood.
const FORMAT: u32 = 1;

/// How often a read starts over because the file that it had found was removed meanwhile.
const READS: usize = 1000;

/// Newest records that are never removed. Two would do: whoever has just listed the folder can still read what he found.
/// With a few more a writer still finds the record after its own when several came since.
const KEPT: usize = 4;

/// A record as it stands in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// The boot clock before the record was written.
    pub(super) stamp: Duration,
    /// The checksum of the record that it replaced, 0 if it replaced none.
    pub(super) over: u64,
    /// Who wrote it, and which of that writer's it was: no two files are ever the same.
    pub(super) by: String,
    pub(super) bytes: Vec<u8>,
    pub(super) checksum: u64,
}

impl Stored {
    pub(super) fn new(stamp: Duration, over: u64, by: String, bytes: Vec<u8>) -> Self {
        let checksum = checksum(&format!("{} {over:016x} {by} ", stamp.as_nanos()), &bytes);
        Self { stamp, over, by, bytes, checksum }
    }

    fn encode(&self) -> Vec<u8> {
        let (stamp, length) = (self.stamp.as_nanos(), self.bytes.len());
        let header = format!(
            "tenure {FORMAT} {stamp} {:016x} {} {length} {:016x}\n",
            self.over, self.by, self.checksum
        );
        let mut content = header.into_bytes();
        content.extend_from_slice(&self.bytes);
        content
    }

    /// Reads a file back; the error says in what way it is not one of ours.
    pub(super) fn decode(content: &[u8]) -> Result<Self, String> {
        let end = content.iter().position(|byte| *byte == b'\n');
        let (header, bytes) = match end {
            // No header of ours is longer.
            Some(end) if end < 200 => (&content[..end], &content[end + 1..]),
            _ => return Err(format!("its {} bytes do not begin with a header", content.len())),
        };
        let header = std::str::from_utf8(header).map_err(|_| "its header is not text".to_owned())?;
        let words: Vec<_> = header.split(' ').collect();
        let strange = || format!("its header is {header:?}");
        let &["tenure", format, stamp, over, by, length, _] = words.as_slice() else {
            return Err(strange());
        };
        if format != FORMAT.to_string() {
            return Err(format!(
                "it has header format {format}, this version understands {FORMAT}: upgrade this program"
            ));
        }
        let stamp = stamp.parse().map(Duration::from_nanos).map_err(|_| strange())?;
        let over = u64::from_str_radix(over, 16).map_err(|_| strange())?;
        if length != bytes.len().to_string() {
            return Err(format!("it has {} bytes of {length}", bytes.len()));
        }
        let stored = Self::new(stamp, over, by.to_owned(), bytes.to_vec());
        if stored.encode() != content {
            return Err("its checksum does not fit".to_owned());
        }
        Ok(stored)
    }
}

/// FNV-1a: tells torn and edited files from whole ones; no protection against forgers, who need none to write here.
fn checksum(head: &str, bytes: &[u8]) -> u64 {
    let all = head.as_bytes().iter().chain(bytes);
    all.fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

fn revision(number: u64, checksum: u64) -> Revision {
    Revision(format!("{number}-{checksum:016x}"))
}

fn parts(revision: &Revision) -> Option<(u64, u64)> {
    let (number, checksum) = revision.0.split_once('-')?;
    Some((number.parse().ok()?, u64::from_str_radix(checksum, 16).ok()?))
}

/// Makes the error of an election whose record says nothing that can be trusted.
pub(super) fn corrupt(
    operation: &'static str,
    election: &ElectionName,
    path: &Path,
    why: &str,
) -> StoreError {
    let message = format!(
        "the record of election {:?} in {} cannot be understood: {why}; nobody is elected until it is repaired",
        election.as_str(),
        path.display()
    );
    StoreError::new(ErrorKind::Corrupt, STORE, operation, message)
}

impl Inner {
    /// Returns the error of a store whose directory is not the one that it opened.
    fn replaced(&self, operation: &'static str) -> StoreError {
        invalid(
            operation,
            format!(
                "{} was removed, moved or replaced while it was open, and others may use another one in its place: \
                 open the store again",
                self.layout.top.display()
            ),
        )
    }

    pub(super) fn is_in_place(&self, operation: &'static str) -> Result<bool, StoreError> {
        self.is_same_directory().map_err(|error| failure(operation, "look into", &self.layout.openers, error))
    }

    /// Refuses to go on in a directory that is not the one that was opened.
    pub(super) fn must_be_in_place(&self, operation: &'static str) -> Result<(), StoreError> {
        if self.is_in_place(operation)? { Ok(()) } else { Err(self.replaced(operation)) }
    }

    /// Returns the number and the content of the newest record.
    pub(super) fn newest(&self, folder: &Path) -> Result<Option<(u64, PathBuf, Vec<u8>)>, StoreError> {
        for _ in 0..READS {
            let numbers = numbers_in(folder).map_err(|error| failure("read", "look into", folder, error))?;
            let Some(number) = numbers.last() else {
                return Ok(None);
            };
            let path = folder.join(number_name(*number));
            match fs::read(&path) {
                Ok(content) => return Ok(Some((*number, path, content))),
                // Some newer ones came since the listing.
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(failure("read", "read", &path, error)),
            }
        }
        let message = format!(
            "others wrote to {} faster than it could be read, {READS} times in a row",
            folder.display()
        );
        Err(StoreError::new(ErrorKind::Conflict, STORE, "read", message))
    }

    /// Reads the present record. In a directory that is not the one that was opened there is none of ours any more: its
    /// holder hears `Lost`.
    pub(super) fn read(&self, election: &ElectionName) -> Result<Option<Found>, StoreError> {
        if !self.is_in_place("read")? {
            return Ok(None);
        }
        let Some((number, path, content)) = self.newest(&self.layout.election(election))? else {
            return Ok(None);
        };
        let stored = Stored::decode(&content).map_err(|why| corrupt("read", election, &path, &why))?;
        let now = self.clock.now().boot();
        if stored.stamp > now {
            let why =
                "it was stamped by a boot clock that is ahead of this process's (another time namespace?)";
            return Err(corrupt("read", election, &path, why));
        }
        Ok(Some(Found {
            revision: revision(number, stored.checksum),
            bytes: stored.bytes,
            age: Age::AtLeast(now - stored.stamp),
        }))
    }

    /// Writes the first record.
    pub(super) fn create(&self, election: &ElectionName, bytes: Vec<u8>) -> Result<Written, StoreError> {
        self.life("write")?;
        self.must_be_in_place("write")?;
        let folder = self.layout.election(election);
        let refused = |error| failure("write", "make", &folder, error);
        make_folder(&folder).map_err(refused)?;
        if !numbers_in(&folder).map_err(refused)?.is_empty() {
            return Ok(Written::Conflict);
        }
        self.commit(&folder, 1, 0, bytes)
    }

    /// Writes the record after `over`, if that is the present one, as it was read.
    pub(super) fn replace(
        &self,
        election: &ElectionName,
        bytes: Vec<u8>,
        over: &Revision,
    ) -> Result<Written, StoreError> {
        let folder = self.layout.election(election);
        let Some((number, checksum)) = parts(over) else {
            return Ok(Written::Conflict);
        };
        // A directory that was replaced, a record that was removed or edited by hand: looking again tells.
        if !self.is_in_place("write")? {
            return Ok(Written::Conflict);
        }
        let path = folder.join(number_name(number));
        match fs::read(&path) {
            Ok(content) if Stored::decode(&content).is_ok_and(|stored| stored.checksum == checksum) => {}
            Ok(_) => return Ok(Written::Conflict),
            Err(error) if is_gone(&error) => return Ok(Written::Conflict),
            Err(error) => return Err(failure("write", "read", &path, error)),
        }
        match number.checked_add(1) {
            Some(next) => self.commit(&folder, next, checksum, bytes),
            None => Err(corrupt("write", election, &path, "its number is the last one there is")),
        }
    }

    /// Puts a record into place under `number`, if nobody has and none is above it.
    pub(super) fn commit(
        &self,
        folder: &Path,
        number: u64,
        over: u64,
        bytes: Vec<u8>,
    ) -> Result<Written, StoreError> {
        // Before the write, however long that takes: the holder's own trust began before it, too.
        let stamp = self.clock.now().boot();
        let by = self.next_draft()?;
        let draft = self.layout.scratch.join(&by);
        let stored = Stored::new(stamp, over, by, bytes);
        let path = folder.join(number_name(number));
        let linked = write_draft(&draft, &stored.encode())
            .map_err(|error| failure("write", "write", &draft, error))
            .and_then(|()| match fs::hard_link(&draft, &path) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(failure("write", "put into place", &path, error)),
            });
        let _ = fs::remove_file(&draft);
        if !linked? {
            return Ok(Written::Conflict);
        }
        let numbers = numbers_in(folder).map_err(|error| unknown("write", "look into", folder, error))?;
        if numbers.last() != Some(&number) && !is_built_on(folder, number, stored.checksum) {
            // Void. Or it counted and so many came since that nothing tells: then looking again does.
            return Ok(Written::Conflict);
        }
        for old in &numbers[..numbers.len().saturating_sub(KEPT)] {
            let _ = fs::remove_file(folder.join(number_name(*old)));
        }
        Ok(Written::Written(revision(number, stored.checksum)))
    }
}

/// Tells whether the record after `number` replaced the one with this checksum.
pub(super) fn is_built_on(folder: &Path, number: u64, checksum: u64) -> bool {
    let next = number.checked_add(1).map(|next| folder.join(number_name(next)));
    let content = next.and_then(|next| fs::read(next).ok());
    content.is_some_and(|content| Stored::decode(&content).is_ok_and(|next| next.over == checksum))
}

fn write_draft(draft: &Path, content: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?.write_all(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_back_and_nothing_that_was_touched() {
        let stored =
            Stored::new(Duration::from_nanos(12_345), 0xfe, "1-ab.0".into(), br#"{"a":"b"}"#.to_vec());
        let content = stored.encode();
        assert_eq!(Stored::decode(&content).unwrap(), stored);
        for length in 0..content.len() {
            assert!(Stored::decode(&content[..length]).is_err(), "cut to {length}");
        }
        for place in 0..content.len() {
            for flip in [1, 0x20, 0x80] {
                let mut touched = content.clone();
                touched[place] ^= flip;
                assert!(Stored::decode(&touched).is_err(), "byte {place} ^ {flip}");
            }
        }
        assert!(Stored::decode(&[content.clone(), b"x".to_vec()].concat()).is_err());
        assert!(Stored::decode(&vec![0; 4096]).is_err());
        let future = String::from_utf8(content).unwrap().replacen("tenure 1", "tenure 2", 1);
        assert!(Stored::decode(future.as_bytes()).unwrap_err().contains("upgrade"));
    }

    #[test]
    fn a_revision_is_read_back() {
        assert_eq!(parts(&revision(7, 0xfe)), Some((7, 0xfe)));
        for broken in ["", "7", "-", "x-1", "7-x"] {
            assert_eq!(parts(&Revision(broken.into())), None);
        }
    }
}
