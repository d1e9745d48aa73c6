//! Settings of other software come to the very key that it contests, with its own defaults.

#![allow(clippy::unwrap_used)] // Tests.

mod support;

use std::fs;

use tenure_config::{Config, Sources};

fn load(sources: &Sources) -> Config {
    Config::load(sources).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// Returns store, ttl, renew_interval and retry_interval of the election.
fn of(config: &Config) -> (String, [String; 3]) {
    let election = config.election().unwrap();
    let row = |name: &str| election.rows().into_iter().find(|row| row.name == name).unwrap().value.unwrap();
    (election.store().url().to_owned(), ["ttl", "renew_interval", "retry_interval"].map(row))
}

fn times(of: [&str; 3]) -> [String; 3] {
    of.map(str::to_owned)
}

fn key(prefix: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric();
    let encode = |c: char| if plain(c) { c.to_string() } else { format!("%{:02X}", c as u32) };
    format!("key={}", format!("{prefix}{{election}}").chars().map(encode).collect::<String>())
}

#[test]
fn mutex_variables_fall_back_to_the_shared_ones_and_to_the_package() {
    let folder = tempfile::tempdir().unwrap();
    let sources = support::sources(folder.path()).election("billing");
    // Any software may have set this one: it alone means nothing.
    let shared = sources.clone().variable("REDIS_HOST", "shared");
    assert_eq!(of(&load(&shared)).0, "file:");
    let shared = shared.variable("MUTEX_REDIS_PREFIX", "");
    let (url, all) = of(&load(&shared));
    assert_eq!(url, format!("redis://shared:6379/0?{}", key("app:leader:")));
    assert_eq!(all, times(["30s", "10s", "5s"]));

    fs::write(folder.path().join("package.json"), r#"{ "name": "@acme/shop", "version": "1.0.0" }"#).unwrap();
    let own = shared.variable("MUTEX_REDIS_HOST", "own").variable("REDIS_PORT", "7000");
    assert_eq!(of(&load(&own)).0, format!("redis://own:7000/0?{}", key("@acme/shop:leader:")));
    let prefix = own.variable("REDIS_PREFIX", "p");
    assert_eq!(of(&load(&prefix)).0, format!("redis://own:7000/0?{}", key("p:leader:")));
    let sentinel = prefix.variable("REDIS_SENTINEL_HOST", "s").variable("MUTEX_REDIS_SENTINEL_NAME", "shop");
    assert_eq!(of(&load(&sentinel)).0, format!("redis+sentinel://s:26379/shop?{}", key("p:leader:")));
    // Whoever says a store of ours is left alone, and a setting of ours counts.
    assert_eq!(of(&load(&sentinel.clone().variable("TENURE_STORE", "memory:"))).0, "memory:");
    assert_eq!(of(&load(&sentinel.flag("ttl", "60s"))).1, times(["1m", "20s", "10s"]));
}

#[test]
fn mutex_variables_that_are_wrong_are_named() {
    let sources = support::sources("tests/none").election("a%b").variable("MUTEX_REDIS_HOST", "h");
    let sources = sources.variable("REDIS_PORT", "tcp://10.0.0.1:6379");
    let said = Config::load(&sources).unwrap_err().to_string();
    assert!(said.contains("REDIS_PORT: REDIS_PORT is \"tcp://10.0.0.1:6379\""), "{said}");
    let said = Config::load(&sources.variable("REDIS_PORT", "1")).unwrap_err().to_string();
    assert!(said.contains("another key"), "{said}");
    let both = support::sources("tests/none").variable("MUTEX_REDIS_HOST", "h");
    let both = both.variable("LeaderElection__KeyPrefix", "x");
    assert!(Config::load(&both).unwrap_err().to_string().contains("different software"));
}

#[test]
fn the_section_leader_election_with_its_variables() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("appsettings.json");
    fs::write(
        &file,
        r#"{ "Logging": {}, "LeaderElection": { "LeaseDurationSeconds": 60 },
             "Redis": { "ConnectionString": "r:1,password=hush,abortConnect=false" } }"#,
    )
    .unwrap();
    let sources = support::sources(folder.path()).file(&file);
    let config = load(&sources);
    assert_eq!(config.election().unwrap().name().as_str(), "honua-server");
    let (url, all) = of(&config);
    assert_eq!(url, format!("redis://:hush@r:1/0?{}", key("honua:leader:")));
    assert_eq!(all, times(["1m", "10s", "10s"]));
    assert!(!format!("{config:?} {}", config.show()).contains("hush"));

    let sources =
        sources.variable("LEADERELECTION__ResourceName", "gis").variable("LeaderElection__KeyPrefix", "");
    let sources = sources.variable("LeaderElection__EnableDetailedLogging", "True");
    let config = load(&sources.variable("Redis__ConnectionString", "a,b,serviceName=m"));
    let election = config.election().unwrap();
    assert_eq!((election.name().as_str(), election.verbose()), ("gis", true));
    assert_eq!(of(&config).0, format!("redis+sentinel://a:26379,b:26379/m?{}", key("")));

    let alone = support::sources("tests/none").variable("LeaderElection__ResourceName", "gis");
    let said = Config::load(&alone).unwrap_err().to_string();
    assert!(said.contains("where its Redis is"), "{said}");
    let alone = alone.variable("Redis__ConnectionString", "r").variable("LeaderElection__Prefix", "x");
    let said = Config::load(&alone).unwrap_err().to_string();
    assert!(said.contains("did you mean LeaderElection__KeyPrefix?"), "{said}");
}

