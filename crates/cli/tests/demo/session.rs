//! A terminal with a demonstration in it.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use tenure::{Clock, SystemClock};

use crate::stage::{HANG, Stage};

/// The command under test.
pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

const LEAVES_SCREEN: &str = "\x1b[?1049l";

pub(crate) struct Session {
    pub(crate) stage: Stage,
    keyboard: File,
    /// Keeps the terminal's settings, also when nobody else has it open.
    screen: File,
    before: Termios,
    child: Child,
    output: Receiver<Vec<u8>>,
    pub(crate) seen: String,
}

impl Session {
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = OsString::from_vec(ptsname(&keyboard, Vec::new()).unwrap().into_bytes());
        let noctty = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let screen = OpenOptions::new().read(true).write(true).custom_flags(noctty).open(name).unwrap();
        let before = tcgetattr(&screen).unwrap();
        let stage = Stage::new();
        // The terminal is made that of a new session, in whose foreground the demonstration is. The lease is long enough
        // that a busy machine does not cost a leader its term.
        let mut command = stage.command("setsid");
        command.args(["--ctty", TENURE, "demo", "--ttl", "6s"]).envs(variables.iter().copied());
        command
            .stdin(screen.try_clone().unwrap())
            .stdout(screen.try_clone().unwrap())
            .stderr(Stdio::inherit());
        let keyboard = File::from(keyboard);
        let output = chunks_of(keyboard.try_clone().unwrap());
        let mut session = Self {
            stage,
            keyboard,
            screen,
            before,
            child: command.spawn().unwrap(),
            output,
            seen: String::new(),
        };
        session.resize(80, 24);
        session
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.keyboard, size).unwrap();
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the last whole picture, a line each, without colours.
    fn picture(&self) -> Vec<String> {
        let whole = self.seen.rfind("\x1b[J").map_or("", |end| &self.seen[..end]);
        let frame = whole.rfind("\x1b[1;1H").map_or("", |begin| &whole[begin..]);
        frame
            .split(";1H")
            .skip(1)
            .map(|line| plain(line.split("\x1b[K").next().unwrap_or_default()))
            .collect()
    }

    /// Waits until a picture shows what `found` looks for.
    #[track_caller]
    pub(crate) fn shows<T>(&mut self, what: &str, found: impl Fn(&[String]) -> Option<T>) -> T {
        let until = SystemClock.now().plus(HANG);
        loop {
            if let Some(found) = found(&self.picture()) {
                return found;
            }
            let Ok(chunk) = self.output.recv_timeout(until.time_until(SystemClock.now())) else {
                panic!("never showed {what}, but {:#?}", self.picture());
            };
            self.seen.push_str(&String::from_utf8(chunk).unwrap());
        }
    }

    /// Waits until a line begins with one text and goes on with another.
    #[track_caller]
    pub(crate) fn shows_line(&mut self, begin: &str, rest: &str) {
        let what = format!("{begin:?} … {rest:?}");
        self.shows(&what, |lines| {
            lines.iter().any(|line| line.starts_with(begin) && line.contains(rest)).then_some(())
        });
    }

    /// Waits until one candidate leads in this term, and returns the key that chooses it.
    #[track_caller]
    pub(crate) fn leader_of(&mut self, token: u64) -> &'static str {
        let leads = |letter: &str| format!("{letter} leads, term {token}.");
        self.shows(&format!("the leader of term {token}"), |lines| {
            let is_said = |letter: &str| lines.iter().any(|line| *line == leads(letter));
            [("A", "1"), ("B", "2"), ("C", "3")]
                .into_iter()
                .find(|(letter, _)| is_said(letter))
                .map(|(_, key)| key)
        })
    }

    /// Waits for the end, checks that the terminal is as it was, and returns the code.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> Option<i32> {
        let code = self.child.wait().unwrap().code();
        while !self.seen.contains(LEAVES_SCREEN) {
            let chunk = self.output.recv_timeout(HANG).expect("the screen is left");
            self.seen.push_str(&String::from_utf8(chunk).unwrap());
        }
        assert!(self.seen.ends_with(LEAVES_SCREEN), "{:?}", self.seen);
        assert_eq!(format!("{:?}", tcgetattr(&self.screen).unwrap()), format!("{:?}", self.before));
        code
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Gone already, mostly. Its candidates end with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn chunks_of(mut terminal: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = terminal.read(&mut bytes) {
            if sender.send(bytes[..length].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Takes the colours out of a line.
fn plain(line: &str) -> String {
    let mut parts = line.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}
