//! The JSON schema of our files: for editors, whichever of TOML, JSON and YAML they show.

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::keys::{KEYS, Key, Kind, Scope};

impl Config {
    /// Returns the JSON schema of a file.
    #[must_use]
    pub fn schema() -> Value {
        let all = properties(|_| true);
        let mut top = properties(|key| key.scope == Scope::Everywhere);
        top.insert("$schema".to_owned(), json!({ "type": "string" }));
        top.insert(
            "elections".to_owned(),
            json!({
                "description": "The elections, by name; what is set at the top holds for all of them",
                "type": "object",
                "additionalProperties": { "$ref": "#/$defs/election" },
            }),
        );
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Tenure's configuration",
            "type": "object",
            "properties": top,
            "additionalProperties": false,
            "$defs": {
                "election": { "type": "object", "properties": all, "additionalProperties": false },
                "duration": {
                    "type": "string",
                    "examples": ["500ms", "30s", "5m", "20h", "1h30m"],
                },
            },
        })
    }
}

fn properties(wanted: impl Fn(&Key) -> bool) -> Map<String, Value> {
    KEYS.iter().filter(|key| wanted(key)).map(|key| (key.name.to_owned(), property(key))).collect()
}

fn property(key: &Key) -> Value {
    let mut property = match key.kind {
        Kind::Store | Kind::Line => json!({ "type": "string" }),
        Kind::Time => json!({ "$ref": "#/$defs/duration" }),
        Kind::Percent => json!({ "type": ["number", "string"], "minimum": 0, "exclusiveMaximum": 50 }),
        Kind::Switch => json!({ "type": "boolean" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Command => json!({
            "anyOf": [
                { "type": "array", "items": { "type": "string" }, "minItems": 1 },
                { "type": "string" },
            ]
        }),
    };
    property["description"] = format!("{} (default: {})", key.text, key.default).into();
    property
}
