//! A wrapper that a test drives, and the facts that it can wait for.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tempfile::TempDir;

pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

/// How long a fact may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Far in the future, in milliseconds.
pub(crate) const LONG: &str = "600000 700000";

/// What a test says to the wrapper, and hears from it and from the command.
pub(crate) struct Wrapper {
    child: Child,
    lines: Receiver<String>,
    heard: Vec<String>,
    pub(crate) folder: TempDir,
    life: PathBuf,
}

impl Wrapper {
    /// Starts a wrapper and waits until its guardian is ready.
    pub(crate) fn start<S: AsRef<OsStr>>(isolate: &str, command: &[S]) -> Self {
        Self::start_with(isolate, command, |_, _| {})
    }

    pub(crate) fn start_with<S: AsRef<OsStr>>(
        isolate: &str,
        command: &[S],
        set_up: impl FnOnce(&mut Command, &Path),
    ) -> Self {
        let mut wrapper = Self::launch(isolate, command, set_up);
        wrapper.hear("ready ");
        wrapper
    }

    /// Starts a wrapper. The command finds its folder in `$FOLDER`.
    pub(crate) fn launch<S: AsRef<OsStr>>(
        isolate: &str,
        command: &[S],
        set_up: impl FnOnce(&mut Command, &Path),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let life = folder.path().join("life");
        File::create(&life).unwrap();
        let mut wrapper = Command::new(TENURE);
        wrapper.args(["__drive", isolate]).arg(&life).args(["-", "--"]).args(command);
        wrapper.env("FOLDER", folder.path());
        set_up(&mut wrapper, folder.path());
        Self::over(&mut wrapper, Stdio::piped(), folder, life)
    }

    /// Runs any command that drives a guardian.
    pub(crate) fn over(wrapper: &mut Command, input: Stdio, folder: TempDir, life: PathBuf) -> Self {
        let mut child = wrapper.stdin(input).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, heard: Vec::new(), folder, life }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Gives an order.
    pub(crate) fn say(&mut self, order: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{order}").unwrap();
    }

    /// Waits for a line that begins like this, and returns it.
    pub(crate) fn hear(&mut self, beginning: &str) -> String {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    if line.starts_with(beginning) {
                        return line;
                    }
                }
                Err(error) => panic!("no {beginning:?} after {:#?}: {error}", self.heard),
            }
        }
    }

    /// Waits for the next line, which must be this one.
    pub(crate) fn hear_next(&mut self, line: &str) {
        assert_eq!(self.hear(""), line, "after {:#?}", self.heard);
    }

    pub(crate) fn has_heard(&self, beginning: &str) -> bool {
        self.heard.iter().any(|line| line.starts_with(beginning))
    }

    /// The control group of the first guardian, if it has one. Its name alone would not do: one that everybody died of
    /// is left, and its number is given again.
    pub(crate) fn group(&self) -> Option<PathBuf> {
        self.heard
            .iter()
            .find_map(|line| line.strip_prefix("ready "))
            .and_then(|isolation| isolation.strip_prefix("control group ").map(PathBuf::from))
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Ends the wrapper in an orderly way.
    pub(crate) fn close(&mut self) {
        drop(self.child.stdin.take());
        self.hear("closed");
        assert!(self.child.wait().unwrap().success());
        assert_eq!(self.lines.recv().ok(), None, "nobody holds the output any more");
    }

    /// Finds the process below the wrapper that plays a role.
    pub(crate) fn role(&self, role: &str) -> Watched {
        let mut found = None;
        until(role, || {
            found = below(self.pid()).into_iter().find(|pid| plays(*pid, role)).map(Watched::new);
            found.is_some()
        });
        found.unwrap()
    }

    /// Finds everything that descends from the command.
    pub(crate) fn work(&self) -> Vec<Watched> {
        let supervisors = ["__drive", "__guardian", "__keeper", "__init", "__exec"];
        let is_work = |pid: &Pid| !supervisors.iter().any(|role| plays(*pid, role));
        below(self.pid()).into_iter().filter(is_work).map(Watched::new).collect()
    }

    /// Tells whether nobody holds the life file any more.
    pub(crate) fn life_is_free(&self) -> bool {
        let file = File::open(&self.life).unwrap();
        flock(&file, FlockOperation::NonBlockingLockShared).is_ok()
    }

    /// Reaps the wrapper itself after it was killed.
    pub(crate) fn reap(&mut self) {
        self.child.wait().unwrap();
    }
}

