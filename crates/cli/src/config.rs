//! `tenure config`, and how the other verbs get at the configuration.

use std::io::Write;
use std::process::ExitCode;

use tenure::config::{self, Config, Mistakes, Sources};
use tenure::{ElectionName, StoreUrl};

use crate::args::{ConfigArgs, ConfigWhat, RunArgs, SettingsArgs, StoreArgs};
use crate::reading::Failure;
use crate::{exit, talk};

pub(crate) fn main(args: &ConfigArgs) -> ExitCode {
    match answer(args) {
        Ok(text) => {
            // Whoever reads has enough, or nobody reads.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(mistakes) => {
            talk::error(&mistakes);
            ExitCode::from(exit::USAGE)
        }
    }
}

fn answer(args: &ConfigArgs) -> Result<String, Mistakes> {
    if args.what == ConfigWhat::Schema {
        return Ok(format!("{:#}\n", Config::schema()));
    }
    let sources = with_settings(of_store(&args.store), &args.settings);
    let config = Config::load(&with_election(sources, args.election.as_deref()))?;
    if !args.json {
        say_warnings(&config);
    }
    Ok(match args.what {
        ConfigWhat::Check if args.json => format!("{}\n", config.check_json()),
        ConfigWhat::Check => format!("{}\n", checked(&config)),
        _ if args.json => format!("{}\n", config.show_json()),
        _ => config.show(),
    })
}

fn checked(config: &Config) -> String {
    let file = config.file().map_or("no file".to_owned(), |file| file.display().to_string());
    match config.elections().len() {
        0 => format!("{file}: no mistakes, no elections"),
        1 => format!("{file}: no mistakes, 1 election"),
        count => format!("{file}: no mistakes, {count} elections"),
    }
}

fn say_warnings(config: &Config) {
    config.warnings().iter().for_each(|warning| talk::say(&format!("warning: {warning}")));
}

impl StoreArgs {
    /// Returns where the leases of these elections live, or of all if none is named: by the flag, the environment, the
    /// configuration or by default.
    pub(crate) fn url(&self, elections: &[ElectionName]) -> Result<StoreUrl, Failure> {
        let config = Config::load(&of_store(self))?;
        say_warnings(&config);
        let names: Vec<_> = elections.iter().map(ElectionName::as_str).collect();
        Ok(config.store_of(&names)?.url().parse()?)
    }
}

fn of_store(args: &StoreArgs) -> Sources {
    let mut sources = config::sources();
    if let Some(file) = &args.config {
        sources = sources.file(file);
    }
    match &args.store {
        Some(url) => sources.flag("store", url),
        None => sources,
    }
}

fn with_election(sources: Sources, election: Option<&str>) -> Sources {
    match election {
        Some(name) => sources.election(name),
        None => sources,
    }
}

fn with_settings(sources: Sources, args: &SettingsArgs) -> Sources {
    let time = |time: std::time::Duration| humantime::format_duration(time).to_string();
    let given = [
        ("profile", args.profile.clone()),
        ("ttl", args.ttl.map(time)),
        ("renew_interval", args.renew_interval.map(time)),
        ("retry_interval", args.retry_interval.map(time)),
        ("drain_timeout", args.drain_timeout.map(time)),
        ("call_timeout", args.call_timeout.map(time)),
        ("drift", args.drift.map(|percent| percent.to_string())),
        ("latency", args.latency.map(time)),
    ];
    with_flags(sources, given)
}

fn with_flags(sources: Sources, given: impl IntoIterator<Item = (&'static str, Option<String>)>) -> Sources {
    let given = given.into_iter().filter_map(|(name, text)| Some((name, text?)));
    given.fold(sources, |sources, (name, text)| sources.flag(name, text))
}

/// Returns what `run` was told, and where to look for the rest.
pub(crate) fn of_run(args: &RunArgs) -> Sources {
    let time = |time: std::time::Duration| humantime::format_duration(time).to_string();
    let switch = |on: bool| on.then(|| "true".to_owned());
    let wait = args.wait.or(args.try_once.then_some(std::time::Duration::ZERO));
    let sources = with_settings(of_store(&args.store), &args.settings);
    let sources = with_flags(
        sources,
        [
            ("once", switch(args.once)),
            ("wait", wait.map(time)),
            ("min_interval", args.min_interval.map(time)),
            ("failover_on_crash", switch(args.failover_on_crash)),
            ("isolate", args.isolate.map(|isolate| isolate.name().to_owned())),
            ("on_elected", args.on_elected.clone()),
            ("on_lost", args.on_lost.clone()),
            ("on_leader_change", args.on_leader_change.clone()),
            ("verbose", switch(args.verbose)),
        ],
    );
    with_election(sources, args.election.as_deref())
}
