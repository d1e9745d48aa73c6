//! Commands that end by themselves: at the pace of the cool-down, one at a time; with a shortest interval, once.

use std::fs;

use crate::world::{Candidate, World, eventually};

fn machines(world: &World, args: &[&str], script: &str) -> Vec<Candidate> {
    let start = |_| {
        let mut command = world.run(args);
        command.args(["--", "sh", "-c", script]).current_dir(world.directory.path());
        Candidate::start(command)
    };
    (0..5).map(start).collect()
}

fn runs(world: &World) -> usize {
    fs::read_to_string(world.path("runs")).unwrap_or_default().lines().count()
}

#[test]
fn on_five_machines_a_job_with_a_shortest_interval_runs_once() {
    let world = World::new();
    let mut machines = machines(&world, &["--min-interval", "1h"], "echo run >> runs");
    for machine in &mut machines {
        assert_eq!(machine.exits(), 0);
    }
    assert_eq!(runs(&world), 1);
    let told = machines
        .iter()
        .filter(|machine| machine.said().iter().any(|line| line.contains("not started: ")))
        .count();
    // The one that ran it stands again, and is told so itself.
    assert_eq!(told, 5);
    let late = machines.pop().unwrap();
    drop(late);
    let mut once_more = world.run(&["--once", "--try", "--min-interval", "1h"]);
    once_more.args(["--", "sh", "-c", "echo run >> runs"]).current_dir(world.directory.path());
    assert_eq!(Candidate::start(once_more).exits(), 0);
    assert_eq!(runs(&world), 1);
}

#[test]
fn a_job_that_failed_runs_again_within_the_interval() {
    let world = World::new();
    for code in [5, 5, 0] {
        let mut command = world.run(&["--once", "--min-interval", "1h"]);
        command
            .args(["--", "sh", "-c", &format!("echo run >> runs; exit {code}")])
            .current_dir(world.directory.path());
        assert_eq!(Candidate::start(command).exits(), code);
    }
    assert_eq!(runs(&world), 3);
}

#[test]
fn without_it_they_run_one_at_a_time_at_the_pace_of_the_cool_down() {
    let world = World::new();
    let script = "mkdir alone && echo run >> runs && rmdir alone || echo overlap >> overlaps";
    let machines = machines(&world, &[], script);
    eventually("four runs", || (runs(&world) >= 4).then_some(()));
    assert!(!world.path("overlaps").exists());
    let said: Vec<_> = machines
        .iter()
        .flat_map(Candidate::said)
        .filter(|line| line.contains("nobody starts it for"))
        .collect();
    let mut pauses: Vec<_> = said.iter().filter_map(|line| line.split("for ").nth(1)).collect();
    pauses.sort_by_key(|pause| pause.trim_end_matches('s').parse::<u64>().unwrap());
    assert_eq!(pauses[..3], ["1s", "2s", "4s"], "whoever leads next asks for twice as long: {said:?}");
}

/// The guardian records a success for a wrapper that was killed between the command's end and the release.
#[test]
fn a_success_is_recorded_although_the_wrapper_was_killed() {
    let world = World::new();
    // The command stops the wrapper first, so that it cannot hear of the end.
    let script = "kill -STOP $WRAPPER; echo run >> runs";
    let mut command = world.run(&["--min-interval", "1h"]);
    let inner = format!("WRAPPER=$(cat wrapper) sh -c '{script}'");
    command.args(["--", "sh", "-c", &format!("while [ ! -s wrapper ]; do sleep 0.01; done; {inner}")]);
    command.current_dir(world.directory.path());
    let first = Candidate::start(command);
    fs::write(world.path("draft"), first.pid().as_raw_nonzero().to_string()).unwrap();
    fs::rename(world.path("draft"), world.path("wrapper")).unwrap();
    eventually("it has run", || (runs(&world) == 1).then_some(()));
    eventually("the command is gone", || world.alive_in(1).is_empty().then_some(()));
    first.signal(rustix::process::Signal::KILL);
    let mut second = world.run(&["--once", "--min-interval", "1h"]);
    second.args(["--", "sh", "-c", "echo run >> runs"]).current_dir(world.directory.path());
    let mut second = Candidate::start(second);
    assert_eq!(second.exits(), 0);
    second.says("not started: ");
    assert_eq!(runs(&world), 1);
}
