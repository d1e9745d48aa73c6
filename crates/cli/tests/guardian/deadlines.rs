//! What the clock demands.

use rustix::process::Signal;

use crate::harness::{HYDRA, LONG, Watched, Wrapper, all_ended, until, wait_for_hydra};

#[test]
fn sigterm_comes_at_the_deadline_and_sigkill_at_must_stop() {
    for isolate in ["off", "auto", "on"] {
        let script = r#"trap 'echo "child got term"' TERM; echo "child ready"; while :; do sleep 0.01; done"#;
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("child ready");
        wrapper.say("extend 200 700");
        wrapper.hear("child got term");
        assert!(!wrapper.has_heard("Ended"));
        wrapper.hear("Ended(Signal(9))");
        wrapper.hear("Gone { ending: Some(Signal(9)), stopped: true, guardian_died: false }");
        wrapper.close();
    }
}

#[test]
fn an_extension_in_time_keeps_the_command_alive() {
    let mut wrapper = Wrapper::start("off", &["sh", "-c", "sleep 4; exit 7"]);
    wrapper.say("begin 3000 3500");
    wrapper.say(&format!("extend {LONG}"));
    wrapper.hear("Ended(Code(7))");
    wrapper.hear("Gone");
    wrapper.close();
}

#[test]
fn an_extension_after_the_order_to_stop_is_not_heeded() {
    let mut wrapper =
        Wrapper::start("off", &["sh", "-c", "trap '' TERM; echo child ready; while :; do sleep 0.01; done"]);
    wrapper.say(&format!("begin {LONG}"));
    wrapper.hear("child ready");
    wrapper.say("stop 300");
    wrapper.say("extend 800000 900000");
    wrapper.hear("Ended(Signal(9))");
    wrapper.hear("Gone { ending: Some(Signal(9)), stopped: true, guardian_died: false }");
    wrapper.close();
}

#[test]
fn nothing_is_started_after_its_deadline() {
    for isolate in ["off", "on"] {
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", "echo > $FOLDER/started"]);
        wrapper.say("begin 0 1000");
        wrapper.hear_next("Ended(Late)");
        wrapper.hear_next("Gone { ending: Some(Late), stopped: false, guardian_died: false }");
        assert!(!wrapper.file("started").exists());
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("Ended(Code(0))");
        wrapper.hear("Gone");
        assert!(wrapper.file("started").exists(), "the next term is not spoilt");
        wrapper.close();
    }
}

#[test]
fn a_stopped_wrapper_does_not_keep_the_command_alive_past_must_stop() {
    for isolate in ["off", "auto", "on"] {
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", HYDRA]);
        wrapper.say(&format!("begin {LONG}"));
        let heads = wait_for_hydra(&mut wrapper);
        wrapper.say("extend 300 600");
        wrapper.hear("extended");
        let stopped = Watched::new(wrapper.pid());
        stopped.signal(Signal::STOP);
        until("all are gone", || all_ended(&heads));
        stopped.signal(Signal::CONT);
        wrapper.hear("Ended(Signal(9))");
        wrapper.hear("Gone { ending: Some(Signal(9)), stopped: true, guardian_died: false }");
        wrapper.close();
    }
}

#[test]
fn wrapper_and_guardian_stopped_at_once_do_not_keep_the_command_alive_past_must_stop() {
    let mut wrapper = Wrapper::start("off", &["sh", "-c", HYDRA]);
    wrapper.say(&format!("begin {LONG}"));
    let heads = wait_for_hydra(&mut wrapper);
    let (guardian, keeper) = (wrapper.role("__guardian"), wrapper.role("__keeper"));
    let stopped = Watched::new(wrapper.pid());
    wrapper.say("extend 1500 2000");
    wrapper.hear("extended");
    // It sleeps again: it has passed the extension on.
    until("the guardian and the keeper have read it", || guardian.sleeps() && keeper.sleeps());
    stopped.signal(Signal::STOP);
    guardian.signal(Signal::STOP);
    until("all are gone", || all_ended(&heads));
    stopped.signal(Signal::CONT);
    wrapper.hear("Gone { ending: None, stopped: false, guardian_died: true }");
    wrapper.hear("ready");
    wrapper.close();
}
