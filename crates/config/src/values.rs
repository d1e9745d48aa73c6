//! What is set for an election, by its meaning.

use std::fmt;
use std::time::Duration;

use tenure_core::elector::{InvalidSettings, Profile, Settings, Timing};
use tenure_core::embedded::MemoryStore;
use tenure_core::store::LeaseStore;

use crate::keys::Said;
use crate::layer::Layer;
use crate::secret;

/// What is set, each value with its origin.
#[derive(Clone, Debug)]
pub struct Values {
    pub(crate) layer: Layer,
}

/// Where leases live; shown without secrets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Store<'a>(&'a str);

impl<'a> Store<'a> {
    /// Returns the URL as it was given, with its secrets.
    #[must_use]
    pub fn url(&self) -> &'a str {
        self.0
    }
}

impl fmt::Display for Store<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&secret::masked(self.0))
    }
}

impl fmt::Debug for Store<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", secret::masked(self.0))
    }
}

/// Where leases live if nobody says so.
pub(crate) const DEFAULT_STORE: &str = "file:";

impl Values {
    /// Returns where leases live.
    #[must_use]
    pub fn store(&self) -> Store<'_> {
        Store(self.layer.text("store").unwrap_or(DEFAULT_STORE))
    }

    /// Returns how the elector keeps time.
    #[must_use]
    pub fn settings(&self) -> Settings {
        let layer = &self.layer;
        let mut settings = match (layer.text("profile").and_then(profile), layer.time("ttl")) {
            (Some(profile), _) => Settings::profile(profile),
            (None, Some(ttl)) => Settings::ttl(ttl),
            (None, None) => Settings::default(),
        };
        for (name, set) in [
            ("renew_interval", Settings::renew_interval as fn(Settings, Duration) -> Settings),
            ("retry_interval", Settings::retry_interval),
            ("drain_timeout", Settings::drain_timeout),
            ("call_timeout", Settings::call_timeout),
            ("latency", Settings::latency),
        ] {
            if let Some(time) = layer.time(name) {
                settings = set(settings, time);
            }
        }
        match layer.percent("drift") {
            Some(percent) => settings.drift(percent / 100.0),
            None => settings,
        }
    }

    /// Works out what was not given, by the rules that hold for every store.
    pub(crate) fn timing(&self) -> Result<Timing, InvalidSettings> {
        self.settings().resolve(&MemoryStore::new().guarantees())
    }

    /// Returns what to run while leading.
    #[must_use]
    pub fn command(&self) -> Option<&[String]> {
        self.layer.words("command")
    }

    /// Tells whether the command is run once.
    #[must_use]
    pub fn once(&self) -> bool {
        self.layer.switch("once")
    }

    /// Returns how long to wait to be elected.
    #[must_use]
    pub fn wait(&self) -> Option<Duration> {
        self.layer.time("wait")
    }

    /// Returns how long after its last successful end the command is not started.
    #[must_use]
    pub fn min_interval(&self) -> Option<Duration> {
        self.layer.time("min_interval")
    }

    /// Tells whether the next machine starts a command that crashed at once.
    #[must_use]
    pub fn failover_on_crash(&self) -> bool {
        self.layer.switch("failover_on_crash")
    }

    /// Returns how the command's processes are kept together: `auto`, `on` or `off`.
    #[must_use]
    pub fn isolate(&self) -> &str {
        self.layer.text("isolate").unwrap_or("auto")
    }

    /// Returns what is run with sh when elected.
    #[must_use]
    pub fn on_elected(&self) -> Option<&str> {
        self.layer.text("on_elected")
    }

    /// Returns what is run with sh when leadership was lost.
    #[must_use]
    pub fn on_lost(&self) -> Option<&str> {
        self.layer.text("on_lost")
    }

    /// Returns what is run with sh when another leader was seen.
    #[must_use]
    pub fn on_leader_change(&self) -> Option<&str> {
        self.layer.text("on_leader_change")
    }

    /// Tells whether more is said.
    #[must_use]
    pub fn verbose(&self) -> bool {
        self.layer.switch("verbose")
    }
}

fn profile(name: &str) -> Option<Profile> {
    match name {
        "fast" => Some(Profile::Fast),
        "balanced" => Some(Profile::Balanced),
        "stable" => Some(Profile::Stable),
        "object-storage" => Some(Profile::ObjectStorage),
        _ => None,
    }
}

/// Writes a value for people; the same for the same value, whatever it was written in.
pub(crate) fn shown(said: &Said) -> String {
    match said {
        Said::Text(text) => secret::masked(text),
        Said::Time(time) => humantime::format_duration(*time).to_string(),
        Said::Percent(percent) => format!("{percent}%"),
        Said::Switch(switch) => switch.to_string(),
        Said::Words(words) => {
            secret::masked_words(words).map(|word| shell_word(&word)).collect::<Vec<_>>().join(" ")
        }
    }
}

/// Quotes a word where a shell would need it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
