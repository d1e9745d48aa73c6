//! `config`, and what the other verbs take from a configuration.

use std::fs;

use crate::json::{Keys, documented, keys};
use crate::stage::{Said, Stage};

/// Writes a file beside the store and runs the command there, without a flag or a variable that names the store.
fn beside(stage: &Stage, name: &str, text: &str, args: &[&str]) -> Said {
    fs::write(stage.folder().join(name), text).unwrap();
    let mut command = stage.command();
    for variable in ["TENURE_STORE", "TENURE_DIR", "TENURE_ELECTION", "TENURE_CONFIG"] {
        command.env_remove(variable);
    }
    let said = Said::of(command.args(args).current_dir(stage.folder()));
    fs::remove_file(stage.folder().join(name)).unwrap();
    said
}

fn store_line(stage: &Stage) -> String {
    format!("store = \"file://{}\"\n", stage.store.path().display())
}

#[test]
fn every_value_is_shown_with_its_origin() {
    let stage = Stage::new();
    let text = "store = \"redis://app:hush@h\"\n\n[elections.billing]\nttl = \"12s\"\n";
    let said = beside(&stage, "tenure.toml", text, &["config", "show", "--latency", "50ms"]);
    let shown = said.expect(0);
    for (name, words) in [
        ("store", "redis://…@h  tenure.toml:1"),
        ("ttl", "12s          tenure.toml:4"),
        ("renew_interval", "4s           default (ttl / 3)"),
        ("latency", "50ms         --latency"),
    ] {
        let line = shown.lines().find(|line| line.trim_start().starts_with(&format!("{name} ")));
        assert!(line.is_some_and(|line| line.contains(words)), "{name}: {shown}");
    }
    let json = beside(&stage, "tenure.toml", text, &["config", "show", "--json"]).json();
    let settings = &json["elections"][0]["settings"];
    assert_eq!(settings["ttl"]["value"], "12s", "{json}");
    assert_eq!(
        (&settings["ttl"]["origin"]["from"], &settings["ttl"]["origin"]["line"]),
        (&"file".into(), &4.into())
    );
    assert!(!format!("{said:?}{json}").contains("hush"));
}

#[test]
fn mistakes_are_said_all_at_once_with_their_lines() {
    let stage = Stage::new();
    let text = "store = \"redis://app:hush@h/x\"\ntll = \"12s\"\n";
    for verb in [&["config", "check"][..], &["config", "show"], &["status"], &["list"]] {
        let said = beside(&stage, "tenure.toml", text, verb);
        said.refuse(
            2,
            &["2 mistakes", "tenure.toml:1:9: store", "its number", "tenure.toml:2:1:", "^^^", "\"ttl\"?"],
        );
        assert!(!said.stderr.contains("hush"), "{said:?}");
    }
    let said = beside(&stage, "tenure.toml", "ttl = \"12s\"\n[elections.a]\n", &["config", "check"]);
    assert_eq!(said.expect(0), "tenure.toml: no mistakes, 1 election\n");
    let json = beside(&stage, "tenure.toml", "[elections.a]\n", &["config", "check", "--json"]).json();
    assert_eq!(json["elections"], serde_json::json!(["a"]));
}

#[test]
fn the_schema_is_json() {
    let schema = Stage::new().run(&["config", "schema"]);
    let schema: serde_json::Value = serde_json::from_str(schema.expect(0)).unwrap();
    assert_eq!(schema["properties"]["ttl"]["$ref"], "#/$defs/duration");
}

#[tokio::test]
async fn verbs_that_look_find_the_store_in_the_configuration() {
    let stage = Stage::new();
    stage.lead("billing", "a").await;
    let text = store_line(&stage);
    assert_eq!(beside(&stage, "tenure.toml", &text, &["list"]).expect(0), "billing\n");
    assert_eq!(beside(&stage, "other.hcl", &text, &["list", "--config", "other.hcl"]).expect(0), "billing\n");
    // A flag counts more.
    let elsewhere = ["list", "--store", "file:///nowhere/at/all"];
    assert_eq!(beside(&stage, "tenure.toml", &text, &elsewhere).expect(0), "");
    let said = beside(&stage, "tenure.toml", &text, &["list", "--config", "no.toml"]);
    said.refuse(2, &["no.toml: this file cannot be read", "--config"]);
}

#[test]
fn the_keys_of_the_json_are_those_of_the_page() {
    let stage = Stage::new();
    let text = "profile = \"stable\"\n[elections.a]\n[elections.b]\nttl = \"9s\"\n";
    fs::write(stage.folder().join("tenure.toml"), text).unwrap();
    let mut command = stage.command();
    command.args(["config", "show", "--json", "--latency", "50ms"]).env("TENURE_DRIFT", "9");
    let shown = Said::of(command.current_dir(stage.folder())).json();
    assert_eq!(keys(&shown), ["elections", "file", "warnings"].map(str::to_owned).into());
    let mut origins = Keys::new();
    for election in shown["elections"].as_array().unwrap() {
        assert_eq!(keys(election), documented()["A configured election"]);
        for setting in election["settings"].as_object().unwrap().values() {
            assert_eq!(keys(setting), ["origin", "value"].map(str::to_owned).into());
            origins.extend(keys(&setting["origin"]));
        }
    }
    assert_eq!(origins, documented()["An origin"]);
}
