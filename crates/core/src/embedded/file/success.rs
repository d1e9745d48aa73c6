//! Successful ends that outlive the boot: a job with a shortest interval must not run again because of a restart.
//!
//! Records are of one boot, and so are their ages. What is kept here is the wall clock's time, the only one that goes on
//! over a reboot, in a file that is named after the term's token: the highest counts, and nobody needs a lock.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::layout::{folder_of, make_folder, number_name, numbers_in};
use super::place::sync_folder;
use crate::name::ElectionName;
use crate::token::FencingToken;

/// Notes that the term `token` ended with success at `wall`. `draft` is a file that nobody else writes to.
pub(super) fn note(
    root: &Path,
    election: &ElectionName,
    token: FencingToken,
    wall: SystemTime,
    draft: &Path,
) -> io::Result<()> {
    let folder = folder_of(root, election);
    make_folder(&folder)?;
    let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut file = File::create(draft)?;
    file.write_all(since.as_millis().to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(draft, folder.join(number_name(token.0)))?;
    folder.ancestors().take_while(|folder| folder.starts_with(root)).try_for_each(sync_folder)?;
    for lower in numbers_in(&folder)?.into_iter().filter(|number| *number < token.0) {
        let _ = fs::remove_file(folder.join(number_name(lower)));
    }
    Ok(())
}

/// Returns how long before `wall` a term ended with success. A time that lies ahead, or cannot be read, is none: the
/// clock was set, and a job runs rather twice than never.
pub(super) fn age(root: &Path, election: &ElectionName, wall: SystemTime) -> io::Result<Option<Duration>> {
    let folder = folder_of(root, election);
    let Some(newest) = numbers_in(&folder)?.last().copied() else { return Ok(None) };
    let text = fs::read_to_string(folder.join(number_name(newest)))?;
    let at = text.parse().ok().and_then(|ms| SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    Ok(at.and_then(|at| wall.duration_since(at).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_token_counts_and_a_time_ahead_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let (root, draft) = (directory.path().join("success"), directory.path().join("draft"));
        let election = ElectionName::new("nightly/report").unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(age(&root, &election, at(0)).unwrap(), None);
        note(&root, &election, FencingToken(7), at(100), &draft).unwrap();
        // Noted late, by somebody who was stopped meanwhile.
        note(&root, &election, FencingToken(3), at(90), &draft).unwrap();
        assert_eq!(age(&root, &election, at(160)).unwrap(), Some(Duration::from_secs(60)));
        assert_eq!(age(&root, &election, at(99)).unwrap(), None);
        note(&root, &election, FencingToken(9), at(200), &draft).unwrap();
        assert_eq!(numbers_in(&folder_of(&root, &election)).unwrap(), [9]);
        fs::write(folder_of(&root, &election).join(number_name(10)), "soon").unwrap();
        assert_eq!(age(&root, &election, at(300)).unwrap(), None);
    }
}
