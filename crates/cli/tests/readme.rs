//! The README's first command prints what the README says.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const README: &str = include_str!("../../../README.md");

/// Longer than anything takes that ever ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the n-th block of a language.
fn block(language: &str, n: usize) -> &'static str {
    let begin = format!("```{language}\n");
    let rest = README.split(&begin).nth(n + 1).expect("the block");
    rest.split("```").next().expect("its end")
}

struct Terminal {
    child: Child,
    lines: Receiver<String>,
}

impl Terminal {
    fn open(directory: &std::path::Path) -> Self {
        let typed = block("sh", 0).replacen("cargo run --release --", "exec \"$TENURE\"", 1);
        let mut child = Command::new("sh")
            .args(["-c", &typed])
            .env("TENURE", env!("CARGO_BIN_EXE_tenure"))
            .env("TENURE_DIR", directory)
            .env_remove("TENURE_STORE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a shell");
        let (sender, lines) = channel();
        let streams: [Box<dyn Read + Send>; 2] =
            [Box::new(child.stdout.take().expect("a pipe")), Box::new(child.stderr.take().expect("a pipe"))];
        for stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Self { child, lines }
    }

    /// Waits for a line that is like `wanted`.
    fn prints(&self, wanted: &str, directory: &str) {
        let mut seen = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            if is_like(&line, &wanted.replace("/var/lib/tenure", directory)) {
                return;
            }
            seen.push(line);
        }
        panic!("{wanted:?} is not among {seen:#?}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Compares with a line in which words in capitals stand for something else each time.
fn is_like(line: &str, wanted: &str) -> bool {
    let mut rest = line;
    let parts: Vec<&str> = wanted.split("HOST_PID_RANDOM").flat_map(|part| part.split("ISOLATION")).collect();
    for (number, part) in parts.iter().enumerate() {
        let Some(at) = rest.find(part) else { return false };
        if number == 0 && at != 0 {
            return false;
        }
        rest = &rest[at + part.len()..];
    }
    rest.is_empty() || parts.last().is_some_and(|last| last.is_empty())
}

#[test]
fn the_first_command_prints_what_is_written_there_and_the_second_terminal_takes_over() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().display().to_string();
    let first = Terminal::open(directory.path());
    for line in block("text", 0).lines() {
        first.prints(line, &path);
    }
    let second = Terminal::open(directory.path());
    for line in block("text", 1).lines() {
        second.prints(line, &path);
    }
    drop(first);
    second.prints("tenure: elected: this process leads, term 2", &path);
    second.prints("term 2: I lead", &path);
}

#[test]
fn the_comparison_sees_differences() {
    assert!(is_like("a h_1_2 b", "a HOST_PID_RANDOM b") && is_like("a: x y", "a: ISOLATION"));
    assert!(!is_like("a b", "a HOST_PID_RANDOM c") && !is_like("x a b", "a b") && !is_like("a b c", "a b"));
}
