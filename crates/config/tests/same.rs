//! The same settings, whatever they are written in; flags before the environment before a file before defaults.

#![allow(clippy::unwrap_used)] // Tests.

mod support;

use std::collections::BTreeMap;

use tenure_config::{Config, Origin, Sources, Values};

const SETTINGS: &[(&str, &str)] = &[
    ("store", "redis://app:hush-4711@localhost:7000/2"),
    ("ttl", "12s"),
    ("renew_interval", "3s"),
    ("retry_interval", "1500ms"),
    ("drain_timeout", "2s"),
    ("call_timeout", "1s"),
    ("drift", "5"),
    ("latency", "50ms"),
    ("once", "true"),
    ("wait", "60s"),
    ("min_interval", "20h"),
    ("failover_on_crash", "true"),
    ("isolate", "off"),
    ("on_elected", "echo elected"),
    ("on_lost", "echo lost"),
    ("on_leader_change", "echo changed"),
    ("verbose", "true"),
];

fn in_file(end: &str) -> Sources {
    let sources = support::sources("tests/none").file(format!("tests/good/all.{end}"));
    sources.variable("REDIS_PASSWORD", "hush-4711").variable("LEASE", "12s")
}

fn load(sources: &Sources) -> Config {
    Config::load(sources).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Every setting with its value; a command has no variable and no flag of its own name.
fn values(values: &Values) -> BTreeMap<&'static str, Option<String>> {
    let rows = values.rows().into_iter().filter(|row| row.name != "command");
    rows.map(|row| (row.name, row.value)).collect()
}

#[test]
fn every_form_comes_to_the_same_settings() {
    let expected = values(load(&in_file("toml")).election().unwrap());
    assert_eq!(expected["ttl"].as_deref(), Some("12s"));
    assert_eq!(expected["store"].as_deref(), Some("redis://…@localhost:7000/2"));
    let with = |set: fn(Sources, &str, &str) -> Sources| {
        let sources = support::sources("tests/none").election("billing");
        SETTINGS.iter().fold(sources, |sources, (name, value)| set(sources, name, value))
    };
    let flags = with(|sources, name, value| sources.flag(name, value));
    let environment =
        with(|sources, name, value| sources.variable(format!("TENURE_{}", name.to_uppercase()), value));
    let files = ["json", "yaml", "yml", "hcl", "honua"].map(in_file);
    for sources in files.into_iter().chain([flags, environment]) {
        let config = load(&sources);
        let election = config.election().unwrap();
        assert_eq!(values(election), expected, "{sources:?}");
        assert_eq!(election.settings(), load(&in_file("toml")).election().unwrap().settings());
        assert_eq!(election.store().url(), "redis://app:hush-4711@localhost:7000/2");
        for shown in [config.show(), config.show_json().to_string(), format!("{config:?}")] {
            assert!(!shown.contains("hush"), "{shown}");
        }
    }
}

#[test]
fn a_command_is_the_same_in_every_file() {
    for end in ["toml", "json", "yaml", "hcl"] {
        let config = load(&in_file(end));
        let command = config.election().unwrap().command().unwrap().to_vec();
        assert_eq!(command, ["./worker", "--queue", "unpaid bills"], "{end}");
    }
}

fn origin(config: &Config, name: &str) -> (String, String) {
    let row = config.election().unwrap().rows().into_iter().find(|row| row.name == name).unwrap();
    (row.value.unwrap_or_default(), row.origin.to_string())
}

#[test]
fn each_value_says_where_it_comes_from_and_the_nearer_place_counts() {
    let sources = in_file("toml").variable("TENURE_TTL", "20s").variable("TENURE_LATENCY", "80ms");
    let config = load(&sources.flag("latency", "90ms"));
    for (name, value, place) in [
        ("latency", "90ms", "--latency"),
        ("ttl", "20s", "TENURE_TTL"),
        ("renew_interval", "3s", "tests/good/all.toml:3"),
        ("once", "true", "tests/good/all.toml:12"),
    ] {
        assert_eq!(origin(&config, name), (value.to_owned(), place.to_owned()), "{name}");
    }
    let bare = load(&support::sources("tests/none").election("e").variable("TENURE_TTL", "12s"));
    assert_eq!(origin(&bare, "renew_interval"), ("4s".into(), "default (ttl / 3)".into()));
    assert_eq!(origin(&bare, "store"), ("file:".into(), "default".into()));
    let rows = bare.election().unwrap().rows();
    assert!(rows.iter().any(|row| row.origin == Origin::Variable("TENURE_TTL".into())));
}

