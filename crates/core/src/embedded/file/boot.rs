//! One boot of one machine at a time lives in a directory.
//!
//! Records stand in a folder per boot, because stamps of two boots cannot be compared and because nobody survives a
//! reboot: the new boot begins with nobody leading, and never reads what a power cut tore. But containers on one
//! kernel can be given boot ids of their own. Two of them on one directory would lead side by side, each in a folder
//! of its own, for ever; so the second one is refused.
//!
//! Nobody waits for anybody here: everyone first shows that he lives in his boot's folder and then looks who lives in
//! the others. Of two that come at the same time at least one sees the other. (One exclusive lock over the switch
//! would do as well, until a process is stopped while it holds it: then nobody could open the store any more.)

use std::fs;
use std::io;
use std::path::Path;

use super::failure::{failure, invalid, is_gone};
use super::layout::{Layout, entries};
use super::life::{Life, anybody_lives};
use crate::random::Random;
use crate::store::StoreError;

/// How often entering begins anew because somebody of another boot moved our folder away at the same time.
const TRIES: usize = 16;

/// Enters the folder of this boot, if nobody lives in another's, and removes those.
pub(super) fn enter(layout: &Layout, random: &Random) -> Result<Life, StoreError> {
    for _ in 0..TRIES {
        layout
            .make_folders()
            .map_err(|(folder, error)| failure("open", "make the folder", &folder, error))?;
        let life = match Life::begin(&layout.openers, random) {
            Ok(life) => life,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(failure("open", "begin a file in", &layout.openers, error)),
        };
        // Shown first, looked afterwards: see above.
        if let Err(refused) = leave_other_boots(layout, random) {
            life.abandon();
            return Err(refused);
        }
        match life.is_in_place() {
            Ok(true) => {
                empty_trash(layout);
                return Ok(life);
            }
            Ok(false) => {}
            Err(error) => return Err(failure("open", "look at", &layout.openers, error)),
        }
    }
    Err(two_boots(layout, "another one"))
}

/// Refuses if somebody lives in another boot's folder: what he writes is not seen from here.
pub(super) fn look(layout: &Layout) -> Result<(), StoreError> {
    let looking = |error: io::Error| failure("open", "look into", &layout.boots, error);
    for name in entries(&layout.boots).map_err(looking)? {
        let ours = name.to_str() == Some(layout.boot_id.as_str());
        if !ours && anybody_lives(&layout.boots.join(&name).join("openers")).map_err(looking)? {
            return Err(two_boots(layout, &name.to_string_lossy()));
        }
    }
    Ok(())
}

fn leave_other_boots(layout: &Layout, random: &Random) -> Result<(), StoreError> {
    let looking = |error: io::Error| failure("open", "look into", &layout.boots, error);
    for name in entries(&layout.boots).map_err(looking)? {
        if name.to_str() == Some(layout.boot_id.as_str()) {
            continue;
        }
        let folder = layout.boots.join(&name);
        if anybody_lives(&folder.join("openers")).map_err(looking)? {
            return Err(two_boots(layout, &name.to_string_lossy()));
        }
        // Whoever enters it from now on sees us. Moved in one step, so that nobody reads half of it.
        let mut unique = name;
        unique.push(format!(".{:032x}", random.next_u128()));
        match fs::rename(&folder, layout.trash.join(unique)) {
            Err(error) if !is_gone(&error) => return Err(failure("open", "remove", &folder, error)),
            _ => {}
        }
    }
    Ok(())
}

fn empty_trash(layout: &Layout) {
    for name in entries(&layout.trash).unwrap_or_default() {
        // Nobody reads it; what cannot be removed now is removed by the next who opens the store.
        let path = layout.trash.join(name);
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
}

fn two_boots(layout: &Layout, other: &str) -> StoreError {
    invalid(
        "open",
        format!(
            "two boot ids on one directory: {} is in use under boot id {other}, this process has {}; \
             processes that see different boot ids (containers can) cannot tell each other's leases, so only one boot \
             may use it at a time: give each its own directory, or a store that they reach over the network",
            layout.top.display(),
            layout.boot_id
        ),
    )
}

/// Reads the kernel's name for this boot.
pub(in crate::embedded) fn boot_id() -> Result<String, StoreError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|error| failure("open", "read", path, error))?;
    checked(text.trim())
}

