//! A process stopped or killed at any system call of a term blocks nobody and leaves nothing that harms.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;
use tenure_core::embedded::FileStore;
use tenure_core::store::{LeaseStore, Released, Renewal};

use crate::other::Other;
use crate::support::{election, lead, now, release, renew, soon};

/// Every kind of call by which the store touches files.
const CALLS: [&str; 18] = [
    "linkat",
    "openat",
    "write",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "getdents64",
    "read",
    "flock",
    "fsync",
    "fdatasync",
    "statx",
    "newfstatat",
    "close",
];

/// Short, since every round waits for it; long enough for the traced process to get through its term.
const TTL_MS: u64 = 300;

/// A call of a term: the n-th of its kind. The store's work is done by one thread here, so that it is always the same.
#[derive(Clone, Copy, Debug)]
struct Call {
    kind: &'static str,
    number: usize,
}

/// Traces a process, and lets a signal meet it at one call.
struct Trace {
    strace: Child,
    /// Kept open: strace ends when nobody listens to it.
    _talk: BufReader<ChildStderr>,
    log: PathBuf,
    _folder: TempDir,
}

impl Trace {
    fn attach(other: &Other, signal: &str, call: Call) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut strace = Command::new("strace")
            .arg("-f")
            .args(["-p", &other.pid().as_raw_nonzero().to_string()])
            .args(["-e", &format!("trace={}", CALLS.join(","))])
            .args(["-e", &format!("inject={}:signal={signal}:when={}", call.kind, call.number)])
            .arg("-o")
            .arg(&log)
            .stderr(Stdio::piped())
            .spawn()
            .expect("strace is needed for this test: install it (Debian package strace)");
        let mut said = String::new();
        let mut talk = BufReader::new(strace.stderr.take().unwrap());
        while !said.contains("attached") {
            assert!(talk.read_line(&mut said).unwrap() > 0, "strace may not trace here: {said}");
        }
        Self { strace, _talk: talk, log, _folder: folder }
    }

    fn has_stopped(&self) -> bool {
        fs::read_to_string(&self.log).is_ok_and(|log| log.contains("stopped by SIGSTOP"))
    }

    /// Returns the last call before the signal, for people.
    fn last_call(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap();
        let before = log.lines().take_while(|line| !line.contains("--- SIG"));
        before.last().unwrap_or_default().to_owned()
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

/// Runs `round` for every call of a term, until it says that there are no more of a kind; a few kinds at a time.
fn for_every_call(round: impl Fn(Call) -> bool + Sync) -> usize {
    let (next, met) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(kind) = CALLS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let calls = (1..).take_while(|number| round(Call { kind, number: *number }));
                    met.fetch_add(calls.count(), Ordering::Relaxed);
                }
            });
        }
    });
    met.load(Ordering::Relaxed)
}

/// Leads a whole term, as somebody whom the other process must not disturb.
async fn lead_a_term(store: &FileStore, call: &str, meanwhile: impl FnOnce()) -> u64 {
    let name = election("a");
    store.read(&name).await.unwrap_or_else(|error| panic!("{error} after {call}"));
    let lease = lead(store, &name, Duration::from_secs(60)).await;
    meanwhile();
    let Ok(Renewal::Renewed(lease, _)) = renew(store, &lease).await else {
        panic!("disturbed after {call}");
    };
    assert_eq!(release(store, &lease).await.unwrap(), Released::Released, "after {call}");
    lease.token.0
}

/// Waits until whoever opens the store finds nothing of the dead. A process that is just being started by another test
/// has a copy of every open file until it runs its program: so long the dead can look alive.
fn no_leftovers(directory: &Path, call: &str) {
    let until = now().plus(Duration::from_secs(20));
    loop {
        drop(FileStore::open(directory).unwrap());
        let boot = fs::read_dir(directory.join("boots")).unwrap().next().unwrap().unwrap().path();
        let count = |folder: &str| fs::read_dir(boot.join(folder)).unwrap().count();
        // Those that stay: the one that just opened it; the newest four records, and one that is void.
        if count("scratch") == 0 && count("openers") == 1 && count("elections/a") <= 5 {
            return;
        }
        assert!(!until.has_passed(now()), "something is left after {call}");
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn a_process_stopped_at_any_call_of_a_term_blocks_nobody_and_disturbs_nobody_when_it_goes_on() {
    let calls = for_every_call(|call| {
        let top = tempfile::tempdir().unwrap();
        let mut other = Other::start_on_one_thread(top.path());
        let trace = Trace::attach(&other, "SIGSTOP", call);
        other.tell(&format!("term a {TTL_MS}"));
        while !trace.has_stopped() {
            if other.has_answered() {
                assert_eq!(other.hear(), "acquired 1 renewed released");
                return false;
            }
            std::thread::yield_now();
        }
        let last_call = trace.last_call();
        let store = FileStore::open(top.path()).unwrap();
        let mut answer = String::new();
        let token = block_on(lead_a_term(&store, &last_call, || {
            // It goes on while somebody else leads.
            drop(trace);
            other.signal(Signal::CONT);
            answer = other.hear();
        }));
        // Nothing that it says may be news of a term beside the other's; an old term that was over is fine.
        let led = answer.strip_prefix("acquired ").and_then(|rest| rest.split(' ').next());
        let led = led.map_or(0, |token| token.parse::<u64>().unwrap());
        assert!(led < token, "{answer:?} beside {token} after {last_call}");
        assert!(!answer.starts_with("error"), "{answer} after {last_call}");
        drop((other, store));
        no_leftovers(top.path(), &last_call);
        true
    });
    println!("stopped at each of {calls} calls");
    assert!(calls > 20, "only {calls} calls were met");
}

#[test]
fn a_process_killed_at_any_call_of_a_term_leaves_the_election_free_at_once() {
    let calls = for_every_call(|call| {
        let top = tempfile::tempdir().unwrap();
        let mut other = Other::start_on_one_thread(top.path());
        let trace = Trace::attach(&other, "SIGKILL", call);
        // So long that nobody could wait for it.
        other.tell("term a 3600000");
        let answer = other.hear();
        if !answer.is_empty() {
            assert_eq!(answer, "acquired 1 renewed released");
            return false;
        }
        let last_call = trace.last_call();
        drop((other, trace));
        let store = FileStore::open(top.path()).unwrap();
        block_on(soon("the end of the dead one's lease", lead_a_term(&store, &last_call, || ())));
        drop(store);
        no_leftovers(top.path(), &last_call);
        true
    });
    println!("killed at each of {calls} calls");
    assert!(calls > 20, "only {calls} calls were met");
}
