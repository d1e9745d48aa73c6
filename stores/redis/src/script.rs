//! The script that decides and writes in one step, and its answers.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use redis::{Cmd, Value};

use crate::keys::ElectionKeys;

/// The script of all verbs.
pub(crate) struct Script;

impl Script {
    /// What the server runs.
    pub(crate) const SOURCE: &'static str = include_str!("lease.lua");

    fn hash() -> &'static str {
        static HASH: OnceLock<String> = OnceLock::new();
        HASH.get_or_init(|| redis::Script::new(Self::SOURCE).get_hash().to_owned())
    }

    /// Makes the call of one verb on one election.
    pub(crate) fn call(
        keys: &ElectionKeys,
        election: &str,
        verb: &str,
        mark: &str,
        arguments: &[&str],
    ) -> Cmd {
        // All in one piece of memory: 6 arguments before these, and for each at most 16 bytes around it.
        let bytes = arguments.iter().map(|argument| argument.len() + 16).sum::<usize>();
        let names = 4 * keys.lease.len() + election.len() + mark.len();
        let mut command = Cmd::with_capacity(arguments.len() + 9, bytes + names + 256);
        command.arg("EVALSHA").arg(Self::hash()).arg(2).arg(&keys.lease).arg(&keys.record);
        command.arg(verb).arg(mark).arg(election).arg(&keys.channel).arg(arguments);
        command
    }
}

/// Tells whether an answer says that a lease was written: what it says counts only for as long as it is not lost.
pub(crate) fn says_written(answer: &Value) -> bool {
    let name = match answer {
        Value::Array(parts) => match parts.get(1) {
            Some(Value::BulkString(name)) => Some(name.as_slice()),
            _ => None,
        },
        Value::BulkString(lines) => lines.split(|byte| *byte == b'\n').nth(1),
        _ => None,
    };
    matches!(name, Some(b"acquired" | b"renewed" | b"released"))
}

