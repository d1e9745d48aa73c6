//! A candidate in a process of its own: says on standard output when it is elected, and obeys standard input.

use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tenure_core::embedded::FileStore;
use tenure_core::store::LeaseStore;
use tenure_core::{Elections, Settings};
use tenure_redis::RedisStore;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdout};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::machine::boot;

/// Runs `worker STORE TTL_MS`, where the store is a directory or a URL: leads whenever it can; gives the term back when a
/// line comes, and stands again when another one comes.
pub(crate) async fn run(words: &[&str]) -> ExitCode {
    let [store, ttl_ms] = words else { return ExitCode::from(2) };
    match lead_and_obey(store, ttl_ms).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn lead_and_obey(store: &str, ttl_ms: &str) -> Result<(), Box<dyn std::error::Error>> {
    let settings = Settings::ttl(Duration::from_millis(ttl_ms.parse()?));
    let store: Arc<dyn LeaseStore> = if store.starts_with("redis:") {
        Arc::new(RedisStore::from_url(store)?)
    } else {
        Arc::new(FileStore::open(store)?)
    };
    let elections = Elections::builder(store).settings(settings).build();
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let mut output = tokio::io::stdout();
    say(&mut output, "ready", boot()).await?;
    loop {
        let leadership = elections.lead("bench").await?;
        say(&mut output, "elected", boot()).await?;
        if orders.next_line().await?.is_none() {
            return Ok(());
        }
        let begin = boot();
        drop(leadership);
        say(&mut output, "released", begin).await?;
        // The elector that led is over when it has given the lease back.
        elections.release("bench").await;
        // The other one's turn: standing again at once would only measure who is quicker.
        if orders.next_line().await?.is_none() {
            return Ok(());
        }
    }
}

async fn say(output: &mut Stdout, word: &str, at: Duration) -> std::io::Result<()> {
    output.write_all(format!("{word} {}\n", at.as_nanos()).as_bytes()).await?;
    output.flush().await
}

/// A worker as the benchmark sees it.
pub(crate) struct Worker {
    child: Child,
    orders: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    pub(crate) async fn start(store: impl AsRef<std::ffi::OsStr>, ttl: Duration) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("worker")
            .arg(store)
            .arg(ttl.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let missing = || std::io::Error::other("a worker without pipes");
        let orders = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        let mut worker = Self { child, orders, output };
        worker.hear("ready").await?;
        Ok(worker)
    }

    /// Waits for a word and answers when it was said.
    pub(crate) async fn hear(&mut self, word: &str) -> std::io::Result<Duration> {
        let line = self.output.next_line().await?.unwrap_or_default();
        let at = line.strip_prefix(word).and_then(|rest| rest.trim().parse().ok());
        at.map(Duration::from_nanos)
            .ok_or_else(|| std::io::Error::other(format!("wanted {word:?}, heard {line:?}")))
    }

    pub(crate) async fn give_back(&mut self) -> std::io::Result<Duration> {
        self.orders.write_all(b"\n").await?;
        self.hear("released").await
    }

    pub(crate) async fn stand_again(&mut self) -> std::io::Result<()> {
        self.orders.write_all(b"\n").await
    }

    /// Kills the process without a word and answers when.
    pub(crate) async fn kill(&mut self) -> std::io::Result<Duration> {
        let at = boot();
        self.child.start_kill()?;
        self.child.wait().await?;
        Ok(at)
    }
}
