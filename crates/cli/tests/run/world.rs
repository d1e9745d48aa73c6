//! Candidates as processes, and the stamps by which their commands are judged.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;
use tenure::{Clock, Moment, SystemClock};

/// Longer than anything takes that ever ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a command in the mode `slow` takes to stop.
pub(crate) const SLOW_STOP: Duration = Duration::from_millis(500);

/// How often a fault is tried.
pub(crate) fn rounds() -> usize {
    std::env::var("TENURE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

pub(crate) fn now() -> Moment {
    SystemClock.now()
}

/// Waits for a fact.
pub(crate) fn eventually<T>(what: &str, mut fact: impl FnMut() -> Option<T>) -> T {
    let until = now().plus(PATIENCE);
    loop {
        if let Some(found) = fact() {
            return found;
        }
        assert!(!until.has_passed(now()), "waited in vain until {what}");
        nap();
    }
}

/// A pause between two looks.
pub(crate) fn nap() {
    let pause = rustix::time::Timespec { tv_sec: 0, tv_nsec: 500_000 };
    let _ = rustix::thread::nanosleep(&pause);
}

/// A directory with a store, and a file with stamps.
pub(crate) struct World {
    pub(crate) directory: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.path("store")
    }

    pub(crate) fn store(&self) -> String {
        format!("file://{}", self.store_path().display())
    }

    pub(crate) fn stamps_path(&self) -> PathBuf {
        self.path("stamps")
    }

    /// Begins `tenure run` on this world's store and election.
    pub(crate) fn run(&self, args: &[&str]) -> Command {
        let mut command = tenure();
        command.args(["run", "--election", "e", "--store", &self.store()]).args(args);
        command.env("STAMPS", self.stamps_path()).env("TMPDIR", self.directory.path());
        command
    }

    /// Starts a candidate whose command stamps.
    pub(crate) fn candidate(&self, args: &[&str], mode: &str) -> Candidate {
        let mut command = self.run(args);
        command.arg("--").args(stamper(mode));
        Candidate::start(command)
    }

    /// Returns the living processes of a term, whatever they are called and wherever they went: their environment tells.
    pub(crate) fn alive_in(&self, token: u64) -> Vec<Pid> {
        let wanted = [format!("STAMPS={}", self.stamps_path().display()), format!("TENURE_TOKEN={token}")];
        let is_of_term = |process: &Pid| {
            let environment =
                fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).unwrap_or_default();
            let has =
                |wanted: &String| environment.split(|byte| *byte == 0).any(|part| part == wanted.as_bytes());
            wanted.iter().all(has) && parent_of(*process).is_some()
        };
        processes().into_iter().filter(is_of_term).collect()
    }

    pub(crate) fn stamps(&self) -> Stamps {
        Stamps::read(&self.stamps_path())
    }

    /// Waits for the first stamp of a term after `token`.
    pub(crate) fn stamped_after(&self, token: u64) -> u64 {
        eventually(&format!("a term after {token} stamps"), || {
            self.stamps().0.keys().copied().find(|found| *found > token)
        })
    }
}

pub(crate) fn tenure() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    for name in
        ["TENURE_STORE", "TENURE_CONFIG", "TENURE_ELECTION", "TENURE_DIR", "NOTIFY_SOCKET", "XDG_RUNTIME_DIR"]
    {
        command.env_remove(name);
    }
    command
}

/// The command line of a process that stamps; this very program.
pub(crate) fn stamper(mode: &str) -> Vec<String> {
    let exe = std::env::current_exe().unwrap().display().to_string();
    let script = match mode {
        // Each of them is a shell that starts this program.
        "plain" => "exec \"$0\" --exact --ignored world::stamp",
        "deaf" => "trap '' TERM; exec \"$0\" --exact --ignored world::stamp",
        // Takes its time to stop: the half of a second that `SLOW_STOP` says.
        "slow" => {
            "(trap '' TERM; exec \"$0\" --exact --ignored world::stamp) & trap 'sleep 0.5; kill -KILL $!; exit 0' TERM; wait"
        }
        "leaves_grandchild" => {
            "\"$0\" --exact --ignored world::stamp & while ! [ -e \"$STAMPS.may-end-$TENURE_TOKEN\" ]; do sleep 0.01; done"
        }
        "hides_grandchild" => {
            "setsid sh -c '\"$0\" --exact --ignored world::stamp &' \"$0\"; exec \"$0\" --exact --ignored world::stamp"
        }
        mode => panic!("no mode {mode}"),
    };
    ["sh", "-c", script, &exe].map(str::to_owned).to_vec()
}