/// Returns the command in the line of a script that an error names.
pub(crate) fn command_in(script: &'static str, error: &str) -> Option<&'static str> {
    let (_, after) = error.rsplit_once("user_script:")?;
    let digits = after.split(|c: char| !c.is_ascii_digit()).next()?;
    let line = script.lines().nth(digits.parse::<usize>().ok()?.checked_sub(1)?)?;
    let (_, after) = line.split_once("call('")?;
    after.split_once('\'').map(|(command, _)| command)
}

/// One answer of the script: its name and what follows it.
#[derive(Debug)]
pub(crate) struct Answer {
    name: String,
    rest: Rest,
}

/// What of an answer has not been taken yet.
#[derive(Debug)]
enum Rest {
    Parts(std::vec::IntoIter<Value>),
    /// The lines of a text from this place on.
    Lines(String, usize),
}

impl Rest {
    fn next(&mut self) -> Option<Value> {
        match self {
            Self::Parts(parts) => parts.next(),
            Self::Lines(..) => self.line().map(|line| Value::SimpleString(line.to_owned())),
        }
    }

    /// Takes the next line, if these are lines.
    fn line(&mut self) -> Option<&str> {
        let Self::Lines(lines, from) = self else { return None };
        let rest = lines.get(*from..)?;
        let line = rest.split('\n').next()?;
        *from += line.len() + 1;
        Some(line)
    }
}

impl Answer {
    /// Takes an answer to the call marked `mark`.
    pub(crate) fn new(value: Value, mark: &str) -> Result<Self, String> {
        let mut rest = match value {
            Value::Array(parts) => Rest::Parts(parts.into_iter()),
            lines @ Value::BulkString(_) => Rest::Lines(text(Some(lines))?, 0),
            other => return Err(format!("it is {other:?}")),
        };
        let marked = text(rest.next())?;
        if marked != mark {
            return Err(format!("it answers call {marked}, not {mark}"));
        }
        let name = text(rest.next())?;
        Ok(Self { name, rest })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the next part, which must be there.
    pub(crate) fn text(&mut self) -> Result<String, String> {
        text(self.rest.next())
    }

    pub(crate) fn number(&mut self) -> Result<u64, String> {
        match self.rest.line() {
            Some(line) => line.parse().map_err(|_| format!("{line:?} is no number")),
            None => number(self.rest.next()),
        }
    }

    /// Returns the next part, or `None` where the script says that there is none.
    pub(crate) fn maybe_text(&mut self) -> Result<Option<String>, String> {
        match self.rest.next() {
            None | Some(Value::Nil) => Ok(None),
            some => text(some).map(Some),
        }
    }

    pub(crate) fn maybe_view(&mut self) -> Result<Option<View>, String> {
        match self.rest.next() {
            None | Some(Value::Nil) => Ok(None),
            Some(view) => View::from_reply(view).map(Some),
        }
    }

    pub(crate) fn view(&mut self) -> Result<View, String> {
        self.maybe_view()?.ok_or_else(|| "it shows no record".to_owned())
    }

    /// Returns a text and a number that come together, or `None`.
    pub(crate) fn maybe_pair(&mut self) -> Result<Option<(String, u64)>, String> {
        match self.rest.next() {
            None | Some(Value::Nil) => Ok(None),
            Some(Value::Array(pair)) => {
                let mut pair = pair.into_iter();
                Ok(Some((text(pair.next())?, number(pair.next())?)))
            }
            Some(other) => Err(format!("{other:?} is no pair")),
        }
    }
}

/// What the script sees of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    /// The server's time, µs.
    pub(crate) now: u64,
    /// What stands in the lease's place.
    pub(crate) value: Option<Vec<u8>>,
    /// How long the lease still lasts, ms; `None` if for ever.
    pub(crate) left_ms: Option<u64>,
    /// How long a free lease waits because the server began lately, ms.
    pub(crate) wait_ms: u64,
    /// The record.
    pub(crate) fields: BTreeMap<String, String>,
}

impl View {
    fn from_reply(reply: Value) -> Result<Self, String> {
        let Value::Array(parts) = reply else {
            return Err(format!("{reply:?} is no view"));
        };
        let mut parts = parts.into_iter();
        let now = number(parts.next())?;
        let value = match parts.next() {
            Some(Value::BulkString(value)) => Some(value),
            _ => None,
        };
        let left_ms = match parts.next() {
            Some(Value::Int(left)) => u64::try_from(left).ok(),
            other => return Err(format!("{other:?} is no time left")),
        };
        let wait_ms = number(parts.next())?;
        let fields = match parts.next() {
            Some(Value::Array(fields)) => paired(fields.into_iter().map(|field| text(Some(field))))?,
            // An empty table of the script.
            None | Some(Value::Nil) => BTreeMap::new(),
            Some(other) => return Err(format!("{other:?} is no record")),
        };
        Ok(Self { now, value, left_ms, wait_ms, fields })
    }

    /// Takes a view as it was published.
    pub(crate) fn from_json(json: &str) -> Option<Self> {
        type Published = (String, serde_json::Value, i64, u64, BTreeMap<String, String>);
        let (now, value, left_ms, wait_ms, fields): Published = serde_json::from_str(json).ok()?;
        let value = value.as_str().map(|value| value.as_bytes().to_vec());
        Some(Self { now: now.parse().ok()?, value, left_ms: u64::try_from(left_ms).ok(), wait_ms, fields })
    }

    /// Takes a view as a release tells it, in lines, of which the last ones are terms; and to how many it is told.
    pub(crate) fn from_release(text: &str) -> Option<(Self, u32)> {
        const NAMES: [&str; 6] =
            ["token", "renew_total", "reserved_for", "reserved_until", "succeeded_at", "answer"];
        let (now, rest) = text.split_once('\n')?;
        let (told, mut rest) = rest.split_once('\n')?;
        let mut fields = BTreeMap::new();
        for name in NAMES {
            let (value, left) = rest.split_once('\n')?;
            if !value.is_empty() {
                fields.insert(name.to_owned(), value.to_owned());
            }
            rest = left;
        }
        fields.insert("terms".to_owned(), rest.to_owned());
        let view = Self { now: now.parse().ok()?, value: None, left_ms: None, wait_ms: 0, fields };
        Some((view, told.parse().ok()?))
    }

    /// Takes a view as a grant tells it: in lines, of which the last ones are terms.
    pub(crate) fn from_grant(text: &str) -> Option<Self> {
        const NAMES: [&str; 8] = ["value", "bid", "attempt", "token", "ttl_ms", "renew_total", "gap", "who"];
        let (now, mut rest) = text.split_once('\n')?;
        let mut fields = BTreeMap::new();
        for name in NAMES {
            let (value, left) = rest.split_once('\n')?;
            fields.insert(name.to_owned(), value.to_owned());
            rest = left;
        }
        let (about, terms) = rest.split_once('\n')?;
        fields.insert("about".to_owned(), about.to_owned());
        fields.insert("terms".to_owned(), terms.to_owned());
        if fields.get("gap").is_some_and(|gap| gap == "0") {
            fields.remove("gap");
        }
        let now: u64 = now.parse().ok()?;
        fields.insert("acquired_at_ms".to_owned(), (now / 1000).to_string());
        Some(Self {
            now,
            value: fields.get("value").map(|value| value.clone().into_bytes()),
            left_ms: fields.get("ttl_ms")?.parse().ok(),
            wait_ms: 0,
            fields,
        })
    }
}

fn paired(
    mut fields: impl Iterator<Item = Result<String, String>>,
) -> Result<BTreeMap<String, String>, String> {
    let mut pairs = BTreeMap::new();
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        pairs.insert(name?, value?);
    }
    Ok(pairs)
}