const HCL: &str = r#"
honua "main" {
  listen = var.port

  high_availability {
    enabled = true
    leader_election {
      enabled                  = true
      resource_name            = "gis"
      lease_duration_seconds   = 30
      renewal_interval_seconds = 15
    }
  }

  cache "redis" {
    enabled    = true
    connection = env("REDIS_CONNECTION")
    prefix     = "cached:"
    ttl        = upper("x")
  }
}
"#;

#[test]
fn the_block_high_availability_inside_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.honua");
    fs::write(&file, HCL).unwrap();
    let sources =
        support::sources(folder.path()).file(&file).variable("REDIS_CONNECTION", "r:1,password=hush");
    let config = load(&sources);
    assert_eq!(config.election().unwrap().name().as_str(), "gis");
    let (url, all) = of(&config);
    assert_eq!(url, format!("redis://:hush@r:1/0?{}", key("honua:leader:")));
    // Theirs allows half a lease, ours does not.
    assert_eq!(all, times(["30s", "10s", "10s"]));
    let warning = config.warnings()[0].to_string();
    assert!(
        warning.contains("server.honua:11:")
            && warning.contains("is 15s")
            && warning.contains("10s is taken"),
        "{warning}"
    );
    // Ours is stricter with itself.
    let own = support::sources("tests/none").flag("ttl", "30s").flag("renew_interval", "15s");
    assert!(Config::load(&own).unwrap_err().to_string().contains("--renew-interval: renew_interval is 15s"));

    let said = load(&sources.clone().variable("TENURE_STORE", "memory:")).warnings()[0].to_string();
    assert!(said.contains("not used: TENURE_STORE"), "{said}");
}

#[test]
fn what_is_switched_off_leads_alone_and_says_so_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.hcl");
    for off in [
        HCL.replacen("enabled = true", "enabled = false", 1),
        HCL.replace("enabled                  = true", "enabled = false"),
    ] {
        assert_ne!(off, HCL);
        fs::write(&file, off.replace("= 15", "= 10")).unwrap();
        let config = load(&support::sources(folder.path()).file(&file));
        assert_eq!(of(&config).0, "memory:");
        let [warning] = config.warnings() else { panic!("{:?}", config.warnings()) };
        let warning = warning.to_string();
        assert!(
            warning.contains("server.hcl:") && warning.contains("leads without asking anybody"),
            "{warning}"
        );
    }
}
