//! What counts, and where it comes from.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::keys::{KEYS, Key};
use crate::layer::OF_PROFILE;
use crate::origin::Origin;
use crate::values::{DEFAULT_STORE, Values, shown};

/// A setting with its value and its origin, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The setting's name.
    pub name: &'static str,
    /// Its value, without secrets; `None` if there is none.
    pub value: Option<String>,
    /// Where it comes from.
    pub origin: Origin,
}

impl Values {
    /// Returns every setting, also those that follow from others.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        KEYS.iter().map(|key| self.row(key)).collect()
    }

    fn row(&self, key: &Key) -> Row {
        let name = key.name;
        if let Some(given) = self.layer.get(name) {
            return Row { name, value: Some(shown(&given.said)), origin: given.origin.clone() };
        }
        let origin = match (self.layer.text("profile"), self.layer.get("profile")) {
            (Some(profile), Some(given)) if OF_PROFILE.contains(&name) => {
                Origin::Profile(profile.to_owned(), Box::new(given.origin.clone()))
            }
            _ => Origin::Default(key.default.contains("ttl /").then(|| key.default.to_owned())),
        };
        Row { name, value: self.derived(key), origin }
    }

    /// Returns what counts if nobody says anything.
    fn derived(&self, key: &Key) -> Option<String> {
        let timing = self.timing().ok()?;
        let time = |time: std::time::Duration| Some(humantime::format_duration(time).to_string());
        match key.name {
            "store" => Some(DEFAULT_STORE.to_owned()),
            "ttl" => time(timing.ttl),
            "renew_interval" => time(timing.renew_interval),
            "retry_interval" => time(timing.retry_interval),
            "drain_timeout" => time(timing.drain_timeout),
            "call_timeout" => time(timing.call_timeout),
            "latency" => time(timing.latency),
            "drift" => Some(format!("{}%", f64::from(timing.drift_permille) / 10.0)),
            "once" | "failover_on_crash" | "verbose" | "isolate" => Some(key.default.to_owned()),
            _ => None,
        }
    }
}

impl Config {
    /// Writes every value with its origin, for people.
    #[must_use]
    pub fn show(&self) -> String {
        let mut text = String::new();
        match self.file() {
            Some(file) => drop(writeln!(text, "file: {}", file.display())),
            None => text.push_str("file: none\n"),
        }
        for (title, values) in self.shown() {
            let title = title.map_or("any election".to_owned(), |name| format!("election {name:?}"));
            let _ = writeln!(text, "\n{title}");
            let rows: Vec<Row> = values.rows().into_iter().filter(|row| row.value.is_some()).collect();
            let wide = |cell: fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or(0);
            let names = wide(|row| row.name.len());
            let widths = wide(|row| row.value.as_ref().map_or(0, |value| value.chars().count()).min(40));
            for row in &rows {
                let value = row.value.as_deref().unwrap_or_default();
                let _ = writeln!(text, "  {:names$}  {value:widths$}  {}", row.name, row.origin);
            }
        }
        text
    }

    /// Writes every value with its origin, for programs.
    #[must_use]
    pub fn show_json(&self) -> Value {
        let elections: Vec<Value> = self
            .shown()
            .map(|(name, values)| {
                let settings: Map<String, Value> = values
                    .rows()
                    .into_iter()
                    .map(|row| {
                        (row.name.to_owned(), json!({ "value": row.value, "origin": row.origin.json() }))
                    })
                    .collect();
                json!({ "election": name, "settings": settings })
            })
            .collect();
        json!({ "file": self.file_text(), "elections": elections, "warnings": self.warning_texts() })
    }

    /// Writes that there are no mistakes, for programs.
    #[must_use]
    pub fn check_json(&self) -> Value {
        let elections: Vec<&str> = self.elections().iter().map(|election| election.name().as_str()).collect();
        json!({ "file": self.file_text(), "elections": elections, "warnings": self.warning_texts() })
    }

    fn file_text(&self) -> Option<String> {
        self.file().map(|file| file.display().to_string())
    }

    fn warning_texts(&self) -> Vec<String> {
        self.warnings().iter().map(ToString::to_string).collect()
    }

    /// Returns each election, or what holds for any if none is named.
    fn shown(&self) -> impl Iterator<Item = (Option<&str>, &Values)> {
        let named = self.elections().iter().map(|election| (Some(election.name().as_str()), &**election));
        let any = self.elections().is_empty().then_some((None, self.defaults()));
        named.chain(any)
    }
}
