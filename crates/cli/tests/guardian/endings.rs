//! How the command begins and ends.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::harness::{LONG, Watched, Wrapper, all_ended, hydra, stat, until};

const EACH: [&str; 3] = ["off", "auto", "on"];

#[test]
fn a_code_and_a_signal_are_reported_and_the_next_term_begins() {
    for isolate in EACH {
        let script = r#"[ "$TENURE_TEST" = die ] && kill -9 $$; exit "$TENURE_TEST""#;
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        for (how, ending) in [("0", "Code(0)"), ("7", "Code(7)"), ("die", "Signal(9)"), ("255", "Code(255)")]
        {
            wrapper.say(&format!("begin {LONG} {how}"));
            wrapper.hear("Started");
            wrapper.hear_next(&format!("Ended({ending})"));
            wrapper.hear_next(&format!(
                "Gone {{ ending: Some({ending}), stopped: false, guardian_died: false }}"
            ));
        }
        wrapper.close();
    }
}

#[test]
fn what_the_command_leaves_behind_is_gone_before_it_is_said() {
    for isolate in EACH {
        let script = r#"
            (trap '' TERM; exec sleep 1000) &
            (setsid sh -c 'echo > "$FOLDER/far"; exec sleep 1000' &)
            while ! [ -e "$FOLDER/go" ]; do sleep 0.01; done
            exit 3"#;
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("Started");
        until("the grandchild is there", || wrapper.file("far").exists());
        let work = wrapper.work();
        assert!(work.len() >= 3);
        fs::write(wrapper.file("go"), "").unwrap();
        wrapper.hear("Ended(Code(3))");
        wrapper.hear("Gone");
        assert!(all_ended(&work));
        wrapper.close();
    }
}

#[test]
fn a_command_that_cannot_be_executed_is_told_apart_from_one_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    fs::write(&script, "").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    let script = script.to_str().unwrap();
    for isolate in EACH {
        for (command, ending) in [("/does/not/exist", "NotFound"), (script, "NotExecutable")] {
            let mut wrapper = Wrapper::start(isolate, &[command]);
            wrapper.say(&format!("begin {LONG}"));
            let said = wrapper.hear("Ended");
            assert!(said.starts_with(&format!("Ended({ending} {{ reason: \"{command}: ")), "{said}");
            wrapper.hear("Gone");
            assert!(!wrapper.has_heard("Started"));
            wrapper.close();
        }
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", "exit 127"]);
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("Started");
        wrapper.hear_next("Ended(Code(127))");
        wrapper.close();
    }
}

