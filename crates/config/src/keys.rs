//! The settings that there are: one table, from which files, environment, flags, `show` and the schema are made.

use std::time::Duration;

use crate::secret;
use crate::tree::{Node, Value};
use crate::{duration, percent};

/// A setting.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) scope: Scope,
    /// What it is, in one line.
    pub(crate) text: &'static str,
    /// What it is if nobody says so, for people.
    pub(crate) default: &'static str,
}

/// What a setting's value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Store,
    Time,
    Percent,
    Switch,
    Choice(&'static [&'static str]),
    /// A line for a shell.
    Line,
    Command,
}

/// Where a setting may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// At the top of a file, for all elections, and in the environment; and with an election.
    Everywhere,
    /// With an election only.
    Election,
}

pub(crate) const PROFILES: &[&str] = &["fast", "balanced", "stable", "object-storage"];
pub(crate) const ISOLATE: &[&str] = &["auto", "on", "off"];

const fn key(name: &'static str, kind: Kind, scope: Scope, default: &'static str, text: &'static str) -> Key {
    Key { name, kind, scope, text, default }
}

use Kind::{Choice, Command, Line, Percent, Store, Switch, Time};
use Scope::{Election, Everywhere};

pub(crate) const KEYS: &[Key] = &[
    key("store", Store, Everywhere, "file:", "Where leases live: file:, file:///path, redis://host:6379, …"),
    key("profile", Choice(PROFILES), Everywhere, "balanced", "A named set of settings"),
    key("ttl", Time, Everywhere, "30s", "How long a lease lasts without renewal"),
    key("renew_interval", Time, Everywhere, "ttl / 3", "How often the leader renews"),
    key("retry_interval", Time, Everywhere, "ttl / 6", "How often a follower looks if nothing wakes it"),
    key("drain_timeout", Time, Everywhere, "5s, less with a short ttl", "How long work may take to stop"),
    key(
        "call_timeout",
        Time,
        Everywhere,
        "renew_interval / 2, at most 5s",
        "How long one attempt to reach the store may take",
    ),
    key("drift", Percent, Everywhere, "10", "How much clocks may differ in rate, in percent"),
    key("latency", Time, Everywhere, "100ms", "What wake-up, kill and reaping may take"),
    key("once", Switch, Everywhere, "false", "Run the command once"),
    key("wait", Time, Everywhere, "for ever", "Wait at most this long to be elected; 0s does not wait"),
    key(
        "min_interval",
        Time,
        Everywhere,
        "none",
        "Do not start the command within this time of its last successful end on any machine",
    ),
    key(
        "failover_on_crash",
        Switch,
        Everywhere,
        "false",
        "When the command crashes, let the next machine start it at once",
    ),
    key("isolate", Choice(ISOLATE), Everywhere, "auto", "Keep the command's processes together"),
    key("on_elected", Line, Everywhere, "none", "Run this with sh when elected, before the command"),
    key("on_lost", Line, Everywhere, "none", "Run this with sh when leadership was lost"),
    key("on_leader_change", Line, Everywhere, "none", "Run this with sh when another leader was seen"),
    key("verbose", Switch, Everywhere, "false", "Say more, such as each renewal that failed"),
    key("command", Command, Election, "none", "What to run while leading: a list of words, or a line for sh"),
];

/// Returns the setting of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// Returns the variable of the environment that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("TENURE_{}", self.name.to_ascii_uppercase())
    }

    /// Returns the flag of the command that sets it.
    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }
}

/// A value that was read.
#[derive(Clone, PartialEq)]
pub(crate) enum Said {
    Text(String),
    Time(Duration),
    Percent(f64),
    Switch(bool),
    Words(Vec<String>),
}

/// A store's URL may hold a password, and so may a command.
impl std::fmt::Debug for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{:?}", secret::masked(text)),
            Self::Time(time) => write!(f, "{time:?}"),
            Self::Percent(percent) => write!(f, "{percent} %"),
            Self::Switch(switch) => write!(f, "{switch}"),
            Self::Words(words) => {
                f.debug_list().entries(words.iter().map(|word| secret::masked(word))).finish()
            }
        }
    }
}

