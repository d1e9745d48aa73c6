//! The guardian records a successful end in the place of a wrapper that cannot.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{LONG, Watched, Wrapper, until};

fn start(code: &str) -> Wrapper {
    let set_up = |wrapper: &mut Command, folder: &Path| {
        wrapper.env("TENURE_TEST_RECORD", folder.join("record"));
    };
    let mut wrapper = Wrapper::start_with("auto", &["sh", "-c", "exit $TENURE_TEST"], set_up);
    wrapper.say(&format!("begin {LONG} {code}"));
    wrapper
}

fn kill(wrapper: &mut Wrapper) {
    let guardian = wrapper.role("__guardian");
    Watched::new(wrapper.pid()).signal(Signal::KILL);
    wrapper.reap();
    until("the life file is free", || wrapper.life_is_free());
    until("the guardian is gone", || guardian.has_ended());
}

#[test]
fn a_successful_end_is_recorded_before_the_lease_is_free() {
    let mut wrapper = start("0");
    wrapper.hear("Gone");
    Watched::new(wrapper.pid()).signal(Signal::KILL);
    until("the life file is free", || wrapper.life_is_free());
    let record = fs::read_to_string(wrapper.file("record")).unwrap();
    assert_eq!(record, format!("{:?}", wrapper.file("record")));
}

#[test]
fn what_is_recorded_or_did_not_end_well_is_not_recorded_again() {
    let mut wrapper = start("0");
    wrapper.hear("Gone");
    wrapper.say("recorded");
    // Answered after it, so that the guardian has read it.
    wrapper.say(&format!("begin {LONG} 1"));
    wrapper.hear("Gone");
    kill(&mut wrapper);
    assert!(!wrapper.file("record").exists());

    let mut wrapper = start("0");
    wrapper.hear("Gone");
    wrapper.say("recorded");
    wrapper.close();
    assert!(!wrapper.file("record").exists());
}

#[test]
fn a_recorder_that_hangs_is_ended_at_must_stop() {
    let mut wrapper = start("1");
    wrapper.hear("Gone");
    // Nobody reads from it: whoever opens it for writing waits for ever.
    rustix::fs::mknodat(
        rustix::fs::CWD,
        wrapper.file("record"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    wrapper.say(&format!("begin {LONG} 0"));
    wrapper.hear("Ended(Code(0))");
    wrapper.hear("Gone");
    wrapper.say("extend 500 1000");
    wrapper.hear("extended");
    kill(&mut wrapper);
}

#[test]
fn an_end_by_order_is_no_success_to_record() {
    let set_up = |wrapper: &mut Command, folder: &Path| {
        wrapper.env("TENURE_TEST_RECORD", folder.join("record"));
    };
    let script = "trap 'exit 0' TERM; echo child ready; while :; do sleep 0.01; done";
    let mut wrapper = Wrapper::start_with("auto", &["sh", "-c", script], set_up);
    wrapper.say(&format!("begin {LONG}"));
    wrapper.hear("child ready");
    wrapper.say("stop 600000");
    wrapper.hear("Ended(Code(0))");
    wrapper.hear("Gone");
    kill(&mut wrapper);
    assert!(!wrapper.file("record").exists());
}