#[test]
fn arguments_need_not_be_text_and_the_environment_arrives() {
    let odd = OsString::from_vec(b"a\xff b\n".to_vec());
    let command = ["sh", "-c", r#"printf %s "$1" > "$FOLDER/odd"; echo "said: $TENURE_TEST""#, "sh"];
    let mut words: Vec<OsString> = command.iter().map(OsString::from).collect();
    words.push(odd.clone());
    let mut wrapper = Wrapper::start("auto", &words);
    wrapper.say(&format!("begin {LONG} with some words"));
    wrapper.hear("said: with some words");
    wrapper.hear("Gone");
    assert_eq!(fs::read(wrapper.file("odd")).unwrap(), odd.into_vec());
    wrapper.close();
}

#[test]
fn the_command_notices_nothing_of_its_supervisors() {
    let script = r#"
        sed -n 's/^SigBlk:/here blocked/p; s/^SigIgn:/here ignored/p' /proc/self/status
        echo "here oom $(cat /proc/self/oom_score_adj)"
        echo here files $(ls /proc/self/fd) input $(readlink /proc/$$/fd/0)
        [ $(ps -o pgid= -p $$) = $$ ] && echo "here a group of its own"
        echo "here end""#;
    let bare =
        Command::new("sh").args(["-c", script]).stdin(Stdio::null()).process_group(0).output().unwrap();
    let bare = String::from_utf8(bare.stdout).unwrap();
    assert_eq!(bare.lines().count(), 6, "{bare}");
    for isolate in EACH {
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        wrapper.say(&format!("begin {LONG}"));
        for line in bare.lines() {
            assert_eq!(wrapper.hear("here"), line);
        }
        wrapper.hear("Gone");
        wrapper.close();
    }
}

#[test]
fn signals_are_passed_on() {
    for isolate in EACH {
        let script = r#"
            trap 'echo "child got usr1"' USR1
            echo "child ready"
            while ! [ -e "$FOLDER/go" ]; do sleep 0.01; done
            exit 0"#;
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        wrapper.say(&format!("signal {}", Signal::USR1.as_raw()));
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("child ready");
        wrapper.say(&format!("signal {}", Signal::USR1.as_raw()));
        wrapper.hear("child got usr1");
        fs::write(wrapper.file("go"), "").unwrap();
        wrapper.hear("Ended(Code(0))");
        wrapper.close();
    }
}

#[test]
fn an_order_to_stop_is_sigterm_to_all_and_sigkill_in_time() {
    for isolate in EACH {
        let script = r#"
            trap 'wait; exit 5' TERM
            sh -c 'trap "echo grandchild got term; exit" TERM; echo child ready; while :; do sleep 0.01; done' &
            wait"#;
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("child ready");
        wrapper.say("stop 600000");
        wrapper.hear("grandchild got term");
        wrapper.hear("Ended(Code(5))");
        wrapper.hear("Gone");
        wrapper.close();

        let (mut wrapper, heads) = hydra(isolate);
        wrapper.say("stop 200");
        wrapper.hear("Ended(Signal(9))");
        wrapper.hear("Gone { ending: Some(Signal(9)), stopped: true, guardian_died: false }");
        assert!(all_ended(&heads));
        wrapper.close();
    }
}

#[test]
fn an_order_to_stop_right_after_the_start_is_not_lost() {
    for isolate in EACH {
        let script = r#"trap 'exit 5' TERM; while :; do sleep 0.01; done"#;
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        wrapper.say(&format!("begin {LONG}"));
        wrapper.say("stop 600000");
        let ending = wrapper.hear("Ended");
        assert!(["Ended(Code(5))", "Ended(Signal(15))"].contains(&ending.as_str()), "{ending}");
        wrapper.hear("Gone");
        wrapper.close();
    }
}

#[test]
fn a_stopped_command_gets_sigterm_too() {
    let mut wrapper = Wrapper::start("off", &["sh", "-c", "trap 'exit 5' TERM; kill -STOP $$; exit 6"]);
    wrapper.say(&format!("begin {LONG}"));
    wrapper.hear("Started");
    until("it is stopped", || wrapper.work().iter().any(crate::harness::Watched::is_stopped));
    wrapper.say("stop 600000");
    wrapper.hear("Ended(Code(5))");
    wrapper.close();
}

#[test]
fn an_order_to_kill_is_sigkill_at_once() {
    for isolate in EACH {
        let (mut wrapper, heads) = hydra(isolate);
        wrapper.say("kill");
        wrapper.hear("Gone");
        assert!(all_ended(&heads));
        wrapper.close();
    }
}

#[test]
fn supervisors_are_in_a_session_of_their_own() {
    let (mut wrapper, _) = hydra("off");
    let session = |pid| stat(pid).unwrap()[3].clone();
    let (guardian, keeper) = (wrapper.role("__guardian"), wrapper.role("__keeper"));
    assert_ne!(session(wrapper.pid()), session(guardian.pid));
    assert_eq!(session(guardian.pid), session(keeper.pid));
    wrapper.say("kill");
    wrapper.hear("Gone");
    wrapper.close();
}

#[test]
fn a_command_that_exits_with_zero_because_it_is_stopped_is_told_apart() {
    let script = r#"trap 'exit 0' TERM; echo child ready; while :; do sleep 0.01; done"#;
    for isolate in EACH {
        for order in ["stop 600000", "extend 100 600000"] {
            let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
            wrapper.say(&format!("begin {LONG}"));
            wrapper.hear("child ready");
            wrapper.say(order);
            wrapper.hear("Gone { ending: Some(Code(0)), stopped: true, guardian_died: false }");
            wrapper.close();
        }
    }
}

#[test]
fn a_signal_to_the_stub_that_waits_does_not_reach_the_command() {
    for isolate in EACH {
        let mut wrapper = Wrapper::start(isolate, &["true"]);
        let stub = wrapper.role("__exec");
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            stub.signal(signal);
        }
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("Started");
        wrapper.hear_next("Ended(Code(0))");
        wrapper.close();
    }
}

#[test]
fn a_command_that_is_stopped_without_a_terminal_is_nothing_to_report() {
    for isolate in EACH {
        let script = "kill -STOP $$; exit 6";
        let mut wrapper = Wrapper::start(isolate, &["sh", "-c", script]);
        wrapper.say(&format!("begin {LONG}"));
        wrapper.hear("Started");
        until("it is stopped", || wrapper.work().iter().any(Watched::is_stopped));
        wrapper.say(&format!("signal {}", Signal::CONT.as_raw()));
        wrapper.hear_next("Ended(Code(6))");
        wrapper.close();
    }
}
