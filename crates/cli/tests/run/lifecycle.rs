//! What the command gets, what the wrapper exits with, and who hears of it.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::world::{Candidate, World, eventually, now};

fn start(world: &World, args: &[&str], script: &str) -> Candidate {
    let mut command = world.run(args);
    command.args(["--", "sh", "-c", script]).current_dir(world.directory.path());
    Candidate::start(command)
}

#[test]
fn once_exits_with_the_commands_code() {
    let world = World::new();
    for (script, code) in [("exit 0", 0), ("exit 7", 7), ("kill -USR1 $$", 128 + 10)] {
        assert_eq!(start(&world, &["--once"], script).exits(), code, "{script}");
    }
}

#[test]
fn the_command_is_told_about_its_term() {
    let world = World::new();
    let script = "env | grep ^TENURE_ | sort > told; cat $TENURE_DEADLINE_FILE > deadline";
    for term in 1..=2 {
        let mut candidate = start(&world, &["--once"], script);
        assert_eq!(candidate.exits(), 0);
        let told = fs::read_to_string(world.path("told")).unwrap();
        let value = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(&format!("TENURE_{name}=")));
            line.unwrap_or_else(|| panic!("no {name} in {told}")).to_owned()
        };
        assert_eq!(value("ELECTION"), "e");
        assert_eq!(value("STORE"), world.store());
        assert_eq!(value("TOKEN"), term.to_string());
        assert_eq!(value("PREVIOUS_TOKEN"), if term == 1 { String::new() } else { (term - 1).to_string() });
        assert!(value("ATTEMPTS").parse::<u32>().unwrap() >= 1);
        assert!(value("CANDIDATE").contains(&format!("_{}_", candidate.pid().as_raw_nonzero())));
        assert!(!fs::exists(value("DEADLINE_FILE")).unwrap(), "it goes with the wrapper");
        let deadline = fs::read_to_string(world.path("deadline")).unwrap();
        let deadline = Duration::from_nanos(deadline.trim().parse().unwrap());
        let left = deadline.saturating_sub(now().boot());
        assert!(left > Duration::ZERO && left < Duration::from_secs(30), "{left:?}");
    }
}

#[test]
fn the_deadline_in_the_file_moves_ahead_and_is_zero_at_the_end() {
    let world = World::new();
    let script = "trap 'cat $TENURE_DEADLINE_FILE > at_end; exit 3' TERM
        cat $TENURE_DEADLINE_FILE > first; while :; do cat $TENURE_DEADLINE_FILE > now; mv now latest; sleep 0.05; done";
    let mut candidate = start(&world, &["--ttl", "2s"], script);
    let number = |name: &str| fs::read_to_string(world.path(name)).ok()?.trim().parse::<u64>().ok();
    eventually("the deadline has moved", || (number("latest")? > number("first")?).then_some(()));
    candidate.signal(Signal::TERM);
    assert_eq!(candidate.exits(), 3);
    assert_eq!(number("at_end"), Some(0));
}

#[test]
fn whoever_does_not_wait_exits_with_75() {
    let world = World::new();
    let leader = start(&world, &[], "exec sleep 1000");
    leader.leads();
    let mut other = start(&world, &["--try"], "touch started");
    assert_eq!(other.exits(), 75);
    other.says("leads, term 1");
    let mut other = start(&world, &["--wait", "300ms"], "touch started");
    assert_eq!(other.exits(), 75);
    assert!(!world.path("started").exists());
}

#[test]
fn whoever_waits_long_enough_leads() {
    let world = World::new();
    let leader = start(&world, &[], "exec sleep 1000");
    leader.leads();
    let mut other = start(&world, &["--wait", "1h", "--once"], "exit 4");
    other.stands_by();
    leader.signal(Signal::TERM);
    assert_eq!(other.exits(), 4);
}

#[test]
fn a_lease_that_is_lost_ends_the_command_at_once() {
    let world = World::new();
    let mut leader = start(
        &world,
        &["--once", "--ttl", "3s", "--on-lost", "echo $TENURE_REASON > lost"],
        "exec sleep 1000",
    );
    leader.leads();
    fs::rename(world.store_path(), world.path("aside")).unwrap();
    assert_eq!(leader.exits(), 124);
    leader.says("term 1 ended: lost");
    assert_eq!(fs::read_to_string(world.path("lost")).unwrap(), "lost\n");
}

#[test]
fn signals_are_forwarded() {
    let world = World::new();
    let script = "trap 'touch got_usr1' USR1; touch ready; while :; do sleep 0.05; done";
    let candidate = start(&world, &[], script);
    eventually("the command listens", || world.path("ready").exists().then_some(()));
    candidate.signal(Signal::USR1);
    eventually("the command got it", || world.path("got_usr1").exists().then_some(()));
}

#[test]
fn a_second_interrupt_does_not_wait() {
    let world = World::new();
    let mut candidate = start(
        &world,
        &["--drain-timeout", "6s"],
        "trap '' INT TERM; touch ready; while :; do sleep 0.05; done",
    );
    eventually("the command runs", || world.path("ready").exists().then_some(()));
    candidate.signal(Signal::INT);
    candidate.says("stopping the command");
    let asked = now();
    candidate.signal(Signal::INT);
    assert_eq!(candidate.exits(), 128 + 9);
    assert!(now().time_since(asked) < Duration::from_secs(6));
}

