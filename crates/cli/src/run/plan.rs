//! From what was typed to what will be done: everything that can be refused is refused here, before anything happens.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::config::{Config, Election};
use tenure::elector::Timing;
use tenure::store::LeaseStore;
use tenure::{ElectionName, Settings, StoreUrl};

use crate::args::{Isolate, RunArgs};
use crate::config;
use crate::exit;
use crate::talk;

/// What will be done.
pub(super) struct Plan {
    pub(super) election: ElectionName,
    pub(super) url: StoreUrl,
    /// The URL as it was given, for whoever opens the store once more.
    pub(super) url_given: String,
    pub(super) store: Arc<dyn LeaseStore>,
    /// Shows others that this process lives; the guardian keeps it open until all work has ended.
    pub(super) life: Option<OwnedFd>,
    pub(super) settings: Settings,
    pub(super) timing: Timing,
    pub(super) command: Vec<OsString>,
    pub(super) isolate: Isolate,
    pub(super) once: bool,
    /// How long to wait for the first election.
    pub(super) wait: Option<Duration>,
    pub(super) min_interval: Option<Duration>,
    pub(super) failover_on_crash: bool,
    pub(super) interactive: bool,
    pub(super) on_lost: Option<String>,
    pub(super) on_leader_change: Option<String>,
    pub(super) verbose: bool,
    /// What is no mistake but should be said.
    pub(super) warnings: Vec<String>,
}

/// Why nothing is done, and the exit code.
pub(super) struct Refusal {
    pub(super) code: u8,
    pub(super) text: String,
    pub(super) hint: Option<String>,
}

impl Refusal {
    pub(super) fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), hint: None }
    }

    /// What is said of it.
    pub(super) fn lines(&self) -> Vec<String> {
        let hint = self.hint.iter().map(|hint| format!("hint: {hint}"));
        [format!("error: {}", self.text)].into_iter().chain(hint).collect()
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl Plan {
    pub(super) fn from(args: &RunArgs) -> Result<Self, Refusal> {
        let failure = |error: &dyn std::error::Error| Refusal::new(exit::FAILURE, talk::chain(error));
        let config = Config::load(&config::of_run(args)).map_err(|error| failure(&error))?;
        let chosen = config.election().map_err(|error| failure(&error))?;
        let command = command(args, chosen)?;
        let url: StoreUrl = chosen.store().url().parse().map_err(|error| failure(&error))?;
        let url = url.resolved().map_err(|error| failure(&error))?;
        let settings = chosen.settings();
        let (store, life) = open(&url)?;
        let timing = settings.resolve(&store.guarantees()).map_err(|error| failure(&error))?;
        Ok(Self {
            election: chosen.name().clone(),
            url,
            url_given: chosen.store().url().to_owned(),
            store,
            life,
            settings,
            timing,
            command: with_hook(chosen.on_elected(), command),
            isolate: Isolate::named(chosen.isolate()),
            once: chosen.once(),
            wait: chosen.wait(),
            min_interval: chosen.min_interval(),
            failover_on_crash: chosen.failover_on_crash(),
            interactive: args.interactive,
            on_lost: chosen.on_lost().map(str::to_owned),
            on_leader_change: chosen.on_leader_change().map(str::to_owned),
            verbose: chosen.verbose(),
            warnings: config.warnings().iter().map(ToString::to_string).collect(),
        })
    }
}

/// Returns what was typed, else what the configuration says; what cannot be run is refused.
pub(super) fn command(args: &RunArgs, chosen: &Election) -> Result<Vec<OsString>, Refusal> {
    let configured = || chosen.command().unwrap_or_default().iter().map(OsString::from).collect();
    let command: Vec<OsString> = if args.command.is_empty() { configured() } else { args.command.clone() };
    let Some(program) = command.first() else {
        let name = chosen.name().as_str();
        return Err(Refusal::new(exit::FAILURE, format!("election {name:?} has no command")).hint(
            "write it after --, as in: tenure run --election NAME -- COMMAND, or into the configuration",
        ));
    };
    find(program)?;
    Ok(command)
}

fn open(url: &StoreUrl) -> Result<(Arc<dyn LeaseStore>, Option<OwnedFd>), Refusal> {
    let failure = |error: tenure::store::StoreError| Refusal::new(exit::FAILURE, talk::chain(&error));
    match url.open_file() {
        Some(file) => {
            let file = file.map_err(failure)?;
            let life = file.life_file().map_err(failure)?;
            Ok((Arc::new(file), Some(life)))
        }
        None => Ok((url.open().map_err(failure)?, None)),
    }
}

/// Puts the hook for the elected in front of the command: it is work of the term, and ends with it.
fn with_hook(on_elected: Option<&str>, command: Vec<OsString>) -> Vec<OsString> {
    let Some(hook) = on_elected else { return command };
    let script = r#"sh -c "$1" || exit; shift; exec "$@""#;
    let before = ["sh", "-c", script, "tenure", hook];
    before.iter().map(OsString::from).chain(command).collect()
}

/// Finds the command as the kernel will: reported now, not after being elected.
fn find(command: &OsStr) -> Result<(), Refusal> {
    let places: Vec<PathBuf> = if command.as_bytes().contains(&b'/') {
        vec![PathBuf::from(command)]
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(command)).collect()
    };
    if places.iter().any(|place| is_executable(place)) {
        return Ok(());
    }
    let shown = command.to_string_lossy();
    if let Some(place) = places.iter().find(|place| place.exists()) {
        let what = if place.is_dir() { "a directory" } else { "not executable" };
        return Err(Refusal::new(exit::NOT_EXECUTABLE, format!("{} is {what}", place.display()))
            .hint("name a program, or make it executable with chmod +x"));
    }
    let refusal = Refusal::new(exit::NOT_FOUND, format!("there is no command {shown:?}"));
    Err(if command.as_bytes().contains(&b' ') {
        refusal.hint("for a line of shell write: -- sh -c '…'")
    } else if command.as_bytes().contains(&b'/') {
        refusal.hint("check the path")
    } else {
        refusal.hint("check the spelling and PATH, or write its whole path")
    })
}

fn is_executable(place: &Path) -> bool {
    place.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_as_the_kernel_does() {
        assert!(find(OsStr::new("sh")).is_ok());
        assert!(find(OsStr::new("/bin/sh")).is_ok());
        for (command, code) in
            [("/", exit::NOT_EXECUTABLE), ("no such command", exit::NOT_FOUND), ("/no/such", exit::NOT_FOUND)]
        {
            let refusal = find(OsStr::new(command)).unwrap_err();
            assert!(refusal.code == code && refusal.hint.is_some(), "{command}: {}", refusal.text);
        }
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        assert_eq!(find(plain.as_os_str()).unwrap_err().code, exit::NOT_EXECUTABLE);
    }
}
