//! Processes that survive SIGKILL: they are named, and nobody is said to be gone.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::harness::{LONG, Watched, Wrapper, until};
use crate::isolation::as_nobody;

/// Dies with the test at the latest.
struct Survivor(Watched);

impl Drop for Survivor {
    fn drop(&mut self) {
        self.0.signal(Signal::KILL);
    }
}

/// Starts a wrapper without privileges whose command has become root: it may not be killed by anybody else.
fn start() -> (Wrapper, Survivor) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let become_root = folder.path().join("become_root");
    fs::copy("/usr/bin/setpriv", &become_root).unwrap();
    fs::set_permissions(&become_root, fs::Permissions::from_mode(0o4755)).unwrap();
    let become_root = become_root.to_str().unwrap();
    let command = [become_root, "--reuid", "0", "--regid", "0", "--clear-groups", "sleep", "1000"];
    let mut wrapper = Wrapper::start_with("off", &command, as_nobody);
    wrapper.say(&format!("begin {LONG}"));
    wrapper.hear("Started");
    let mut work = Vec::new();
    until("it sleeps", || {
        work = wrapper.work();
        work.len() == 1
            && fs::read_to_string(format!("/proc/{}/comm", work[0].pid.as_raw_pid())).unwrap() == "sleep\n"
    });
    (wrapper, Survivor(work.remove(0)))
}

#[test]
fn the_guardian_names_them_until_they_are_gone() {
    let (mut wrapper, survivor) = start();
    wrapper.say("kill");
    let said = wrapper.hear("Unkillable");
    let name = format!("Survivor {{ pid: {}, name: \"sleep\" }}", survivor.0.pid.as_raw_pid());
    assert!(said.contains(&name), "{said}");
    assert!(!wrapper.has_heard("Gone"));
    drop(survivor);
    wrapper.hear("Gone { ending: Some(Signal(9)), stopped: true, guardian_died: false }");
    wrapper.close();
}

#[test]
fn the_wrapper_names_them_in_the_place_of_a_guardian_that_died() {
    let (mut wrapper, survivor) = start();
    let keeper = wrapper.role("__keeper");
    wrapper.role("__guardian").signal(Signal::KILL);
    let said = wrapper.hear("Unkillable");
    assert!(said.contains("name: \"sleep\""), "{said}");
    assert!(!wrapper.has_heard("Gone"));
    drop(survivor);
    wrapper.hear("Gone { ending: None, stopped: false, guardian_died: true }");
    assert!(keeper.has_ended());
    wrapper.close();
}

#[test]
fn the_lease_of_a_wrapper_that_was_killed_stays_taken() {
    let (mut wrapper, survivor) = start();
    let guardian = wrapper.role("__guardian");
    let before = switches(&guardian);
    Watched::new(wrapper.pid()).signal(Signal::KILL);
    wrapper.reap();
    until("the guardian has tried five times", || switches(&guardian) >= before + 5);
    assert!(!survivor.0.has_ended() && !wrapper.life_is_free());
    drop(survivor);
    until("the life file is free", || wrapper.life_is_free());
}

/// How often a process has gone to sleep.
fn switches(process: &Watched) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid.as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    line.trim().parse().unwrap()
}
