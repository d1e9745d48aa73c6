//! Supervisors that are killed or stopped: nothing of the command is left when the lease may move.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{LONG, TENURE, Watched, Wrapper, all_ended, hydra, until, wait_for_hydra};

const EACH: [&str; 3] = ["off", "auto", "on"];

/// Kills supervisors at once, the wrapper included, and waits until the life file is free.
fn the_lease_is_free_only_after_all_are_gone(isolate: &str, roles: &[&str]) {
    let (mut wrapper, heads) = hydra(isolate);
    let (guardian, keeper) = (wrapper.role("__guardian"), wrapper.role("__keeper"));
    let doomed: Vec<Watched> = roles.iter().map(|role| wrapper.role(role)).collect();
    assert!(!wrapper.life_is_free());
    Watched::new(wrapper.pid()).signal(Signal::KILL);
    for supervisor in doomed {
        supervisor.signal(Signal::KILL);
    }
    until("the life file is free", || wrapper.life_is_free());
    assert!(all_ended(&heads), "{isolate}: work after the wrapper{roles:?}'s lease was free");
    wrapper.reap();
    until("the supervisors are gone", || guardian.has_ended() && keeper.has_ended());
    assert_no_group_left(wrapper.group().as_deref());
}

/// Kills supervisors at once, not the wrapper, and waits until it says that all are gone.
fn the_wrapper_reaps_and_goes_on(isolate: &str, roles: &[&str], report: &str) {
    let (mut wrapper, heads) = hydra(isolate);
    let group = wrapper.group();
    let doomed: Vec<Watched> = roles.iter().map(|role| wrapper.role(role)).collect();
    for supervisor in doomed {
        supervisor.signal(Signal::KILL);
    }
    let said = wrapper.hear("Gone");
    assert!(said.ends_with(report), "{said}");
    assert!(all_ended(&heads), "{isolate}: work after {roles:?} was said to be gone");
    if report.contains("true") {
        wrapper.hear("ready");
        assert_no_group_left(group.as_deref());
    }
    wrapper.say(&format!("begin {LONG}"));
    let heads = wait_for_hydra(&mut wrapper);
    wrapper.say("kill");
    wrapper.hear("Gone");
    assert!(all_ended(&heads));
    wrapper.close();
}

/// Where there are control groups at all.
fn assert_no_group_left(group: Option<&Path>) {
    if let Some(group) = group {
        assert!(!group.exists(), "{} is left", group.display());
    }
}

#[test]
fn the_wrapper_is_killed() {
    for isolate in EACH {
        the_lease_is_free_only_after_all_are_gone(isolate, &[]);
    }
}

#[test]
fn the_wrapper_and_the_guardian_are_killed() {
    for isolate in EACH {
        the_lease_is_free_only_after_all_are_gone(isolate, &["__guardian"]);
    }
}

#[test]
fn the_wrapper_and_the_keeper_are_killed() {
    for isolate in EACH {
        the_lease_is_free_only_after_all_are_gone(isolate, &["__keeper"]);
    }
}

#[test]
fn the_guardian_is_killed() {
    for isolate in EACH {
        the_wrapper_reaps_and_goes_on(isolate, &["__guardian"], "guardian_died: true }");
    }
}

#[test]
fn the_guardian_is_killed_where_the_session_belongs_to_a_namespace_above() {
    let mut wrapper =
        Wrapper::start_with("off", &["sh", "-c", "echo child ready; exec sleep 1000"], |wrapper, folder| {
            let words: Vec<_> = wrapper.get_args().map(OsStr::to_owned).collect();
            let mut other = Command::new("unshare");
            other.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", TENURE]).args(words);
            other.env("FOLDER", folder);
            *wrapper = other;
        });
    wrapper.say(&format!("begin {LONG}"));
    wrapper.hear("child ready");
    let work = wrapper.work();
    wrapper.role("__guardian").signal(Signal::KILL);
    let said = wrapper.hear("Gone");
    assert!(said.ends_with("guardian_died: true }"), "{said}");
    assert!(all_ended(&work));
    wrapper.hear("ready");
    wrapper.close();
}

