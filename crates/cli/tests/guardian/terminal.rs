//! A command that gets the terminal, and gives it back.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::tcgetpgrp;

use crate::harness::{LONG, TENURE, Watched, Wrapper, below, until};

/// A terminal with a wrapper as the foreground of its session.
struct Session {
    keyboard: File,
    wrapper: Wrapper,
    orders: File,
    group: Pid,
}

impl Session {
    fn start(isolate: &str, script: &str) -> Self {
        Self::start_by(r#"exec "$@" < "$FOLDER/orders""#, isolate, script)
    }

    fn start_by(shell: &str, isolate: &str, script: &str) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = OsString::from_vec(ptsname(&keyboard, Vec::new()).unwrap().into_bytes());
        let noctty = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let screen = OpenOptions::new().read(true).write(true).custom_flags(noctty).open(name).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let (life, pipe) = (folder.path().join("life"), folder.path().join("orders"));
        File::create(&life).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        // The terminal is made that of a new session while it is the standard input; the orders come afterwards.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "sh", "-c", shell, "sh", TENURE, "__drive", isolate]);
        command.arg(&life).args(["/dev/tty", "--", "sh", "-c", script]).env("FOLDER", folder.path());
        let mut wrapper = Wrapper::over(&mut command, Stdio::from(screen), folder, life);
        let orders = OpenOptions::new().write(true).open(&pipe).unwrap();
        wrapper.hear("ready");
        let group = tcgetpgrp(&keyboard).unwrap();
        Self { keyboard: keyboard.into(), wrapper, orders, group }
    }

    fn say(&mut self, order: &str) {
        writeln!(self.orders, "{order}").unwrap();
    }

    fn type_in(&mut self, keys: &[u8]) {
        self.keyboard.write_all(keys).unwrap();
    }

    fn foreground(&self) -> Pid {
        tcgetpgrp(&self.keyboard).unwrap()
    }

    fn close(mut self) {
        drop(self.orders);
        self.wrapper.hear("closed");
    }
}

/// Starts nobody: a shell that forks just when the terminal stops its group may wait for a stopped child for ever.
const SCRIPT: &str = r#"
    trap 'echo "child got int"; exit 5' INT
    echo "child ready"
    while read -r line; do echo "child read $line"; done"#;

#[test]
fn the_command_has_the_keyboard_and_the_wrapper_gets_the_terminal_back() {
    for isolate in ["off", "auto", "on"] {
        let mut session = Session::start(isolate, SCRIPT);
        for _ in 0..2 {
            session.say(&format!("begin {LONG}"));
            session.wrapper.hear("child ready");
            assert_ne!(session.foreground(), session.group);
            session.type_in(b"hello\n");
            session.wrapper.hear("child read hello");
            session.type_in(b"\x03");
            session.wrapper.hear("child got int");
            session.wrapper.hear("Ended(Code(5))");
            session.wrapper.hear("Gone");
            assert_eq!(session.foreground(), session.group);
        }
        session.close();
    }
}

#[test]
fn a_command_that_the_terminal_stops_is_reported_and_can_be_continued() {
    for isolate in ["off", "on"] {
        let mut session = Session::start(isolate, SCRIPT);
        session.say(&format!("begin {LONG}"));
        session.wrapper.hear("child ready");
        session.type_in(b"\x1a");
        assert_eq!(
            session.wrapper.hear("Stopped"),
            format!("Stopped {{ signal: {} }}", Signal::TSTP.as_raw())
        );
        assert_eq!(session.foreground(), session.group);
        session.say(&format!("signal {}", Signal::CONT.as_raw()));
        until("it is in front again", || session.foreground() != session.group);
        session.type_in(b"again\n");
        session.wrapper.hear("child read again");
        session.type_in(b"\x1a");
        session.wrapper.hear("Stopped");
        session.say("stop 600000");
        session.wrapper.hear("Ended(Signal(15))");
        session.wrapper.hear("Gone");
        session.close();
    }
}

#[test]
fn the_terminal_comes_back_from_a_guardian_and_a_keeper_that_were_killed() {
    for role in ["__guardian", "__keeper"] {
        let mut session = Session::start("off", SCRIPT);
        session.say(&format!("begin {LONG}"));
        session.wrapper.hear("child ready");
        session.wrapper.role(role).signal(Signal::KILL);
        session.wrapper.hear("Gone");
        assert_eq!(session.foreground(), session.group);
        session.say(&format!("begin {LONG}"));
        session.wrapper.hear("child ready");
        session.type_in(b"\x03");
        session.wrapper.hear("Ended(Code(5))");
        session.close();
    }
}

#[test]
fn a_wrapper_in_the_background_takes_the_terminal_from_nobody() {
    let script = r#"echo "child ready"; while :; do sleep 0.01; done"#;
    let mut session = Session::start_by(r#"set -m; "$@" < "$FOLDER/orders" & wait"#, "off", script);
    session.say(&format!("begin {LONG}"));
    session.wrapper.hear("child ready");
    assert_eq!(session.foreground(), session.group);
    session.say("kill");
    session.wrapper.hear("Gone");
    assert_eq!(session.foreground(), session.group);
    session.close();
}

#[test]
fn with_a_terminal_too_nobody_survives_the_wrapper() {
    let mut session = Session::start("off", SCRIPT);
    session.say(&format!("begin {LONG}"));
    session.wrapper.hear("child ready");
    let all: Vec<Watched> = below(session.wrapper.pid()).into_iter().map(Watched::new).collect();
    Watched::new(session.wrapper.pid()).signal(Signal::KILL);
    until("all are gone", || all.iter().all(Watched::has_ended));
}