#[test]
fn a_profile_sets_four_values_and_a_nearer_ttl_takes_its_place() {
    let profile = support::sources("tests/none").election("e").variable("TENURE_PROFILE", "stable");
    let config = load(&profile);
    assert_eq!(origin(&config, "ttl"), ("1m".into(), "profile stable (TENURE_PROFILE)".into()));
    let config = load(&profile.clone().flag("ttl", "6s"));
    assert_eq!(origin(&config, "renew_interval"), ("2s".into(), "default (ttl / 3)".into()));
    // A profile that is nearer than single values takes the place of those that it sets.
    let config = load(&in_file("toml").flag("profile", "stable"));
    assert_eq!(origin(&config, "renew_interval").0, "20s");
    assert_eq!(origin(&config, "latency").0, "50ms");
}

#[test]
fn an_election_says_what_differs_from_the_top() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    std::fs::write(
        &file,
        "ttl = \"12s\"\n[elections.a]\n[elections.b]\nttl = \"24s\"\nstore = \"memory:\"\n",
    )
    .unwrap();
    let sources = support::sources(folder.path());
    let config = load(&sources);
    assert_eq!(config.file(), Some(file.as_path()));
    assert_eq!(config.elections().len(), 2);
    let ttl = |name: &str| values(config.named(name).unwrap())["ttl"].clone().unwrap();
    assert_eq!((ttl("a"), ttl("b")), ("12s".into(), "24s".into()));
    let store = |name: &str| config.named(name).unwrap().store().url().to_owned();
    assert_eq!((store("a"), store("b")), ("file:".into(), "memory:".into()));
    let of = |names: &[&str]| config.store_of(names).map(|store| store.url().to_owned());
    assert_eq!((of(&["a"]).unwrap(), of(&["b"]).unwrap()), ("file:".into(), "memory:".into()));
    assert_eq!(of(&["of which nothing is said"]).unwrap(), "file:");
    assert!(of(&["a", "b"]).is_err());
    let said = of(&[]).unwrap_err().to_string();
    assert!(said.contains("different stores") && said.contains("--store"), "{said}");
    std::fs::write(folder.path().join("one.toml"), "[elections.a]\nstore = \"redis://h\"\n").unwrap();
    let one = load(&support::sources(folder.path()).file(folder.path().join("one.toml")));
    assert_eq!(one.store_of(&[]).unwrap().url(), "redis://h");
    let top = "store = \"redis://a\"\n[elections.b]\nstore = \"redis://b\"\n";
    std::fs::write(folder.path().join("top.toml"), top).unwrap();
    let top = load(&support::sources(folder.path()).file(folder.path().join("top.toml")));
    assert_eq!(top.store_of(&["b"]).unwrap().url(), "redis://b");
    assert_eq!(top.store_of(&["c"]).unwrap().url(), "redis://a");
    assert!(top.store_of(&[]).is_err(), "b lies elsewhere");
    // Other software's settings are none of ours where every election has a store.
    let own = support::sources(folder.path()).file(folder.path().join("one.toml"));
    let beside = load(&own.variable("MUTEX_REDIS_HOST", "other"));
    assert_eq!(beside.store_of(&[]).unwrap().url(), "redis://h");
    let said = config.election().unwrap_err().to_string();
    assert!(said.contains("a, b") && said.contains("--all"), "{said}");
    assert_eq!(load(&sources.clone().election("b")).election().unwrap().name().as_str(), "b");
    assert_eq!(values(load(&sources.election("c")).election().unwrap())["ttl"].as_deref(), Some("12s"));
}

#[test]
fn every_setting_is_in_the_schema_and_every_good_file_keeps_it() {
    let schema = Config::schema();
    let settings = &schema["$defs"]["election"]["properties"];
    for (name, _) in SETTINGS {
        assert!(
            settings[name]["description"].is_string() && schema["properties"][name].is_object(),
            "{name}"
        );
    }
    assert!(settings["command"].is_object() && schema["properties"]["command"].is_null());
    assert_eq!(schema["properties"]["elections"]["additionalProperties"]["$ref"], "#/$defs/election");
}
