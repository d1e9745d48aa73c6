//! One server program, as a child of the test.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fmt, io, thread};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_core::SystemClock;
use tenure_core::clock::ClockExt;

use super::{Program, spawner};
use crate::wait::{LIMIT, LOOK, look_until, within};

/// How much of the log a failure shows.
const LOG_LINES: usize = 60;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: Program,
    /// What it is given.
    pub arguments: Vec<OsString>,
    /// Variables of its environment beside those of the test.
    pub environment: Vec<(OsString, OsString)>,
}

/// A server that belongs to this test.
///
/// Dropping it ends it (SIGKILL, by its process id) and removes its directory. All else leaves the directory alone, so
/// that a server can be killed and started again on its data.
pub struct Server {
    directory: TempDir,
    launch: Launch,
    child: Mutex<Option<Child>>,
}

impl Server {
    /// Makes an empty directory for a server.
    ///
    /// # Panics
    /// If there can be none.
    #[must_use]
    pub fn directory_for_one() -> TempDir {
        tempfile::Builder::new().prefix("tenure-").tempdir().expect("a directory for a server")
    }

    /// Makes a server in a directory, where its configuration may lie already. It is not started yet.
    #[must_use]
    pub fn new(directory: TempDir, launch: Launch) -> Self {
        Self { directory, launch, child: Mutex::new(None) }
    }

    /// Starts it and waits until it answers, which `answers` finds out.
    ///
    /// # Panics
    /// If it runs already, ends by itself, or does not answer in time; with its log.
    pub async fn start(&self, answers: impl AsyncFn() -> bool) {
        self.spawn();
        let answered = look_until(async || {
            if let Some(status) = self.ended() {
                return Some(Err(status));
            }
            answers().await.then_some(Ok(()))
        });
        match answered.await {
            Some(Ok(())) => {}
            Some(Err(status)) => panic!("{self} has ended by itself ({status})\n{}", self.log_tail()),
            None => panic!("{self} does not answer within {LIMIT:?}\n{}", self.log_tail()),
        }
    }

    fn spawn(&self) {
        // What the kernel does when the test process is killed; std has no safe way to ask for it.
        let setpriv = Program::find("setpriv", "TENURE_SETPRIV");
        let log = || File::options().create(true).append(true).open(self.log_file());
        let (out, err) = (log().expect("a log file"), log().expect("a log file"));
        let mut command = Command::new(setpriv.path());
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(self.launch.program.path())
            .args(&self.launch.arguments)
            .envs(self.launch.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        let mut child = self.child();
        assert!(child.is_none(), "{} runs already", self.launch.program.name());
        match spawner::spawn(command) {
            Ok(started) => *child = Some(started),
            Err(error) => panic!("{} cannot be started: {error}", self.launch.program.name()),
        }
    }

    /// Returns its directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns its process id while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Kills it (SIGKILL), also while it is frozen, and returns when it is gone. Nothing happens if it does not run.
    ///
    /// # Panics
    /// If it does not go.
    pub async fn kill(&self) {
        self.end(Signal::KILL).await;
    }

    /// Asks it to end (SIGTERM) and returns when it is gone. Nothing happens if it does not run.
    ///
    /// # Panics
    /// If it does not go.
    pub async fn stop(&self) {
        self.end(Signal::TERM).await;
    }

    async fn end(&self, signal: Signal) {
        if self.child().is_none() {
            return;
        }
        self.signal(signal);
        assert!(self.is_gone().await, "{self} does not end\n{}", self.log_tail());
        *self.child() = None;
    }

    /// Waits until it has ended, as after a request to shut down.
    async fn is_gone(&self) -> bool {
        within(LIMIT, async {
            while self.ended().is_none() {
                SystemClock.sleep(LOOK).await;
            }
        })
        .await
        .is_some()
    }

    /// Freezes it (SIGSTOP) and returns when it stands still: connections are still accepted by the kernel, nothing is
    /// answered.
    ///
    /// # Panics
    /// If it does not run.
    pub async fn freeze(&self) {
        self.signal(Signal::STOP);
        self.wait_for_state(|state| state == 'T').await;
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Panics
    /// If it does not run.
    pub async fn thaw(&self) {
        self.signal(Signal::CONT);
        self.wait_for_state(|state| state != 'T').await;
    }

    /// Waits until the kernel shows a state of the process.
    async fn wait_for_state(&self, is_so: impl Fn(char) -> bool) {
        let pid = self.pid().expect("it was just sent a signal");
        let found = look_until(async || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name of the program is in brackets and may have any character.
            let (_, rest) = stat.rsplit_once(')')?;
            rest.trim_start().chars().next().filter(|&state| is_so(state))
        });
        assert!(found.await.is_some(), "{self} does not obey a signal\n{}", self.log_tail());
    }

    fn signal(&self, signal: Signal) {
        let child = self.child();
        let Some(child) = child.as_ref() else { panic!("{} does not run", self.launch.program.name()) };
        // A process that has ended but was not waited for takes any signal.
        kill_process(Pid::from_child(child), signal).expect("a signal to a child");
    }

    fn ended(&self) -> Option<ExitStatus> {
        self.child().as_mut().and_then(|child| child.try_wait().expect("a child can be waited for"))
    }

    /// Returns all that it wrote since the first start.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.log_file()).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Returns the end of what it wrote, for messages of failure.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
        format!("---- its log ends with\n{tail}\n----")
    }

    fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// A test that panicked while it held this must still be able to end the server.
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("{self}\n{}", self.log_tail());
        }
        if let Some(mut child) = self.child().take() {
            let ended: io::Result<_> = child.kill().and_then(|()| child.wait());
            // Nobody can be told in a drop but whoever reads the output.
            if let Err(error) = ended {
                eprintln!("{self} cannot be ended: {error}");
            }
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.launch.program.name(), self.directory.path().display())
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("launch", &self.launch)
            .field("pid", &self.pid())
            .finish_non_exhaustive()
    }
}
