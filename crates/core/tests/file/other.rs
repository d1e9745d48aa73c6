//! The other process: this test program once more, doing what it is told line by line.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, kill_process};
use tenure_core::embedded::FileStore;
use tenure_core::store::{Acquisition, Lease, LeaseStore, Released, Renewal, StoreError};

use crate::support::{bid, election, release, renew};

/// Marks the answers among what the test harness prints.
const MARK: &str = "@ ";
pub(crate) const DIRECTORY: &str = "TENURE_TEST_DIRECTORY";
const THREADS: &str = "TENURE_TEST_THREADS";

/// A process that has the store open.
pub(crate) struct Other {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Makes the command line that runs one ignored test of this program alone.
pub(crate) fn this_program(test: &str) -> Vec<String> {
    let program = std::env::current_exe().unwrap().to_str().unwrap().to_owned();
    let rest = ["--ignored", "--exact", test, "--nocapture", "--test-threads=1"];
    std::iter::once(program).chain(rest.map(str::to_owned)).collect()
}

impl Other {
    pub(crate) fn start(directory: &Path) -> Self {
        Self::start_with(directory, "8")
    }

    /// Starts a process whose store works on one thread, so that its system calls are always in the same order.
    pub(crate) fn start_on_one_thread(directory: &Path) -> Self {
        Self::start_with(directory, "1")
    }

    fn start_with(directory: &Path, threads: &str) -> Self {
        let words = this_program("other::other_process");
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .env(DIRECTORY, directory)
            .env(THREADS, threads)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut other = Self {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        assert_eq!(other.hear(), "ready");
        other
    }

    /// Gives a command. One that has ended does not hear it, which the next answer shows.
    pub(crate) fn tell(&mut self, command: &str) {
        match writeln!(self.commands, "{command}") {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            told => told.unwrap(),
        }
    }

    /// Returns the next answer; empty if the process has ended.
    pub(crate) fn hear(&mut self) -> String {
        loop {
            let mut line = String::new();
            if self.answers.read_line(&mut line).unwrap() == 0 {
                return String::new();
            }
            if let Some((_, answer)) = line.split_once(MARK) {
                return answer.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.tell(command);
        self.hear()
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Stops the process and waits until it stands still.
    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.pid().as_raw_nonzero());
        while !std::fs::read_to_string(&stat).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
    }

    /// Tells whether an answer, or the end of the process, waits to be heard.
    pub(crate) fn has_answered(&self) -> bool {
        let mut wait = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
        let at_once = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut wait, Some(&at_once)).unwrap() > 0
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the directory that the starting test gave.
pub(crate) fn directory() -> PathBuf {
    let directory = std::env::var_os(DIRECTORY).expect("this is not a test of its own: others start it");
    directory.into()
}

#[test]
#[ignore = "is the other process of the tests here"]
fn other_process() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(std::env::var(THREADS).unwrap().parse().unwrap())
        .build()
        .unwrap();
    let store = FileStore::open(directory()).unwrap();
    let mut leases = BTreeMap::new();
    println!("{MARK}ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let answer = runtime.block_on(obey(&store, &mut leases, &words));
        // One write, so that one system call answers.
        let answer = answer.unwrap_or_else(|error| format!("error {error}"));
        println!("{MARK}{answer}");
    }
}

async fn obey(
    store: &FileStore,
    leases: &mut BTreeMap<String, Lease>,
    words: &[&str],
) -> Result<String, StoreError> {
    match *words {
        ["acquire", name, ttl_ms] => {
            let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
            Ok(match store.acquire(&election(name), &bid(ttl)).await? {
                Acquisition::Acquired(lease) => {
                    let token = lease.token;
                    leases.insert(name.to_owned(), lease);
                    format!("acquired {token}")
                }
                Acquisition::Refused(record) => format!("refused {}", record.leader().unwrap().candidate),
            })
        }
        ["renew", name] => Ok(match renew(store, &leases[name]).await? {
            Renewal::Renewed(lease, _) => {
                leases.insert(name.to_owned(), lease);
                "renewed".to_owned()
            }
            Renewal::Lost(_) => "lost".to_owned(),
        }),
        ["release", name] => Ok(match release(store, &leases[name]).await? {
            Released::Released => "released".to_owned(),
            Released::NotHeld => "not held".to_owned(),
        }),
        // A whole term, whatever becomes of it, for tests that end or stop the process somewhere inside.
        ["term", name, ttl_ms] => {
            let ttl = Duration::from_millis(ttl_ms.parse().unwrap());
            let Some(lease) = crate::support::try_lead(store, &election(name), ttl).await? else {
                return Ok("refused".to_owned());
            };
            let token = lease.token;
            let Renewal::Renewed(lease, _) = renew(store, &lease).await? else {
                return Ok(format!("acquired {token} lost"));
            };
            Ok(match release(store, &lease).await? {
                Released::Released => format!("acquired {token} renewed released"),
                Released::NotHeld => format!("acquired {token} renewed not_held"),
            })
        }
        ["bids", name, count] => bids(store, name, count.parse().unwrap()).await,
        ["heir"] => {
            let life = store.life_file().unwrap();
            let heir = Command::new("sleep").arg("600").stdin(Stdio::from(life)).spawn();
            Ok(format!("heir {}", heir.unwrap().id()))
        }
        ["leaks"] => leaks(store).await,
        _ => panic!("{words:?}?"),
    }
}

async fn bids(store: &FileStore, name: &str, count: usize) -> Result<String, StoreError> {
    let tasks: Vec<_> = (0..count)
        .map(|_| {
            let (store, name, bid) = (store.clone(), election(name), bid(Duration::from_secs(600)));
            tokio::spawn(async move {
                let answer = store.acquire(&name, &bid).await?;
                Ok::<_, StoreError>(match answer {
                    Acquisition::Acquired(_) => format!("won:{}", bid.candidate),
                    Acquisition::Refused(record) => format!("refused:{}", record.leader().unwrap().candidate),
                })
            })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap()?);
    }
    Ok(answers.join(" "))
}

/// Does a thousand things and tells how many files were open before and after.
async fn leaks(store: &FileStore) -> Result<String, StoreError> {
    use futures_util::StreamExt;
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let name = election("leaks");
    let work = async || {
        let lease = crate::support::lead(store, &name, Duration::from_secs(30)).await;
        let Renewal::Renewed(lease, _) = renew(store, &lease).await? else {
            panic!("lost");
        };
        let watched = store.watch(std::slice::from_ref(&name)).unwrap().next().await;
        assert!(watched.is_some());
        store.operator().unwrap().list("").await?;
        release(store, &lease).await?;
        let again = FileStore::open(store.path())?;
        again.read(&name).await?;
        drop(again.life_file()?);
        Ok::<_, StoreError>(())
    };
    work().await?;
    let before = open();
    for _ in 0..200 {
        work().await?;
    }
    Ok(format!("{before} {}", open()))
}