#[test]
fn a_follower_that_is_interrupted_exits_with_0() {
    let world = World::new();
    let leader = start(&world, &[], "exec sleep 1000");
    leader.leads();
    let mut other = start(&world, &[], "touch started");
    other.stands_by();
    other.signal(Signal::INT);
    assert_eq!(other.exits(), 0);
}

#[test]
fn after_ctrl_z_and_continue_it_stands_again() {
    let world = World::new();
    let candidate = start(&world, &[], "exec sleep 1000");
    candidate.leads();
    candidate.signal(Signal::TSTP);
    candidate.says("term 1 ended");
    eventually("it is stopped", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", candidate.pid().as_raw_nonzero())).ok()?;
        stat.rsplit_once(')')?.1.trim_start().starts_with('T').then_some(())
    });
    candidate.signal(Signal::CONT);
    candidate.says("term 2");
}

#[test]
fn hooks_hear_of_elections_and_leaders() {
    let world = World::new();
    let leader = start(
        &world,
        &["--on-elected", "echo $TENURE_TOKEN > elected"],
        "cat elected > seen; exec sleep 1000",
    );
    leader.leads();
    eventually("the hook ran before the command", || {
        fs::read_to_string(world.path("seen")).ok().filter(|text| text == "1\n")
    });
    let _other = start(&world, &["--on-leader-change", "echo $TENURE_LEADER > changed"], "exec sleep 1000");
    let changed = eventually("the hook ran", || {
        fs::read_to_string(world.path("changed")).ok().filter(|text| text.ends_with('\n'))
    });
    assert!(changed.contains(&format!("_{}_", leader.pid().as_raw_nonzero())));
}

#[test]
fn a_hook_that_fails_keeps_the_command_from_starting() {
    let world = World::new();
    assert_eq!(start(&world, &["--once", "--on-elected", "exit 9"], "touch started").exits(), 9);
    assert!(!world.path("started").exists());
}

#[test]
fn the_service_manager_is_told() {
    let world = World::new();
    let path = world.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = world.run(&[]);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
    command.args(["--", "sh", "-c", "echo ${NOTIFY_SOCKET-none} > told; exec sleep 1000"]);
    command.current_dir(world.directory.path());
    let mut candidate = Candidate::start(command);
    let mut heard = Vec::new();
    let mut buffer = [0; 1000];
    while !["READY=1", "STATUS=elected: this process leads, term 1", "WATCHDOG=1"]
        .iter()
        .all(|text| heard.iter().any(|heard| heard == text))
    {
        let length = socket.recv(&mut buffer).unwrap();
        heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
    assert_eq!(heard[0], "READY=1");
    eventually("the command does not speak for the wrapper", || {
        fs::read_to_string(world.path("told")).ok().filter(|text| text == "none\n")
    });
    candidate.signal(Signal::TERM);
    candidate.exits();
    while heard.last().is_none_or(|heard| heard != "STOPPING=1") {
        let length = socket.recv(&mut buffer).unwrap();
        heard.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
    }
}

#[test]
fn a_lease_that_is_lost_while_the_command_is_being_stopped_kills_it_at_once() {
    let world = World::new();
    let settings = ["--ttl", "40s", "--renew-interval", "1s", "--drain-timeout", "30s"];
    let script = "trap '' TERM; touch ready; while :; do sleep 0.05; done";
    let mut candidate = start(&world, &settings, script);
    eventually("the command runs", || world.path("ready").exists().then_some(()));
    let asked = now();
    candidate.signal(Signal::TERM);
    candidate.says("stopping the command");
    fs::rename(world.store_path(), world.path("aside")).unwrap();
    assert_eq!(candidate.exits(), 128 + 9);
    candidate.says("is lost; killing the command");
    assert!(now().time_since(asked) < Duration::from_secs(30), "without grace");
}

/// A service manager's stop reaches wrapper and command at the same moment.
#[test]
fn a_stop_is_not_forgotten_when_the_command_ends_at_the_same_moment() {
    for _ in 0..10 {
        let world = World::new();
        let mut candidate = start(&world, &[], "touch ready; exec sleep 1000");
        eventually("the command runs", || world.path("ready").exists().then_some(()));
        let command = crate::world::commands_of(&candidate);
        candidate.signal(Signal::STOP);
        candidate.signal(Signal::TERM);
        for process in command {
            let _ = rustix::process::kill_process(process, Signal::TERM);
        }
        candidate.signal(Signal::CONT);
        assert_eq!(candidate.exits(), 128 + 15);
    }
}

#[test]
fn whoever_speaks_to_nobody_goes_on() {
    let world = World::new();
    let mut command = world.run(&["--once", "--verbose"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    command.args(["--", "sh", "-c", "exit 6"]).stderr(writer);
    assert_eq!(command.status().unwrap().code(), Some(6));
}

#[test]
fn whoever_is_not_read_goes_on() {
    let world = World::new();
    // The hook fails, which is to be told as well.
    let mut command = world.run(&["--once", "--verbose", "--on-leader-change", "exit 3"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let room = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
    writer.write_all(&vec![b'.'; room]).unwrap();
    command.args(["--", "sh", "-c", "exit 6"]).stdin(Stdio::null()).stderr(writer);
    assert_eq!(command.status().unwrap().code(), Some(6));
    drop(reader);
}