fn text(value: Option<Value>) -> Result<String, String> {
    match value {
        Some(Value::BulkString(bytes)) => {
            String::from_utf8(bytes).map_err(|_| "a part is no text".to_owned())
        }
        Some(Value::SimpleString(text)) => Ok(text),
        Some(Value::Int(number)) => Ok(number.to_string()),
        Some(other) => Err(format!("{other:?} is no text")),
        None => Err("it is too short".to_owned()),
    }
}

fn number(value: Option<Value>) -> Result<u64, String> {
    let text = text(value)?;
    text.parse().map_err(|_| format!("{text:?} is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_lines_is_taken_line_by_line() {
        let lines = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let mut answer = Answer::new(lines("ab\nacquired\n41\ncd\n{\"token\":40}"), "ab").unwrap();
        assert_eq!(answer.name(), "acquired");
        assert_eq!((answer.number(), answer.text()), (Ok(41), Ok("cd".to_owned())));
        assert_eq!(answer.maybe_text(), Ok(Some("{\"token\":40}".to_owned())));
        assert_eq!(answer.maybe_text(), Ok(None));
        assert!(answer.number().is_err(), "there is no more");
        assert!(Answer::new(lines("ab\nrenewed"), "cd").is_err(), "an answer to another call");
        assert!(Answer::new(lines("ab"), "ab").is_err(), "no name");
        assert!(Answer::new(lines("ab\nrenewed\nten"), "ab").unwrap().number().is_err());
    }

    #[test]
    fn a_release_is_read_back_from_its_lines() {
        let text = "1700000000000001\n12\n41\n7\n\n1700000000000001\n\n\n{\"token\":40}\n{\"token\":41}";
        let (view, told) = View::from_release(text).unwrap();
        assert_eq!((view.now, told), (1_700_000_000_000_001, 12));
        assert_eq!(view.value, None);
        let fields: Vec<_> =
            view.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let terms = "{\"token\":40}\n{\"token\":41}";
        let until = "1700000000000001";
        assert_eq!(
            fields,
            [("renew_total", "7"), ("reserved_until", until), ("terms", terms), ("token", "41")],
            "what is empty is not there"
        );
        assert!(View::from_release("1\n2\n3").is_none());
    }
}
