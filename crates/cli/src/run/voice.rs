//! What `run` says on standard error: text for people, or a line of JSON for each event.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use crate::talk;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Error,
    Normal,
    Verbose,
}

#[derive(Clone)]
pub(super) struct Voice {
    pub(super) json: bool,
    pub(super) level: Level,
    pub(super) election: String,
    pub(super) candidate: String,
    /// Others speak beside this one: each line names its election.
    pub(super) one_of_all: bool,
    pub(super) mouth: Arc<Mouth>,
}

impl Voice {
    /// Says that `event` happened: `text` for people, `details` for programs.
    pub(super) fn say(&self, level: Level, event: &str, text: &str, details: Value) {
        if level > self.level {
            return;
        }
        let missing = |lost| {
            let text = format!("{lost} lines are missing here: nobody read the earlier ones in time");
            self.line("lines_missing", &text, json!({ "lines": lost }))
        };
        self.mouth.say(self.line(event, text, details), missing);
    }

    fn line(&self, event: &str, text: &str, details: Value) -> String {
        if !self.json && self.one_of_all {
            return format!("tenure: {}: {text}", self.election);
        }
        if !self.json {
            return format!("tenure: {text}");
        }
        let mut line = Map::new();
        line.insert("event".into(), event.into());
        line.insert("at".into(), humantime::format_rfc3339_millis(now()).to_string().into());
        line.insert("election".into(), self.election.as_str().into());
        line.insert("candidate".into(), self.candidate.as_str().into());
        if let Value::Object(details) = details {
            line.extend(details);
        }
        line.insert("message".into(), text.into());
        Value::Object(line).to_string()
    }

    pub(super) fn normal(&self, event: &str, text: &str) {
        self.say(Level::Normal, event, text, json!({}));
    }

    pub(super) fn error(&self, event: &str, text: &str) {
        self.say(Level::Error, event, text, json!({}));
    }
}

/// So many lines wait for a reader who does not read.
const PATIENT_LINES: usize = 1000;

/// So long may the last lines take.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Writes lines in a thread of its own: whoever does not read them (a full pipe, a terminal that is held) must not keep the
/// lease from being renewed, nor this process from ending. Nothing else may be written to standard error while it is open.
pub(super) struct Mouth {
    /// `None` when it has said its last.
    lines: Mutex<Option<SyncSender<Word>>>,
    /// Nothing ever comes: it ends when all is written.
    ended: Mutex<Receiver<()>>,
    /// Lines for which there was no more room.
    lost: AtomicU64,
}

enum Word {
    Line(String),
    /// Dropped when everything before it is written.
    Mark(SyncSender<()>),
}

impl Mouth {
    pub(super) fn open() -> io::Result<Self> {
        let (lines, waiting) = sync_channel::<Word>(PATIENT_LINES);
        let (end, ended) = sync_channel(0);
        std::thread::Builder::new().name("tenure-mouth".to_owned()).spawn(move || {
            let _end: SyncSender<()> = end;
            for word in waiting {
                match word {
                    Word::Line(line) => talk::say(&line),
                    Word::Mark(mark) => drop(mark),
                }
            }
        })?;
        Ok(Self { lines: Mutex::new(Some(lines)), ended: Mutex::new(ended), lost: AtomicU64::new(0) })
    }

    /// Says a line, and before it how many are missing, if any are.
    pub(super) fn say(&self, line: String, missing: impl Fn(u64) -> String) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lines) = &*lines else { return };
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let told = lost == 0 || lines.try_send(Word::Line(missing(lost))).is_ok();
        if !told || lines.try_send(Word::Line(line)).is_err() {
            self.lost.fetch_add(if told { 1 } else { lost + 1 }, Ordering::Relaxed);
        }
    }

    /// Returns when all that was said so far is written, or after a while: before this process is stopped.
    pub(super) fn finish_sentence(&self) {
        let (mark, written) = sync_channel(0);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.as_ref().is_some_and(|lines| lines.try_send(Word::Mark(mark)).is_ok()) {
            let _ = written.recv_timeout(LAST_WORDS);
        }
    }

    /// Says its last; returns when all is written, or after a while.
    pub(super) fn close(&self) {
        drop(self.lines.lock().unwrap_or_else(PoisonError::into_inner).take());
        let _ = self.ended.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(LAST_WORDS);
    }
}

/// For people only.
fn now() -> SystemTime {
    use tenure::Clock;
    tenure::SystemClock.wall()
}