impl Drop for Wrapper {
    fn drop(&mut self) {
        let guardians: Vec<_> = below(self.pid()).into_iter().map(Watched::new).collect();
        let _ = self.child.kill();
        let _ = self.child.wait();
        // A wrapper that is gone is what its guardian ends for; only a failing test leaves anybody.
        if std::thread::panicking() {
            for guardian in &guardians {
                guardian.signal(Signal::CONT);
            }
        }
    }
}

/// A process that cannot be mistaken for another one.
pub(crate) struct Watched {
    pub(crate) pid: Pid,
    pidfd: Option<OwnedFd>,
}

impl Watched {
    pub(crate) fn new(pid: Pid) -> Self {
        Self { pid, pidfd: pidfd_open(pid, PidfdFlags::empty()).ok() }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ = self.pidfd.as_ref().map(|pidfd| pidfd_send_signal(pidfd, signal));
    }

    pub(crate) fn has_ended(&self) -> bool {
        let Some(pidfd) = &self.pidfd else { return true };
        poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
    }

    pub(crate) fn is_stopped(&self) -> bool {
        stat(self.pid).is_some_and(|fields| fields[0] == "T")
    }

    pub(crate) fn sleeps(&self) -> bool {
        stat(self.pid).is_some_and(|fields| fields[0] == "S")
    }
}

/// Waits for a fact.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let pause = Duration::from_millis(1);
    for _ in 0..PATIENCE.as_millis() / pause.as_millis() {
        if is_so() {
            return;
        }
        let pause = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
        poll(&mut [], Some(&pause)).unwrap();
    }
    assert!(is_so(), "in vain: {what}");
}

pub(crate) fn below(top: Pid) -> Vec<Pid> {
    let pids: Vec<Pid> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| Pid::from_raw(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect();
    let parents: Vec<(Pid, String)> =
        pids.into_iter().filter_map(|pid| Some((pid, stat(pid)?[1].clone()))).collect();
    let mut found = vec![top];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next].as_raw_pid().to_string();
        found.extend(parents.iter().filter(|(_, theirs)| *theirs == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// The fields of /proc/PID/stat behind the name: state, parent, group, session, …
pub(crate) fn stat(pid: Pid) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

fn plays(pid: Pid, role: &str) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
    line.split(|byte| *byte == 0).nth(1) == Some(role.as_bytes())
}

/// A command that leaves nothing undone to survive: it ignores SIGTERM, has a child in the background, and a grandchild
/// in another session whose parents are gone. It says so in files.
pub(crate) const HYDRA: &str = r#"
trap '' TERM HUP INT
sleep 1000 &
(setsid sh -c 'echo > "$FOLDER/far"; exec sleep 1000' > /dev/null 2>&1 &)
echo > "$FOLDER/near"
wait
"#;

/// Starts the hydra and returns its heads.
pub(crate) fn hydra(isolate: &str) -> (Wrapper, Vec<Watched>) {
    let mut wrapper = Wrapper::start(isolate, &["sh", "-c", HYDRA]);
    wrapper.say(&format!("begin {LONG}"));
    let heads = wait_for_hydra(&mut wrapper);
    (wrapper, heads)
}

pub(crate) fn wait_for_hydra(wrapper: &mut Wrapper) -> Vec<Watched> {
    wrapper.hear("Started");
    let mut heads = Vec::new();
    until("the hydra has three heads", || {
        // In this order: before both say so, there are others that help them into the world.
        let all_born = wrapper.file("near").exists() && wrapper.file("far").exists();
        heads = wrapper.work();
        all_born && heads.len() == 3
    });
    heads
}

pub(crate) fn all_ended(processes: &[Watched]) -> bool {
    processes.iter().all(Watched::has_ended)
}
