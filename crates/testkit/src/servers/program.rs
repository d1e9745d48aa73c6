//! The programs that tests start.

use std::env;
use std::path::{Path, PathBuf};

/// A program of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    name: String,
    path: PathBuf,
}

impl Program {
    /// Finds a program: where the environment variable `variable` says, on the search path, or where `scripts/setup`
    /// unpacks servers that the system has no package of.
    ///
    /// # Panics
    /// If it is nowhere, with what to do.
    #[must_use]
    pub fn find(name: &str, variable: &str) -> Self {
        match Self::look(name, variable) {
            Some(path) => Self { name: name.to_owned(), path },
            None => panic!("{name} is missing: run scripts/setup"),
        }
    }

    fn look(name: &str, variable: &str) -> Option<PathBuf> {
        if let Some(path) = env::var_os(variable) {
            // Who names a program wants that one and no other.
            return Some(PathBuf::from(path)).filter(|path| path.is_file());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        let on_path = env::split_paths(&path).map(|folder| folder.join(name));
        on_path.chain(unpacked(name)).find(|path| path.is_file())
    }

    /// Returns what it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Where `scripts/setup` may have put it: `<servers>/<server>/usr/bin/<name>`.
fn unpacked(name: &str) -> Vec<PathBuf> {
    let servers = env::var_os("TENURE_SERVERS").map(PathBuf::from).or_else(|| {
        let cache = env::var_os("XDG_CACHE_HOME").filter(|cache| !cache.is_empty()).map(PathBuf::from);
        let cache = cache.or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".cache")))?;
        Some(cache.join("tenure/servers"))
    });
    let Some(entries) = servers.and_then(|servers| servers.read_dir().ok()) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().join("usr/bin").join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(Program::find("setpriv", "TENURE_TEST_UNSET").path().is_absolute());
    }

    #[test]
    #[should_panic(expected = "no-such-server is missing: run scripts/setup")]
    fn a_missing_program_fails_and_says_what_to_do() {
        let _ = Program::find("no-such-server", "TENURE_TEST_UNSET");
    }
}
