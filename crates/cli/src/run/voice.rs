//! What `run` says on standard error: text for people, or a line of JSON for each event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
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

pub(super) struct Voice {
    pub(super) json: bool,
    pub(super) level: Level,
    pub(super) election: String,
    pub(super) candidate: String,
    pub(super) mouth: Mouth,
}

impl Voice {
    /// Says that `event` happened: `text` for people, `details` for programs.
    pub(super) fn say(&self, level: Level, event: &str, text: &str, details: Value) {
        if level > self.level {
            return;
        }
        if !self.json {
            self.mouth.say(format!("tenure: {text}"));
            return;
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
        self.mouth.say(Value::Object(line).to_string());
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
/// lease from being renewed.
pub(super) struct Mouth {
    /// `None` when it has said its last.
    lines: Option<SyncSender<String>>,
    /// Nothing ever comes: it ends when all is written.
    ended: Receiver<()>,
    lost: Arc<AtomicU64>,
}

impl Mouth {
    pub(super) fn open() -> Self {
        let (lines, waiting) = sync_channel::<String>(PATIENT_LINES);
        let (end, ended) = sync_channel(0);
        let lost = Arc::new(AtomicU64::new(0));
        let unheard = Arc::clone(&lost);
        std::thread::spawn(move || {
            let _end: SyncSender<()> = end;
            for line in waiting {
                talk::say(&line);
                match unheard.swap(0, Ordering::Relaxed) {
                    0 => {}
                    lost => talk::say(&format!(
                        "tenure: {lost} lines are missing here: nobody read the earlier ones in time"
                    )),
                }
            }
        });
        Self { lines: Some(lines), ended, lost }
    }

    fn say(&self, line: String) {
        if let Some(lines) = &self.lines
            && let Err(TrySendError::Full(_)) = lines.try_send(line)
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Mouth {
    fn drop(&mut self) {
        self.lines = None;
        let _ = self.ended.recv_timeout(LAST_WORDS);
    }
}

/// For people only.
fn now() -> SystemTime {
    use tenure::Clock;
    tenure::SystemClock.wall()
}