#[test]
fn the_keeper_is_killed() {
    for isolate in EACH {
        the_wrapper_reaps_and_goes_on(isolate, &["__keeper"], "guardian_died: false }");
    }
}

#[test]
fn the_guardian_and_the_keeper_are_killed() {
    for isolate in EACH {
        the_wrapper_reaps_and_goes_on(isolate, &["__guardian", "__keeper"], "guardian_died: true }");
    }
}

#[test]
fn all_three_are_killed_in_a_namespace() {
    let (wrapper, heads) = hydra("on");
    let doomed = [wrapper.role("__guardian"), wrapper.role("__keeper"), Watched::new(wrapper.pid())];
    for supervisor in doomed {
        supervisor.signal(Signal::KILL);
    }
    until("all are gone", || all_ended(&heads));
}

#[test]
fn a_guardian_that_is_stopped_is_replaced_at_once() {
    for isolate in EACH {
        let (mut wrapper, heads) = hydra(isolate);
        wrapper.role("__guardian").signal(Signal::STOP);
        wrapper.say("stop 600000");
        // The order may come before or after the wrapper has noticed.
        let said = wrapper.hear("Gone { ending: None");
        assert!(said.ends_with("guardian_died: true }"), "{said}");
        assert!(all_ended(&heads));
        wrapper.hear("ready");
        wrapper.close();
    }
}

#[test]
fn a_keeper_that_is_stopped_is_replaced_at_once() {
    for isolate in EACH {
        let (mut wrapper, heads) = hydra(isolate);
        wrapper.role("__keeper").signal(Signal::STOP);
        let said = wrapper.hear("Gone");
        assert!(said.ends_with("guardian_died: false }"), "{said}");
        assert!(all_ended(&heads));
        wrapper.close();
    }
}

#[test]
fn idle_supervisors_that_are_killed_are_replaced() {
    for isolate in EACH {
        let mut wrapper = Wrapper::start(isolate, &["true"]);
        let keeper = wrapper.role("__keeper");
        keeper.signal(Signal::KILL);
        until("another keeper", || wrapper.role("__keeper").pid != keeper.pid);
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("Gone { ending: Some(Code(0)), stopped: false, guardian_died: false }");

        wrapper.role("__guardian").signal(Signal::KILL);
        wrapper.hear("Gone { ending: None, stopped: false, guardian_died: true }");
        wrapper.hear("ready");
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("Gone { ending: Some(Code(0)), stopped: false, guardian_died: false }");
        wrapper.close();
    }
}

#[test]
fn an_idle_wrapper_that_is_killed_leaves_nobody() {
    for isolate in EACH {
        let mut wrapper = Wrapper::start(isolate, &["true"]);
        let supervisors = [wrapper.role("__guardian"), wrapper.role("__keeper")];
        Watched::new(wrapper.pid()).signal(Signal::KILL);
        until("the life file is free", || wrapper.life_is_free());
        until("nobody is left", || all_ended(&supervisors));
        assert_no_group_left(wrapper.group().as_deref());
        wrapper.reap();
    }
}

#[test]
fn what_the_wrapper_runs_beside_the_guardian_is_spared() {
    let (mut wrapper, heads) = hydra("off");
    wrapper.say("hook");
    let hook: i32 = wrapper.hear("hook ")["hook ".len()..].parse().unwrap();
    let hook = Watched::new(rustix::process::Pid::from_raw(hook).unwrap());
    let doomed = [wrapper.role("__guardian"), wrapper.role("__keeper")];
    for supervisor in &doomed {
        supervisor.signal(Signal::KILL);
    }
    wrapper.hear("Gone");
    assert!(all_ended(&heads));
    assert!(!hook.has_ended());
    hook.signal(Signal::KILL);
    wrapper.hear("hook ended Some(9)");
    wrapper.close();
}

#[test]
fn an_init_that_is_stopped_is_replaced_at_once() {
    let (mut wrapper, heads) = hydra("on");
    wrapper.role("__init").signal(Signal::STOP);
    let said = wrapper.hear("Gone");
    assert!(said.ends_with("guardian_died: false }"), "{said}");
    assert!(all_ended(&heads));
    wrapper.close();
}
