//! `tenure demo` in a terminal.

use rustix::process::Signal;

use crate::session::Session;

#[test]
fn a_killed_leader_is_followed_by_another_one_and_quitting_leaves_all_as_it_was() {
    let mut session = Session::start(&[]);
    let first = session.leader_of(1);
    session.shows_line("Three candidates", "6s");
    for word in [" kill", " stop", " continue", " start again", " cut off", " hand off", " quit"] {
        session.shows(word, |lines| lines.iter().any(|line| line.contains(word)).then_some(()));
    }
    assert!(session.seen.contains("\x1b[32m"), "colours on a terminal");
    session.type_in(first);
    session.type_in("k");
    session.shows("the kill", |lines| {
        lines.iter().any(|line| line.contains("is killed (SIGKILL)")).then_some(())
    });
    assert_ne!(session.leader_of(2), first);
    session.shows_line("> ", "gone");
    session.type_in("r");
    session.shows("three that are there", |lines| {
        lines.iter().filter(|line| line.contains("  stands by  ") && line.contains('.')).nth(1).map(|_| ())
    });
    session.type_in("q");
    assert_eq!(session.ends(), Some(0));
    session.stage.assert_empty();
}

#[test]
fn every_key_does_what_it_says() {
    let mut session = Session::start(&[("NO_COLOR", "1")]);
    let first = session.leader_of(1);
    let letter = ["A", "B", "C"][first.parse::<usize>().unwrap() - 1];
    session.type_in(first);
    let row = format!("> {letter}  ");
    session.type_in("s");
    session.shows_line(&row, "stopped in term 1");
    let second = session.leader_of(2);
    session.shows_line(&row, "stopped  ");
    session.type_in("c");
    session.shows_line(&row, "stands by");
    session.type_in("h");
    assert_eq!(session.leader_of(3), first);
    assert_ne!(second, first);
    session.type_in("x");
    session.shows_line(&row, "cut off in term 3");
    session.leader_of(4);
    session.shows_line(&row, "cut off  ");
    session.type_in("x");
    session.shows_line(&row, "stands by");
    // The arrows go round.
    session.type_in("\x1b[A\x1b[B\x1b[B\x1b[B\x1b[B");
    session.type_in("k");
    session.shows_line(&row, "gone");
    session.type_in("r");
    session.shows_line(&row, "stands by");
    let colours = ["\x1b[31m", "\x1b[32m", "\x1b[33m"];
    assert!(!colours.iter().any(|colour| session.seen.contains(colour)), "nobody asked for colours");
    // Ctrl-C is a key, too.
    session.type_in("\x03");
    assert_eq!(session.ends(), Some(0));
    session.stage.assert_empty();
}

#[test]
fn a_window_of_any_size_is_drawn_on() {
    let mut session = Session::start(&[]);
    session.leader_of(1);
    for (columns, rows) in [(40, 10), (20, 5), (3, 2), (1, 1)] {
        session.resize(columns, rows);
        session.shows(&format!("{columns}x{rows}"), |lines| (lines.len() == usize::from(rows)).then_some(()));
    }
    session.resize(80, 24);
    session.shows_line("Three candidates", "6s");
    session.type_in("q");
    assert_eq!(session.ends(), Some(0));
}

#[test]
fn signals_end_it_in_order() {
    for (signal, code) in [(Signal::HUP, 129), (Signal::INT, 130), (Signal::TERM, 143)] {
        let mut session = Session::start(&[]);
        session.leader_of(1);
        session.signal(signal);
        assert_eq!(session.ends(), Some(code));
        session.stage.assert_empty();
    }
}

#[test]
fn no_candidate_survives_a_demonstration_that_is_killed() {
    let mut session = Session::start(&[]);
    session.leader_of(1);
    session.type_in("2");
    session.shows_line("> B  ", "stands by");
    session.type_in("s");
    session.shows_line("> B  ", "stopped");
    session.signal(Signal::KILL);
    session.stage.becomes_quiet();
}
