//! Whatever happens to the wrapper and its guardian: all descendants are gone before the other candidate's command starts.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::{Signal, kill_process};

use crate::world::{Candidate, World, eventually, rounds};

/// Short, so that what has to wait for an expiry does not wait long.
const QUICK: &[&str] = &["--ttl", "2s"];

/// Lets the first of two candidates lead, does something to it, and waits until the second one's command runs.
fn takes_over(args: &[&str], mode: &str, fault: impl Fn(&World, &mut Candidate)) {
    for round in 0..rounds() {
        let world = World::new();
        let args: Vec<_> = QUICK.iter().chain(args).copied().collect();
        let mut first = world.candidate(&args, mode);
        let token = first.leads();
        world.stamped_after(token - 1);
        let second = world.candidate(&args, mode);
        second.stands_by();
        fault(&world, &mut first);
        let next = world.stamped_after(token);
        assert_eq!(second.leads(), next, "round {round}");
        let stamps = world.stamps();
        stamps.assert_no_overlap();
        assert_eq!(world.alive_in(token), [], "round {round}");
    }
}

#[test]
fn interrupt() {
    takes_over(&[], "plain", |_, first| {
        first.signal(Signal::INT);
        // The command's own, which had no time to clean up.
        assert_eq!(first.exits(), 128 + 15);
    });
}

#[test]
fn kill_of_the_command_with_failover_on_crash() {
    takes_over(&["--failover-on-crash"], "plain", |world, first| {
        let token = first.leads();
        let pid = world.stamps().0[&token].pids[0];
        kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
        first.says("signal 9");
    });
}

#[test]
fn stop_of_the_wrapper() {
    takes_over(&[], "plain", |_, first| first.signal(Signal::STOP));
}

#[test]
fn stop_of_the_wrapper_with_a_deaf_command() {
    takes_over(&[], "deaf", |_, first| first.signal(Signal::STOP));
}

#[test]
fn stop_of_the_whole_process_group() {
    takes_over(&[], "plain", |_, first| first.signal_group(Signal::STOP));
}

#[test]
fn ctrl_z() {
    takes_over(&[], "plain", |_, first| {
        first.signal_group(Signal::TSTP);
        first.says("before this process is stopped");
    });
}

#[test]
fn kill_of_the_wrapper() {
    takes_over(&[], "plain", |_, first| {
        first.signal(Signal::KILL);
        assert_eq!(first.exits(), 128 + 9);
    });
}

#[test]
fn kill_of_the_wrapper_with_a_hidden_grandchild() {
    takes_over(&[], "hides_grandchild", |_, first| first.signal(Signal::KILL));
}

#[test]
fn kill_of_the_guardian() {
    takes_over(&[], "plain", |_, first| {
        kill_process(first.guardian(), Signal::KILL).unwrap();
        first.says("the guardian died");
    });
}

#[test]
fn kill_of_the_guardian_with_a_hidden_grandchild() {
    takes_over(&[], "hides_grandchild", |_, first| kill_process(first.guardian(), Signal::KILL).unwrap());
}

#[test]
fn stop_of_the_guardian_and_then_an_interrupt() {
    takes_over(&[], "deaf", |_, first| {
        kill_process(first.guardian(), Signal::STOP).unwrap();
        first.signal(Signal::INT);
    });
}

#[test]
fn kill_of_both() {
    takes_over(&[], "hides_grandchild", kill_both);
}

#[test]
fn kill_of_both_with_isolation() {
    takes_over(&["--isolate", "on"], "hides_grandchild", kill_both);
}

fn kill_both(_: &World, first: &mut Candidate) {
    let guardian = first.guardian();
    first.signal(Signal::KILL);
    let _ = kill_process(guardian, Signal::KILL);
}

#[test]
fn kill_of_wrapper_guardian_and_command() {
    takes_over(&[], "plain", |world, first| {
        let guardian = first.guardian();
        let pid = world.stamps().0[&first.leads()].pids[0];
        first.signal(Signal::KILL);
        let _ = kill_process(guardian, Signal::KILL);
        let _ = kill_process(rustix::process::Pid::from_raw(pid).unwrap(), Signal::KILL);
    });
}

#[test]
fn a_command_that_ends_and_leaves_a_grandchild() {
    takes_over(&["--once"], "leaves_grandchild", |world, first| {
        fs::write(world.path(&format!("stamps.may-end-{}", first.leads())), "").unwrap();
        assert_eq!(first.exits(), 0);
    });
}

#[test]
fn a_grandchild_in_a_session_of_its_own() {
    takes_over(&[], "hides_grandchild", |_, first| first.signal(Signal::TERM));
}

#[test]
fn a_command_that_ignores_the_signal_to_stop() {
    takes_over(&[], "deaf", |_, first| {
        first.signal(Signal::TERM);
        assert_eq!(first.exits(), 128 + 9);
    });
}

#[test]
fn a_store_directory_that_is_taken_away() {
    takes_over(&[], "plain", |world, first| {
        let aside = world.path("aside");
        fs::rename(world.store_path(), &aside).unwrap();
        first.says("ended: ");
        let token = first.leads();
        eventually("the command is gone", || world.alive_in(token).is_empty().then_some(()));
        fs::rename(&aside, world.store_path()).unwrap();
        first.signal(Signal::TERM);
    });
}

fn nobody() -> u32 {
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with("nobody:")).expect("there is nobody");
    line.split(':').nth(2).unwrap().parse().unwrap()
}

/// Root can read everything, so this one runs as nobody.
#[test]
fn a_store_directory_that_becomes_unreadable() {
    for _ in 0..rounds() {
        let world = World::new();
        std::os::unix::fs::chown(world.directory.path(), Some(nobody()), None).unwrap();
        let as_nobody = |mode: &str| {
            let run = world.run(QUICK);
            let mut command = std::process::Command::new("setpriv");
            command
                .args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"])
                .arg(run.get_program());
            command.args(run.get_args()).arg("--").args(crate::world::stamper(mode));
            command.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
            Candidate::start(command)
        };
        let first = as_nobody("plain");
        let token = first.leads();
        world.stamped_after(token - 1);
        let second = as_nobody("plain");
        second.stands_by();
        fs::set_permissions(world.store_path(), fs::Permissions::from_mode(0o000)).unwrap();
        first.says("ended: ");
        eventually("the command is gone", || world.alive_in(token).is_empty().then_some(()));
        fs::set_permissions(world.store_path(), fs::Permissions::from_mode(0o700)).unwrap();
        world.stamped_after(token);
        world.stamps().assert_no_overlap();
    }
}
