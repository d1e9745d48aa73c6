//! A directory for everything that a demonstration makes, and the processes that it started.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tenure::{Clock, SystemClock};

/// Far beyond what anything here takes: a test that waits this long hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    top: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self { top: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.top.path()
    }

    /// Prepares a program that makes its temporary directories here, untouched by the environment of the test.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for name in ["TENURE_STORE", "TENURE_DIR", "XDG_RUNTIME_DIR", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.env("TMPDIR", self.path()).env("TERM", "xterm").stdin(Stdio::null());
        command
    }

    /// Returns the command lines of living processes that know this place: every one of a demonstration inherits it.
    pub(crate) fn processes(&self) -> Vec<String> {
        let place = self.path().display().to_string();
        let knows_place = |folder: &Path| {
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(&place)
        };
        let folders = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.path());
        let found = folders.filter(|folder| knows_place(folder));
        found
            .map(|folder| fs::read_to_string(folder.join("cmdline")).unwrap_or_default().replace('\0', " "))
            .collect()
    }

    /// Checks that neither a process nor a file is left.
    #[track_caller]
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.processes(), Vec::<String>::new());
        let left: Vec<_> = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left, Vec::<std::path::PathBuf>::new());
    }

    /// Waits until no process is left.
    pub(crate) fn becomes_quiet(&self) {
        let until = SystemClock.now().plus(HANG);
        while !self.processes().is_empty() {
            assert!(!until.has_passed(SystemClock.now()), "these are left: {:#?}", self.processes());
            std::thread::yield_now();
        }
    }
}
