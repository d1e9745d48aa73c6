//! `tenure token check`: a fence for scripts.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use tenure::{ClockExt, Fence, FenceError, FencingToken, FileStore, SystemClock};

use crate::control::args::CheckArgs;
use crate::reading::{self, Failure, Verdict};
use crate::{duration, talk};

/// A file name has room for 255 bytes, and a fence adds its own endings.
const LONGEST: usize = 200;

#[derive(Serialize)]
struct Told<'a> {
    resource: &'a str,
    token: FencingToken,
    /// The highest token that has been here.
    highest: FencingToken,
    is_highest: bool,
}

pub(crate) fn main(args: &CheckArgs) -> ExitCode {
    reading::conclude(
        || open(args),
        async |fence: &Fence, output| {
            let token = FencingToken(args.last);
            let highest = tokio::select! {
                biased;
                answer = fence.guard_async(token, std::future::ready(())) => match answer {
                    Ok(()) => token,
                    Err(FenceError::Refused { highest, .. }) => highest,
                    Err(error) => return Err(error.into()),
                },
                () = SystemClock.sleep(args.call_timeout) => {
                    let waited = duration::show(args.call_timeout);
                    let message = format!("another write that the fence let in has not ended within {waited}");
                    return Err(Failure::Unavailable(message));
                }
            };
            let is_highest = highest == token;
            if !is_highest {
                talk::say(&format!(
                    "token {token} is refused, {highest} has been here: a newer leader writes, stop"
                ));
            }
            if args.json {
                reading::write_json(output, &Told { resource: &args.resource, token, highest, is_highest })?;
            } else if is_highest {
                writeln!(output, "{token}")?;
            }
            Ok(if is_highest { Verdict::Yes } else { Verdict::No })
        },
    )
}

fn open(args: &CheckArgs) -> Result<Fence, Failure> {
    let name = file_name(&args.resource)?;
    let directory = match &args.directory {
        Some(directory) => directory.clone(),
        None => FileStore::default_directory()?.join("fences"),
    };
    make(&directory)?;
    Ok(Fence::open(directory.join(name))?)
}

fn make(directory: &Path) -> Result<(), Failure> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|source| {
        Failure::Fence(FenceError::Io { step: "make the directory", path: PathBuf::from(directory), source })
    })
}

/// Letters, digits and hyphens stand for themselves, every other byte for its number: one file per name.
fn file_name(resource: &str) -> Result<String, Failure> {
    let mut name = String::new();
    for byte in resource.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' {
            name.push(char::from(byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(name, "%{byte:02x}");
        }
    }
    let message = if resource.trim().is_empty() {
        format!("resource name {resource:?} is blank")
    } else if name.len() > LONGEST {
        let shown: String = resource.chars().take(40).collect();
        format!("resource name {:?} is too long for the name of a file", format!("{shown}…"))
    } else {
        return Ok(name);
    };
    Err(Failure::Usage { message, hint: "name it in up to 200 letters, digits and hyphens, such as bills" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_names_are_two_files() {
        let names = ["a", "A", "a/b", "a%2fb", "a.b", "größe"].map(|name| file_name(name).unwrap());
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert_eq!(names[2], "a%2fb");
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_a_way_out() {
        for name in ["", " ", &"/".repeat(100)] {
            assert!(matches!(file_name(name), Err(Failure::Usage { .. })), "{name}");
        }
    }
}
