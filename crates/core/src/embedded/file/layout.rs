//! Where things stand inside the store's directory.
//!
//! ```text
//! boots/<boot id>/openers/<life>            one for every open store, locked while it is open
//! boots/<boot id>/lives/<life>              the same file once more, for those whose life a record names
//! boots/<boot id>/lives/<life>.<seconds>    found dead at that second of the boot clock
//! boots/<boot id>/scratch/<life>.<n>        a record that is being written
//! boots/<boot id>/elections/<name>/<n>      the n-th record of an election
//! tokens/<name>/<n>                         no token above n was granted; outlives the boot
//! successes/<name>/<n>                      when term n ended with success; outlives the boot
//! trash/                                    folders of earlier boots, on their way out
//! ```

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::failure::is_gone;
use crate::name::ElectionName;

/// The paths of one open store; all of them absolute, so that a change of the working directory moves nothing.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) top: PathBuf,
    pub(super) boots: PathBuf,
    pub(super) boot_id: String,
    pub(super) openers: PathBuf,
    pub(super) lives: PathBuf,
    pub(super) scratch: PathBuf,
    pub(super) elections: PathBuf,
    pub(super) tokens: PathBuf,
    pub(super) successes: PathBuf,
    pub(super) trash: PathBuf,
}

impl Layout {
    pub(super) fn new(top: PathBuf, boot_id: String) -> Self {
        let boots = top.join("boots");
        let boot = boots.join(&boot_id);
        Self {
            openers: boot.join("openers"),
            lives: boot.join("lives"),
            scratch: boot.join("scratch"),
            elections: boot.join("elections"),
            tokens: top.join("tokens"),
            successes: top.join("successes"),
            trash: top.join("trash"),
            boots,
            boot_id,
            top,
        }
    }

    /// Makes every folder that is not there yet.
    pub(super) fn make_folders(&self) -> Result<(), (PathBuf, io::Error)> {
        for folder in [&self.openers, &self.lives, &self.scratch, &self.elections, &self.tokens, &self.trash]
        {
            make_folder(folder).map_err(|error| (folder.clone(), error))?;
        }
        Ok(())
    }

    pub(super) fn election(&self, election: &ElectionName) -> PathBuf {
        folder_of(&self.elections, election)
    }
}

/// Makes a folder and those above it, for this user alone.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A file name has room for 255 bytes, an encoded election name may need 765: longer ones go over several folders.
const PART: usize = 200;

/// Ends the parts of a name that are continued; no encoded name contains it.
const CONTINUED: char = '+';

/// Returns the folder of an election below `root`: one to one, and readable for people.
pub(super) fn folder_of(root: &Path, election: &ElectionName) -> PathBuf {
    let mut encoded = String::new();
    for byte in election.as_str().bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    let mut folder = root.to_path_buf();
    let mut rest = encoded.as_str();
    while rest.len() > PART {
        let (part, more) = rest.split_at(PART);
        folder.push(format!("{part}{CONTINUED}"));
        rest = more;
    }
    folder.push(rest);
    folder
}

fn decode(encoded: &str) -> Option<ElectionName> {
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        if first == b'%' {
            let digits = std::str::from_utf8(more.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &more[2..];
        } else {
            bytes.push(first);
            rest = more;
        }
    }
    ElectionName::new(String::from_utf8(bytes).ok()?).ok()
}

/// Returns the elections below `root` whose names begin with `prefix`, in order, with their folders.
pub(super) fn names_in(root: &Path, prefix: &str) -> io::Result<Vec<(ElectionName, PathBuf)>> {
    let mut found = Vec::new();
    collect(root, root, "", prefix, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(
    root: &Path,
    folder: &Path,
    begun: &str,
    prefix: &str,
    found: &mut Vec<(ElectionName, PathBuf)>,
) -> io::Result<()> {
    for entry in entries(folder)? {
        let Some(part) = entry.to_str() else { continue };
        let path = folder.join(part);
        if let Some(part) = part.strip_suffix(CONTINUED) {
            collect(root, &path, &format!("{begun}{part}"), prefix, found)?;
        } else if let Some(name) = decode(&format!("{begun}{part}")) {
            // What we would not have called so was not made by us.
            if name.as_str().starts_with(prefix) && folder_of(root, &name) == path {
                found.push((name, path));
            }
        }
    }
    Ok(())
}

/// Returns the names in a folder; none if there is no folder.
///
/// The kernel answers for a folder of this size in one call, during which nothing in it changes: a listing shows one
/// moment.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<std::ffi::OsString>> {
    match fs::read_dir(folder) {
        Err(error) if is_gone(&error) => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.file_name())).collect(),
    }
}

/// Writes a number so that its file name has the length of every other.
pub(super) fn number_name(number: u64) -> String {
    format!("{number:020}")
}

fn number_of(name: &OsStr) -> Option<u64> {
    let name = name.to_str()?;
    let plain = name.len() == 20 && name.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| name.parse().ok()).flatten()
}

/// Returns the numbers that name files in a folder, in order; other names are not ours and not looked at.
pub(super) fn numbers_in(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers: Vec<u64> = entries(folder)?.iter().filter_map(|name| number_of(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> ElectionName {
        ElectionName::new(name).unwrap()
    }

    #[test]
    fn every_name_has_its_own_folder_and_is_read_back_from_it() {
        let root = tempfile::tempdir().unwrap();
        let long = ["x".repeat(255), "ü".repeat(127), format!("{}b", "x".repeat(200)), "x".repeat(200)];
        let mut names: Vec<_> =
            ["a", "A", "a b", "größe/ü:*{}", ".", "..", "a/b", "a%2Fb", "%", "+", "a+", "-", "日本"]
                .into_iter()
                .chain(long.iter().map(String::as_str))
                .map(name)
                .collect();
        for name in &names {
            make_folder(&folder_of(root.path(), name)).unwrap();
        }
        names.sort();
        let found: Vec<_> = names_in(root.path(), "").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(found, names);
        let begun: Vec<_> = names_in(root.path(), "a").unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(begun, ["a", "a b", "a%2Fb", "a+", "a/b"].map(name));
    }

    #[test]
    fn foreign_folders_are_no_elections() {
        let root = tempfile::tempdir().unwrap();
        for foreign in ["a b", "%2f", "%zz", "%4", "%41", "%FF", "%0A"] {
            fs::create_dir(root.path().join(foreign)).unwrap();
        }
        assert_eq!(names_in(root.path(), "").unwrap(), []);
    }

    #[test]
    fn only_whole_numbers_count() {
        let root = tempfile::tempdir().unwrap();
        for file in [
            "00000000000000000012",
            "00000000000000000003",
            "18446744073709551615",
            "18446744073709551616",
            "3",
            "+0000000000000000003",
            "00000000000000000003~",
        ] {
            fs::write(root.path().join(file), "").unwrap();
        }
        assert_eq!(numbers_in(root.path()).unwrap(), [3, 12, u64::MAX]);
        assert_eq!(numbers_in(&root.path().join("missing")).unwrap(), [0u64; 0]);
    }
}
