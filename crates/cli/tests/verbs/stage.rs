//! A store in a directory of its own, what happens there, and the command that looks at it.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure::store::{
    Acquisition, Action, Answered, Bid, ControlRequest, Lease, LeaseStore, Next, Origin, Pause, Release,
    Released, Renew, Renewal, Requested,
};
use tenure::{
    Attempt, BidId, CandidateId, Clock, ClockExt, ElectionName, FencingToken, FileStore, Identity, Random,
    RequestId, SystemClock,
};

/// Beyond every test.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// Far beyond what anything here takes: a test that waits this long hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// The pause between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// The command under test.
pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

pub(crate) fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

pub(crate) fn candidate(name: &str) -> CandidateId {
    CandidateId::new(name).unwrap()
}

pub(crate) struct Stage {
    top: TempDir,
    pub(crate) store: FileStore,
    random: Random,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let store = FileStore::open(top.path().join("store")).unwrap();
        Self { top, store, random: Random::from_os() }
    }

    /// A folder beside the store, to work in.
    pub(crate) fn folder(&self) -> &Path {
        self.top.path()
    }

    /// Returns the command, which finds the store by its environment.
    pub(crate) fn command(&self) -> Command {
        command(self.store.path())
    }

    /// Returns the command as a user whom modes stop: root is stopped by none.
    pub(crate) fn unprivileged(&self) -> Command {
        if !rustix::process::geteuid().is_root() {
            return self.command();
        }
        // The program may stand where nobody else may look: a copy of it stands beside the store.
        std::fs::set_permissions(self.folder(), Permissions::from_mode(0o755)).unwrap();
        let copy = self.folder().join("tenure");
        std::fs::copy(TENURE, &copy).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]).arg(copy);
        command.env_remove("TENURE_STORE");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command().args(args))
    }

    pub(crate) fn bid(&self, who: &str, ttl: Duration) -> Bid {
        Bid {
            id: BidId::new(&self.random),
            attempt: self.attempt(),
            open: Vec::new(),
            candidate: candidate(who),
            identity: None,
            origin: Origin::default(),
            ttl,
            metadata: BTreeMap::new(),
            floor: FencingToken::ZERO,
            supersedes: None,
        }
    }

    fn attempt(&self) -> Attempt {
        Attempt::new(&self.random)
    }

    pub(crate) async fn lead(&self, name: &str, who: &str) -> Lease {
        self.lead_with(name, self.bid(who, LONG)).await
    }

    pub(crate) async fn lead_with(&self, name: &str, bid: Bid) -> Lease {
        match self.store.acquire(&election(name), &bid).await.unwrap() {
            Acquisition::Acquired(lease) => lease,
            Acquisition::Refused(record) => panic!("{who} is refused: {record:?}", who = bid.candidate),
        }
    }

    /// Leads with an identity and something to tell.
    pub(crate) async fn lead_with_names(&self, name: &str, who: &str) -> Lease {
        let identity = Some(Identity::new("machine-7").unwrap());
        let metadata =
            BTreeMap::from([("address".into(), "10.0.0.7:80".into()), ("zone".into(), "b\x1b[2J".into())]);
        self.lead_with(name, Bid { identity, metadata, ..self.bid(who, LONG) }).await
    }

    pub(crate) async fn renew(&self, lease: Lease) -> Lease {
        self.renew_with(lease, None).await
    }

    pub(crate) async fn renew_with(&self, lease: Lease, answer: Option<Answered>) -> Lease {
        let renewal = Renew { lease, attempt: self.attempt(), open: Vec::new(), answer };
        match self.store.renew(&[renewal]).await.remove(0).unwrap() {
            Renewal::Renewed(lease, _) => lease,
            Renewal::Lost(record) => panic!("lost: {record:?}"),
        }
    }

    pub(crate) async fn release(&self, lease: Lease, next: Next) {
        self.release_with(lease, next, false, None).await;
    }

    pub(crate) async fn release_with(
        &self,
        lease: Lease,
        next: Next,
        succeeded: bool,
        answer: Option<Answered>,
    ) {
        let release = Release { lease, attempt: self.attempt(), open: Vec::new(), next, succeeded, answer };
        assert_eq!(self.store.release(&release).await.unwrap(), Released::Released);
    }

    pub(crate) async fn pause(&self, name: &str, by: &str, ends_in: Duration) {
        let operator = self.store.operator().unwrap();
        operator.pause(&election(name), self.attempt(), Pause { by: by.into(), ends_in }).await.unwrap();
    }

    pub(crate) async fn resume(&self, name: &str) {
        self.store.operator().unwrap().resume(&election(name), self.attempt()).await.unwrap();
    }

    pub(crate) async fn request(&self, name: &str, token: FencingToken, action: Action) -> RequestId {
        let id = RequestId::new(&self.random);
        let request = ControlRequest { id, token, by: "ops".into(), action, expires_in: LONG };
        let operator = self.store.operator().unwrap();
        let answer = operator.request(&election(name), self.attempt(), request).await.unwrap();
        assert_eq!(answer, Requested::Accepted(token));
        id
    }

    /// Waits until somebody asks the leader for something.
    pub(crate) async fn asked(&self, name: &str) -> ControlRequest {
        let until = SystemClock.now().plus(HANG);
        loop {
            let record = self.store.read(&election(name)).await.unwrap();
            if let Some(request) = record.and_then(|record| record.request) {
                return request;
            }
            assert!(!until.has_passed(SystemClock.now()), "nobody asks");
            SystemClock.sleep(LOOK).await;
        }
    }

    /// Writes nonsense over an election's record.
    pub(crate) fn spoil(&self, name: &str) {
        std::fs::write(self.store.record_file(&election(name)).unwrap(), "nonsense").unwrap();
    }
}

