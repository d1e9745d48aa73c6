//! A process of its own that can be killed, stopped and continued: this test program once more.
//!
//! What the process does stands in a test that only it runs, marked `#[ignore]`. It takes what it is [told], does its
//! work, and says that it is [ready] as soon as others may rely on it:
//!
//! ```no_run
//! use tenure_testkit::process::{Process, ready, told};
//!
//! #[test]
//! #[ignore = "is the other process of the tests here"]
//! fn other_process() {
//!     let place = told("PLACE");
//!     ready();
//!     // … for ever.
//! }
//!
//! # async fn example() {
//! let other = Process::start("other_process", &[("PLACE", "here")]).await;
//! other.stop().await;
//! # }
//! ```

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_core::clock::ClockExt;
use tenure_core::store::LeaseStore;
use tenure_core::{Clock, ElectionName, Random, SystemClock};

use crate::terms::Terms;

/// What the process says once others may rely on it, among what the test harness prints.
const READY: &str = "@ ready";

/// What the variables begin with by which a process is told something.
const TOLD: &str = "TENURE_TEST_";

/// How often a fact is looked at that nobody announces.
const LOOK: Duration = Duration::from_millis(1);

/// A process that belongs to this test. Dropping it kills it, also while it is stopped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Kept open: it must not end because nobody listens.
    _said: BufReader<ChildStdout>,
}

impl Process {
    /// Starts the ignored test `test` as a process that is told `what`, and waits until it is [ready].
    ///
    /// # Panics
    /// If it cannot be started, or ends before it is ready.
    pub async fn start(test: &str, what: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--ignored", "--exact", test, "--nocapture", "--test-threads=1"])
            .envs(what.iter().map(|(name, value)| (format!("{TOLD}{name}"), value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program once more");
        let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
        let waiting = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(READY) {
                line.clear();
                let read = said.read_line(&mut line).expect("a pipe can be read");
                assert!(read > 0, "the other process has ended before it was ready");
            }
            Self { child, _said: said }
        });
        waiting.await.expect("the other process is ready")
    }

    /// Starts one that leads `election` term after term in the store at `place`: `test` calls [`lead_for_ever`].
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn leading(test: &str, place: &str, election: &ElectionName, ttl: Duration) -> Self {
        let ttl_ms = ttl.as_millis().to_string();
        Self::start(test, &[("PLACE", place), ("ELECTION", election.as_str()), ("TTL_MS", &ttl_ms)]).await
    }

    /// Stops it (SIGSTOP) wherever it is, and waits until it stands still.
    ///
    /// # Panics
    /// If it has ended.
    pub async fn stop(&self) {
        self.signal(Signal::STOP);
        loop {
            let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it is there");
            // The name of the program is in brackets and may have any character.
            let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            match state {
                Some('T') => return,
                Some('Z') => panic!("the other process has ended by itself"),
                _ => SystemClock.sleep(LOOK).await,
            }
        }
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Panics
    /// If it has ended.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills it (SIGKILL) and returns how it ended.
    ///
    /// # Panics
    /// If it cannot be waited for.
    pub fn kill(mut self) -> ExitStatus {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for")
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a signal to a child");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, perhaps.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns what this process was told.
///
/// # Panics
/// If it was told nothing of that name.
#[must_use]
pub fn told(name: &str) -> String {
    let told = std::env::var(format!("{TOLD}{name}"));
    told.unwrap_or_else(|_| panic!("no {name}: this is not a test of its own, others start it"))
}

/// Says that others may rely on this process.
pub fn ready() {
    println!("{READY}");
}

/// What a process does that was started with [`Process::leading`]: it leads without a pause, so that it is nearly always
/// inside a call of the store, which `open` opens at a place.
///
/// # Panics
/// If the store fails.
pub fn lead_for_ever(open: impl FnOnce(&str) -> Arc<dyn LeaseStore>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let store = open(&told("PLACE"));
    let election = ElectionName::new(told("ELECTION")).expect("a name");
    let terms = Terms {
        clock: Arc::new(SystemClock) as Arc<dyn Clock>,
        ttl: Duration::from_millis(told("TTL_MS").parse().expect("a number")),
        pause: Duration::ZERO,
        random: Random::from_os(),
    };
    ready();
    runtime.block_on(terms.lead_for_ever(store, election));
}
