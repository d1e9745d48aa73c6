//! What `run` says on standard error: text for people, or a line of JSON for each event.

use std::time::SystemTime;

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
}

impl Voice {
    /// Says that `event` happened: `text` for people, `details` for programs.
    pub(super) fn say(&self, level: Level, event: &str, text: &str, details: Value) {
        if level > self.level {
            return;
        }
        if !self.json {
            talk::say(&format!("tenure: {text}"));
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
        talk::say(&Value::Object(line).to_string());
    }

    pub(super) fn normal(&self, event: &str, text: &str) {
        self.say(Level::Normal, event, text, json!({}));
    }

    pub(super) fn error(&self, event: &str, text: &str) {
        self.say(Level::Error, event, text, json!({}));
    }
}

/// For people only.
fn now() -> SystemTime {
    use tenure::Clock;
    tenure::SystemClock.wall()
}
