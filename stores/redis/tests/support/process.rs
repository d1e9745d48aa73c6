//! A real process that leads term after term and can be stopped anywhere: this test program once more.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_core::clock::ClockExt;
use tenure_core::{Clock, ElectionName, Random, SystemClock};
use tenure_redis::RedisStore;

use super::terms::Terms;

const URL: &str = "TENURE_TEST_URL";
const ELECTION: &str = "TENURE_TEST_ELECTION";
const TTL_MS: &str = "TENURE_TEST_TTL_MS";

/// What the process says once it has the store open, among what the test harness prints.
const READY: &str = "@ ready";

/// The process.
pub struct Other {
    child: Child,
    /// Kept open: it must not end because nobody listens.
    said: BufReader<ChildStdout>,
}

impl Other {
    /// Starts it and waits until it has the store open.
    pub async fn start(url: &str, election: &ElectionName, ttl: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "other_process", "--nocapture", "--test-threads=1"])
            .env(URL, url)
            .env(ELECTION, election.as_str())
            .env(TTL_MS, ttl.as_millis().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut other = Self { child, said };
        let ready = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(READY) {
                line.clear();
                assert!(other.said.read_line(&mut line).unwrap() > 0, "the other process has ended");
            }
            other
        });
        ready.await.unwrap()
    }

    /// Lets it go on for a while, stops it (SIGSTOP) wherever it is, and waits until it stands still.
    pub async fn stop_after(self, clock: &dyn Clock, after: Duration) -> Self {
        clock.sleep(after).await;
        kill_process(self.pid(), Signal::STOP).unwrap();
        loop {
            let stat =
                std::fs::read_to_string(format!("/proc/{}/stat", self.pid().as_raw_nonzero())).unwrap();
            if stat.contains(") T ") {
                return self;
            }
            assert!(!stat.contains(") Z "), "the other process has ended by itself");
            clock.sleep(Duration::from_millis(1)).await;
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the process does: it leads without a pause, so that it is nearly always inside a call of the store.
pub fn other_process() {
    let told = |name| std::env::var(name).expect("this is not a test of its own: others start it");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = RedisStore::from_url(&told(URL)).unwrap();
    let election = ElectionName::new(told(ELECTION)).unwrap();
    println!("{READY}");
    let terms = Terms {
        clock: Arc::new(SystemClock),
        ttl: Duration::from_millis(told(TTL_MS).parse().unwrap()),
        pause: Duration::ZERO,
        random: Random::from_os(),
    };
    runtime.block_on(terms.lead_for_ever(Arc::new(store), election));
}
