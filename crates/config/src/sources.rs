//! Where a configuration is looked for.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The variables of the environment that are text.
pub(crate) type Environment = BTreeMap<String, String>;

/// A rule for the URL of a store: says what is wrong with it, without its secrets.
pub type StoreRule = fn(&str) -> Result<(), String>;

/// Where a configuration is looked for: flags before the environment before a file.
#[derive(Clone)]
pub struct Sources {
    pub(crate) flags: BTreeMap<String, String>,
    pub(crate) election: Option<String>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) environment: Environment,
    pub(crate) directory: PathBuf,
    pub(crate) system: PathBuf,
    pub(crate) store_rule: StoreRule,
}

impl Sources {
    /// Begins with nothing: no environment, and files in `directory` alone.
    #[must_use]
    pub fn nothing(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        Self {
            flags: BTreeMap::new(),
            election: None,
            file: None,
            environment: Environment::new(),
            system: directory.join("etc"),
            directory,
            store_rule: |_| Ok(()),
        }
    }

    /// Begins with the environment of this process, its directory, and `/etc/tenure`.
    #[must_use]
    pub fn of_process() -> Self {
        // What is no text is none of ours.
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            environment: std::env::vars_os().filter_map(text).collect(),
            system: PathBuf::from("/etc/tenure"),
            ..Self::nothing("")
        }
    }

    /// Takes this file and looks for no other.
    #[must_use]
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Takes a flag, by the setting's name.
    #[must_use]
    pub fn flag(mut self, name: &str, text: impl Into<String>) -> Self {
        self.flags.insert(name.to_owned(), text.into());
        self
    }

    /// Takes the name of the election, as a flag gives it.
    #[must_use]
    pub fn election(mut self, name: impl Into<String>) -> Self {
        self.election = Some(name.into());
        self
    }

    /// Sets a variable, as if the environment had it.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Checks each store's URL by this rule.
    #[must_use]
    pub fn store_rule(mut self, rule: StoreRule) -> Self {
        self.store_rule = rule;
        self
    }

    /// Returns the directory in which files are looked for first.
    pub(crate) fn here(&self) -> &Path {
        &self.directory
    }
}

/// Environment and flags may hold passwords.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("flags", &self.flags.keys().collect::<Vec<_>>())
            .field("election", &self.election)
            .field("file", &self.file)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}
