//! Which file is read: the one that was named, else the one in this directory, else the one of this machine.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::mistake::{Mistake, Place, Text};
use crate::parse::{FORMATS, Format};
use crate::sources::Sources;

/// Larger files are no configurations.
const LARGEST: u64 = 1024 * 1024;

/// A file that was found, and how it is written.
pub(crate) type Found = (Text, Format);

/// Finds the file and reads it; `None` if there is none.
pub(crate) fn find(sources: &Sources) -> Result<Option<Found>, Mistake> {
    if let Some(path) = &sources.file {
        return open(path, "--config").map(Some);
    }
    if let Some(path) = sources.environment.get("TENURE_CONFIG") {
        return open(Path::new(path), "TENURE_CONFIG").map(Some);
    }
    let here = FORMATS.iter().map(|(end, _)| sources.here().join(format!("tenure.{end}")));
    let here = only(here.filter(|path| path.is_file()).collect())?;
    let path = match here {
        Some(path) => Some(path),
        None => only(known_in(&sources.system))?,
    };
    path.map(|path| open(&trusted(path)?, "")).transpose()
}

fn known_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| Format::of(path).is_some() && path.is_file())
        .collect();
    paths.sort();
    paths
}

fn only(mut found: Vec<PathBuf>) -> Result<Option<PathBuf>, Mistake> {
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let names: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
    let message = format!("there is more than one configuration: {}", names.join(", "));
    Err(Mistake::new(Place::Nowhere, message)
        .hint("keep one of them, or name one with --config or TENURE_CONFIG"))
}

/// A file that nobody named is obeyed only if nobody else can have written it: it names commands, and stores.
fn trusted(path: PathBuf) -> Result<PathBuf, Mistake> {
    let me = rustix::process::geteuid().as_raw();
    // One that cannot be looked at cannot be read either, which is said then.
    let Ok(file) = fs::metadata(&path) else { return Ok(path) };
    let problem = if file.uid() != me && file.uid() != 0 {
        format!("it belongs to user {}, and this process runs as user {me}", file.uid())
    } else if file.mode() & 0o002 != 0 {
        format!("everybody may write it (mode {:03o})", file.mode() & 0o777)
    } else {
        return Ok(path);
    };
    let place = Place::File { path, excerpt: None };
    Err(Mistake::new(place, format!("this file was found, not named, and {problem}"))
        .hint("name it with --config or TENURE_CONFIG if it is meant"))
}

pub(crate) fn open(path: &Path, named_by: &str) -> Result<Found, Mistake> {
    let place = || Place::File { path: path.to_owned(), excerpt: None };
    let by = if named_by.is_empty() { String::new() } else { format!(" (named by {named_by})") };
    let wrong = |message: String| Mistake::new(place(), format!("{message}{by}"));
    if path.as_os_str().is_empty() {
        return Err(Mistake::new(
            Place::Name(named_by.to_owned()),
            "it names no file: name one, or leave it out",
        ));
    }
    let Some(format) = Format::of(path) else {
        let ends: Vec<_> = FORMATS.iter().map(|(end, _)| format!(".{end}")).collect();
        return Err(wrong("the end of its name does not tell how it is written".to_owned())
            .hint(format!("give it one of {}", ends.join(", "))));
    };
    let cannot = |error: io::Error| wrong(format!("this file cannot be read: {error}"));
    let metadata = fs::metadata(path).map_err(cannot)?;
    if metadata.is_dir() {
        return Err(wrong("this is a directory: name a file".to_owned()));
    }
    if !metadata.is_file() {
        return Err(wrong("this is no file that can be read to its end: name a plain one".to_owned()));
    }
    if metadata.len() > LARGEST {
        return Err(wrong("this file is larger than 1 MiB: it is no configuration".to_owned()));
    }
    let bytes = fs::read(path).map_err(cannot)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1;
        wrong(format!("line {line} is no text in UTF-8: save the file as UTF-8"))
    })?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    Ok((Text::new(path, text), format))
}