/// Takes a boot id that can name a folder.
pub(super) fn checked(boot_id: &str) -> Result<String, StoreError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if boot_id.is_empty() || boot_id.len() > 64 || !boot_id.bytes().all(plain) {
        return Err(invalid(
            "open",
            format!(
                "boot id {boot_id:?} is not 1 to 64 letters, digits and hyphens: \
                 look at /proc/sys/kernel/random/boot_id"
            ),
        ));
    }
    Ok(boot_id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ErrorKind;

    fn layout(top: &Path, boot_id: &str) -> Layout {
        Layout::new(top.into(), boot_id.into())
    }

    #[test]
    fn a_second_boot_is_refused_while_the_first_lives_and_takes_over_afterwards() {
        let top = tempfile::tempdir().unwrap();
        let random = Random::from_os();
        let (first, second) = (layout(top.path(), "first"), layout(top.path(), "second"));
        let life = enter(&first, &random).unwrap();
        let same = enter(&first, &random).unwrap();

        let refused = enter(&second, &random).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        for word in ["two boot ids on one directory", "first", "second"] {
            assert!(refused.to_string().contains(word), "{refused}");
        }
        assert!(life.is_in_place().unwrap(), "the refused one changes nothing");
        assert_eq!(entries(&second.openers).unwrap().len(), 0);

        drop(life);
        assert!(enter(&second, &random).is_err(), "one of the first boot still lives");
        drop(same);
        let life = enter(&second, &random).unwrap();
        assert_eq!(entries(&first.boots).unwrap(), ["second"], "the old folder is gone");
        assert_eq!(entries(&first.trash).unwrap().len(), 0);
        assert!(enter(&first, &random).is_err());
        assert!(life.is_in_place().unwrap());
    }

    #[test]
    fn of_two_boots_that_come_at_the_same_time_never_both_enter() {
        let top = tempfile::tempdir().unwrap();
        let random = Random::from_os();
        let boots = [layout(top.path(), "first"), layout(top.path(), "second")];
        for _ in 0..200 {
            let barrier = std::sync::Barrier::new(2);
            let lives = std::thread::scope(|scope| {
                let enter = |layout| {
                    let (barrier, random) = (&barrier, &random);
                    move || {
                        barrier.wait();
                        enter(layout, random).ok()
                    }
                };
                let other = scope.spawn(enter(&boots[1]));
                let one = enter(&boots[0])();
                [one, other.join().unwrap()]
            });
            let count = lives.iter().flatten().count();
            assert!(count < 2, "both entered");
            assert!(lives.iter().flatten().all(|life| life.is_in_place().unwrap()));
        }
        enter(&boots[0], &random).unwrap();
    }

    #[test]
    fn many_of_one_boot_that_find_an_old_folder_all_enter() {
        let top = tempfile::tempdir().unwrap();
        let random = Random::from_os();
        for round in 0..20 {
            drop(enter(&layout(top.path(), &format!("old-{round}")), &random).unwrap());
            let new = layout(top.path(), &format!("new-{round}"));
            let lives: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| enter(&new, &random))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
            });
            assert!(lives.iter().all(|life| life.is_in_place().unwrap()));
        }
    }

    #[test]
    fn a_boot_id_that_cannot_name_a_folder_is_refused() {
        for broken in ["", "..", "a/b", "ü", &"x".repeat(65)] {
            assert!(checked(broken).unwrap_err().to_string().contains("boot id"), "{broken}");
        }
        assert_eq!(boot_id().unwrap(), boot_id().unwrap());
    }
}
