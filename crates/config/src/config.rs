//! A configuration: its elections, and what is set for each.

use std::path::{Path, PathBuf};

use tenure_core::ElectionName;

use crate::load;
use crate::mistake::{Mistake, Mistakes, Place};
use crate::sources::Sources;
use crate::values::{Store, Values};

/// A configuration without mistakes.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) file: Option<PathBuf>,
    pub(crate) wanted: Option<ElectionName>,
    pub(crate) defaults: Values,
    pub(crate) elections: Vec<Election>,
    pub(crate) warnings: Vec<Mistake>,
}

/// An election, and what is set for it.
#[derive(Clone, Debug)]
pub struct Election {
    pub(crate) name: ElectionName,
    pub(crate) values: Values,
}

impl Config {
    /// Reads flags, environment and file.
    ///
    /// # Errors
    /// Lists every mistake, each with its place and a way out.
    ///
    /// ```
    /// use tenure_config::{Config, Sources};
    ///
    /// let sources = Sources::nothing("/nowhere").election("billing").variable("TENURE_TTL", "10s");
    /// let config = Config::load(&sources)?;
    /// assert_eq!(config.election()?.store().url(), "file:");
    /// # Ok::<_, tenure_config::Mistakes>(())
    /// ```
    pub fn load(sources: &Sources) -> Result<Self, Mistakes> {
        load::load(sources)
    }

    /// Returns the file that was read.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Returns what is no mistake but should be said.
    #[must_use]
    pub fn warnings(&self) -> &[Mistake] {
        &self.warnings
    }

    /// Returns the elections that a file or a flag names, in that order.
    #[must_use]
    pub fn elections(&self) -> &[Election] {
        &self.elections
    }

    /// Returns what holds for an election of which nothing is said.
    #[must_use]
    pub fn defaults(&self) -> &Values {
        &self.defaults
    }

    /// Returns the election that was asked for, else the only one.
    ///
    /// # Errors
    /// If none was asked for and there is none, or several.
    pub fn election(&self) -> Result<&Election, Mistakes> {
        let wrong = |message: String, hint: &str| {
            Err(Mistakes::new(vec![Mistake::new(Place::Nowhere, message).hint(hint)]))
        };
        match (&self.wanted, self.elections.as_slice()) {
            (Some(wanted), _) => self.named(wanted.as_str()).map_or_else(
                || wrong(format!("there is no election {:?}", wanted.as_str()), "name one with --election"),
                Ok,
            ),
            (None, [only]) => Ok(only),
            (None, []) => wrong(
                "no election is named".to_owned(),
                "name one with --election NAME or TENURE_ELECTION, or in a configuration",
            ),
            (None, several) => {
                let names: Vec<_> = several.iter().map(|one| one.name.as_str()).collect();
                let message = format!("there are several elections: {}", names.join(", "));
                wrong(message, "name one with --election NAME, or run all of them with --all")
            }
        }
    }

    /// Returns the election of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Election> {
        self.elections.iter().find(|election| election.name.as_str() == name)
    }

    /// Returns the store of these elections; of all, if none is named.
    ///
    /// # Errors
    /// If they have different ones.
    pub fn store_of(&self, names: &[&str]) -> Result<Store<'_>, Mistakes> {
        let shown = |name: &str| format!("the election {name:?}");
        let mut stores: Vec<(String, Store<'_>)> = if names.is_empty() {
            let each = self.elections.iter().map(|one| (shown(one.name.as_str()), one.store()));
            // There may be elections of which nothing is said, if something is said for all.
            let for_all = self.elections.is_empty() || self.defaults.layer.get("store").is_some();
            let others = for_all.then(|| ("what holds for all others".to_owned(), self.defaults.store()));
            each.chain(others).collect()
        } else {
            let of = |name: &str| self.named(name).map_or_else(|| self.defaults.store(), |one| one.store());
            names.iter().map(|name| (shown(name), of(name))).collect()
        };
        let (first, store) = stores.remove(0);
        match stores.into_iter().find(|(_, other)| *other != store) {
            None => Ok(store),
            Some((other, _)) => {
                let message = format!("{first} and {other} have different stores");
                let hint = "name one election, or the store that is meant with --store";
                Err(Mistakes::new(vec![Mistake::new(Place::Nowhere, message).hint(hint)]))
            }
        }
    }
}

impl Election {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &ElectionName {
        &self.name
    }
}

impl std::ops::Deref for Election {
    type Target = Values;

    fn deref(&self) -> &Values {
        &self.values
    }
}