/// What commands run: writes the term and the boot clock's time again and again, until it is killed.
#[test]
#[ignore = "started by other tests as the command of a candidate"]
fn stamp() {
    let path = std::env::var("STAMPS").expect("where to");
    let token = std::env::var("TENURE_TOKEN").expect("the term");
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    let pid = std::process::id();
    loop {
        let line = format!("{token} {pid} {}\n", now().boot().as_nanos());
        file.write_all(line.as_bytes()).unwrap();
        nap();
    }
}

/// First and last stamp of each term, and the processes that wrote them.
pub(crate) struct Stamps(pub(crate) BTreeMap<u64, Term>);

#[derive(Debug)]
pub(crate) struct Term {
    pub(crate) first: u128,
    pub(crate) last: u128,
    pub(crate) pids: Vec<i32>,
}

impl Stamps {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut terms: BTreeMap<u64, Term> = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split(' ').map(str::parse::<u128>);
            // The last line may be half written.
            let (Some(Ok(token)), Some(Ok(pid)), Some(Ok(at))) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let pid = i32::try_from(pid).unwrap();
            let term = terms.entry(u64::try_from(token).unwrap()).or_insert(Term {
                first: at,
                last: at,
                pids: vec![],
            });
            term.first = term.first.min(at);
            term.last = term.last.max(at);
            if !term.pids.contains(&pid) {
                term.pids.push(pid);
            }
        }
        Self(terms)
    }

    /// No process of a term stamped after the first stamp of a later one.
    pub(crate) fn assert_no_overlap(&self) {
        let terms: Vec<_> = self.0.iter().collect();
        for pair in terms.windows(2) {
            let ((token, term), (next_token, next)) = (&pair[0], &pair[1]);
            assert!(
                term.last < next.first,
                "term {token} stamped {} µs after term {next_token} began",
                (term.last - next.first) / 1000
            );
        }
    }
}

/// A wrapper, with what it said.
pub(crate) struct Candidate {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
    ended: bool,
}

impl Candidate {
    pub(crate) fn start(mut command: Command) -> Self {
        // A group of its own, as a shell would give it.
        command.process_group(0).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let (lines, stderr) = (Arc::clone(&said), child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                lines.lock().unwrap().push(line);
            }
        });
        Self { child, said, ended: false }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    /// Waits until it has said `text`, and returns the whole line.
    pub(crate) fn says(&self, text: &str) -> String {
        let said = || self.said().into_iter().find(|line| line.contains(text));
        let until = now().plus(PATIENCE);
        loop {
            if let Some(line) = said() {
                return line;
            }
            assert!(!until.has_passed(now()), "never said {text:?}, but {:#?}", self.said());
            nap();
        }
    }

    /// Returns the name under which it stands.
    pub(crate) fn name(&self) -> String {
        let line = self.says("candidate ");
        let name = line.split("candidate ").nth(1).unwrap();
        name.split(';').next().unwrap().to_owned()
    }

    /// Returns its term once it leads.
    pub(crate) fn leads(&self) -> u64 {
        let line = self.says("elected: this process leads, term ");
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }

    pub(crate) fn stands_by(&self) {
        self.says("standing by: ");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    pub(crate) fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid(), signal).unwrap();
    }

    pub(crate) fn guardian(&self) -> Pid {
        eventually("there is a guardian", || child_named(self.pid(), "__guardian"))
    }

    /// Waits for its end and returns its exit code, 128 + n after a signal.
    pub(crate) fn exits(&mut self) -> i32 {
        let status = eventually("the wrapper ends", || self.child.try_wait().unwrap());
        self.ended = true;
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Whatever it was stopped with: the guardian sees its end and kills the rest.
        let _ = kill_process(self.pid(), Signal::KILL);
        for process in children(self.pid()) {
            let _ = kill_process(process, Signal::CONT);
        }
        let _ = self.child.wait();
    }
}

/// Returns the living children of a process.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    processes().into_iter().filter(|process| parent_of(*process) == Some(parent)).collect()
}

/// Returns the command's first process.
pub(crate) fn commands_of(candidate: &Candidate) -> Vec<Pid> {
    let keepers = children(candidate.guardian());
    keepers.into_iter().flat_map(children).collect()
}

fn child_named(parent: Pid, argument: &str) -> Option<Pid> {
    children(parent).into_iter().find(|child| {
        let command = fs::read(format!("/proc/{}/cmdline", child.as_raw_nonzero())).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|part| part == argument.as_bytes())
    })
}

fn processes() -> Vec<Pid> {
    let names = fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|entry| entry.file_name());
    names.filter_map(|name| Pid::from_raw(name.to_str()?.parse().ok()?)).collect()
}

/// The parent's number stands after the name, which is in brackets and may hold anything.
fn parent_of(process: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let parent = Pid::from_raw(fields.next()?.parse().ok()?)?;
    (state != "Z").then_some(parent)
}