/// Why a value is none, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Wrong {
    fn new(message: String) -> Self {
        Self { message, hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Quotes a value in a message.
pub(crate) fn quoted(text: &str) -> String {
    let masked = secret::masked(text);
    let mut shown: String = masked.chars().take(60).collect();
    if shown.len() < masked.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// Reads a value of a file.
pub(crate) fn from_node(key: &Key, node: &Node) -> Result<Said, Wrong> {
    let name = key.name;
    match (key.kind, &node.value) {
        (_, Value::Unknown(why)) => Err(Wrong::new(format!("{name}: {why}"))),
        (Command, Value::Text(line)) if !line.trim().is_empty() => {
            Ok(Said::Words(["sh", "-c", line].map(str::to_owned).to_vec()))
        }
        (Command, Value::List(items)) => words(items),
        (Command, Value::Text(_)) => Err(no_command("command is blank".to_owned())),
        (Command, _) => Err(no_command(format!("command is {}", node.kind()))),
        (Switch, Value::Switch(switch)) => Ok(Said::Switch(*switch)),
        // YAML's "off" is text, TOML's true is not: whoever writes `isolate = true` means "on".
        (Choice(choices), Value::Switch(switch)) if choices == ISOLATE => {
            Err(Wrong::new(format!("{name} is {switch}: write \"auto\", \"on\" or \"off\"")))
        }
        (Percent, Value::Number(number)) => from_text(key, &number.to_string()),
        (Time, Value::Number(number)) => {
            Err(Wrong::new(format!("{name} is {number}: a duration has a unit"))
                .hint(format!("write \"{number}s\" for seconds, or \"{number}ms\"")))
        }
        (_, Value::Text(text)) => from_text(key, text),
        (kind, _) => Err(Wrong::new(format!("{name} is {}: it must be {}", node.kind(), expected(kind)))),
    }
}

fn words(items: &[Node]) -> Result<Said, Wrong> {
    let words = items.iter().map(|item| match &item.value {
        Value::Text(word) => Ok(word.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Unknown(why) => Err(Wrong::new(format!("command: {why}"))),
        _ => Err(no_command(format!("command has {} in its list", item.kind()))),
    });
    let words: Vec<String> = words.collect::<Result<_, _>>()?;
    match words.first() {
        Some(program) if !program.trim().is_empty() => Ok(Said::Words(words)),
        _ => Err(no_command("command names no program".to_owned())),
    }
}

fn no_command(what: String) -> Wrong {
    Wrong::new(what).hint("write a list of words such as [\"./worker\", \"--fast\"], or a line for sh")
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Store => "a URL in quotes, such as \"redis://host:6379\"",
        Time => "a duration in quotes, such as \"30s\"",
        Percent => "a number, such as 10",
        Switch => "true or false",
        Choice(_) => "one word in quotes",
        Line => "a line for sh in quotes",
        Command => "a list of words",
    }
}

/// Reads a value of the environment or of a flag.
pub(crate) fn from_text(key: &Key, text: &str) -> Result<Said, Wrong> {
    let name = key.name;
    let wrong = |why: String| Wrong::new(format!("{name} is {}: {why}", quoted(text)));
    match key.kind {
        _ if text.is_empty() => Err(wrong(format!("it must be {}", expected(key.kind)))),
        Time => duration::parse(text).map(Said::Time).map_err(wrong),
        Percent => percent::parse(text).map(Said::Percent).map_err(wrong),
        Switch => text.parse().map(Said::Switch).map_err(|_| wrong("it must be true or false".to_owned())),
        Choice(choices) if choices.contains(&text) => Ok(Said::Text(text.to_owned())),
        Choice(choices) => {
            let wrong = wrong(format!("there are {}", choices.join(", ")));
            Err(match crate::suggest::did_you_mean(text, choices.iter().copied()) {
                Some(hint) => wrong.hint(hint),
                None => wrong,
            })
        }
        Store | Line => Ok(Said::Text(text.to_owned())),
        Command => Ok(Said::Words(["sh", "-c", text].map(str::to_owned).to_vec())),
    }
}
