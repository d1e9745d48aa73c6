//! How the command's processes are kept together.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Pid;

use crate::harness::{HYDRA, LONG, TENURE, Wrapper, all_ended, until, wait_for_hydra};

/// Runs the wrapper as a user without any privilege.
pub(crate) fn as_nobody(wrapper: &mut Command, folder: &Path) {
    let words: Vec<_> = wrapper.get_args().map(std::ffi::OsStr::to_owned).collect();
    let mut other = Command::new("setpriv");
    other.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups", TENURE]).args(words);
    other.env("FOLDER", folder);
    for file in [folder, &folder.join("life")] {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(file, all).unwrap();
    }
    *wrapper = other;
}

#[test]
fn a_namespace_shows_the_command_only_itself() {
    let script = r#"echo "me $$"; echo "all" $(ls /proc | grep '^[0-9]' | wc -l); echo "user $(id -u)""#;
    let mut wrapper = Wrapper::launch("on", &["sh", "-c", script], |_, _| {});
    assert_eq!(wrapper.hear("ready"), "ready PID namespace");
    wrapper.say(&format!("begin {LONG}"));
    assert_eq!(wrapper.hear("me"), "me 2");
    let seen: u32 = wrapper.hear("all")["all ".len()..].parse().unwrap();
    assert!(seen <= 6, "{seen}");
    wrapper.hear("Gone");
    wrapper.close();
}

#[test]
fn without_privileges_a_namespace_comes_in_a_user_namespace_and_the_user_stays() {
    let script = r#"echo "me $$ $(id -u)"; grep ^Cap /proc/self/status | tr '\t' ' '; sleep 1000 & exit 4"#;
    let mut wrapper = Wrapper::launch("on", &["sh", "-c", script], as_nobody);
    assert_eq!(wrapper.hear("ready"), "ready PID namespace in a user namespace");
    wrapper.say(&format!("begin {LONG}"));
    let nobody = wrapper.hear("me");
    assert!(nobody.starts_with("me 2 ") && !nobody.ends_with(" 0"), "{nobody}");
    for set in ["Prm", "Eff", "Amb"] {
        assert_eq!(wrapper.hear(&format!("Cap{set}")), format!("Cap{set}: 0000000000000000"));
    }
    wrapper.hear("Ended(Code(4))");
    wrapper.hear("Gone");
    wrapper.close();
}

#[test]
fn without_privileges_auto_needs_none() {
    let script = "cat /proc/self/cgroup | tail -1; exit 4";
    let mut wrapper = Wrapper::launch("auto", &["sh", "-c", script], as_nobody);
    assert_eq!(wrapper.hear("ready"), "ready process tree");
    wrapper.say(&format!("begin {LONG}"));
    wrapper.hear("Ended(Code(4))");
    wrapper.hear("Gone");
    wrapper.close();
}

#[test]
fn a_namespace_that_cannot_be_had_is_an_error_at_the_start() {
    // Inside a user namespace that permits no more of them, and no PID namespace.
    let mut wrapper = Wrapper::launch("on", &["true"], |wrapper, folder| {
        let words: Vec<_> = wrapper.get_args().map(std::ffi::OsStr::to_owned).collect();
        let mut other = Command::new("unshare");
        let script = r#"echo 0 > /proc/sys/user/max_pid_namespaces; exec "$0" "$@""#;
        other.args(["--user", "--map-root-user", "sh", "-c", script, TENURE]).args(words);
        other.env("FOLDER", folder);
        *wrapper = other;
    });
    let said = wrapper.hear("failed");
    assert!(said.contains("the kernel refuses a PID namespace"), "{said}");
}

#[test]
fn a_control_group_holds_all_that_the_command_starts_and_is_removed() {
    let mut wrapper = Wrapper::start("auto", &["sh", "-c", HYDRA]);
    let guardian = wrapper.role("__guardian").pid.as_raw_pid();
    let own = fs::read_to_string(format!("/proc/{guardian}/cgroup")).unwrap();
    let to_be_had = control_group_to_be_had(&own);
    if to_be_had {
        until("the stub is in the group", || is_in_group(wrapper.role("__exec").pid, guardian));
    }
    wrapper.say(&format!("begin {LONG}"));
    let heads = wait_for_hydra(&mut wrapper);
    for head in &heads {
        assert_eq!(is_in_group(head.pid, guardian), to_be_had, "beside {own}");
    }
    wrapper.say("kill");
    wrapper.hear("Gone");
    assert!(all_ended(&heads));
    wrapper.close();
}

#[test]
fn the_control_group_outlives_a_term_that_was_killed() {
    let script = "grep ^0:: /proc/self/cgroup; echo child ready; exec sleep 1000";
    let mut wrapper = Wrapper::start("auto", &["sh", "-c", script]);
    let guardian = wrapper.role("__guardian").pid.as_raw_pid();
    let own = fs::read_to_string(format!("/proc/{guardian}/cgroup")).unwrap();
    if !control_group_to_be_had(&own) {
        return;
    }
    for _ in 0..3 {
        until("the stub is in the group", || is_in_group(wrapper.role("__exec").pid, guardian));
        wrapper.say(&format!("begin {LONG}"));
        let group = wrapper.hear("0::");
        assert!(group.contains(&format!("/tenure-{guardian}-")), "{group}");
        wrapper.hear("child ready");
        wrapper.say("kill");
        wrapper.hear("Gone");
    }
    wrapper.close();
}

#[test]
fn a_command_that_starts_at_once_enters_the_control_group_while_it_runs() {
    let mut wrapper = Wrapper::start("auto", &["sh", "-c", "echo child ready; exec sleep 1000"]);
    wrapper.say(&format!("begin {LONG}"));
    wrapper.hear("child ready");
    let guardian = wrapper.role("__guardian").pid.as_raw_pid();
    let own = fs::read_to_string(format!("/proc/{guardian}/cgroup")).unwrap();
    let work = wrapper.work();
    if control_group_to_be_had(&own) {
        until("the command is in the group", || is_in_group(work[0].pid, guardian));
    }
    wrapper.say("kill");
    wrapper.hear("Gone");
    assert!(all_ended(&work));
    wrapper.close();
}

/// Tells whether a process is in the control group of a guardian's command.
fn is_in_group(process: Pid, guardian: i32) -> bool {
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", process.as_raw_pid())).unwrap_or_default();
    groups.lines().any(|line| line.contains(&format!("/tenure-{guardian}-")))
}

/// Tells whether this machine lets us make a control group of version 2 that can be killed.
fn control_group_to_be_had(own: &str) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount =
        mounts.lines().find(|line| line.contains(" - cgroup2 ")).and_then(|line| line.split(' ').nth(4));
    let group = own.lines().find_map(|line| line.strip_prefix("0::/"));
    let (Some(mount), Some(group)) = (mount, group) else { return false };
    let probe = Path::new(mount).join(group).join(format!("tenure-probe-{}", std::process::id()));
    let made = fs::create_dir(&probe).is_ok();
    let killable = made && probe.join("cgroup.kill").exists();
    let _ = fs::remove_dir(&probe);
    killable
}