/// Returns the command with `directory` as its default store, untouched by the environment of the test.
pub(crate) fn command(directory: &Path) -> Command {
    let mut command = Command::new(TENURE);
    for name in ["TENURE_STORE", "TENURE_ELECTION", "TENURE_CANDIDATE", "TENURE_TOKEN", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.env("TENURE_DIR", directory).stdin(Stdio::null());
    command
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    pub(crate) fn of(command: &mut Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Returns the standard output of a command that ended with `code`.
    #[track_caller]
    pub(crate) fn expect(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        &self.stdout
    }

    /// Checks that a command failed with `code`, wrote nothing but talk, and said these words.
    #[track_caller]
    pub(crate) fn refuse(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {}", self.stderr);
        }
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A command that goes on by itself, killed with the test.
pub(crate) struct Running {
    child: Child,
    pub(crate) lines: Receiver<String>,
    pub(crate) talk: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(child.stdout.take().unwrap());
        let talk = lines_of(child.stderr.take().unwrap());
        Self { child, lines, talk }
    }

    /// Waits for the next line.
    #[track_caller]
    pub(crate) fn next(&self) -> String {
        self.lines.recv_timeout(HANG).expect("a line")
    }

    /// Waits for the next line of JSON.
    #[track_caller]
    pub(crate) fn next_json(&self) -> Value {
        serde_json::from_str(&self.next()).unwrap()
    }

    /// Waits until the command has ended by itself.
    pub(crate) fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits until the command has ended by itself, and returns all that it said.
    pub(crate) fn said(mut self) -> Said {
        let code = self.child.wait().unwrap().code();
        let all = |lines: &Receiver<String>| lines.iter().map(|line| line + "\n").collect();
        Said { code, stdout: all(&self.lines), stderr: all(&self.talk) }
    }
}

fn lines_of(pipe: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    let reader = BufReader::new(pipe);
    std::thread::spawn(move || reader.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    receiver
}

impl Drop for Running {
    fn drop(&mut self) {
        // Gone already, perhaps.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns everything below a folder.
pub(crate) fn everything(top: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![top.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            folders.extend(path.is_dir().then(|| path.clone()));
            found.push(path);
        }
    }
    found.sort();
    found
}
