//! Values of one place, and how places lie over each other.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::keys::Said;
use crate::origin::Origin;

/// A value, where it comes from, and where it stands in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Given {
    pub(crate) said: Said,
    pub(crate) origin: Origin,
    pub(crate) span: Option<Range<usize>>,
}

/// The values of one place, by the names of the settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Layer(pub(crate) BTreeMap<&'static str, Given>);

/// What a profile sets.
pub(crate) const OF_PROFILE: &[&str] = &["ttl", "renew_interval", "retry_interval", "drain_timeout"];

impl Layer {
    pub(crate) fn get(&self, name: &str) -> Option<&Given> {
        self.0.get(name)
    }

    pub(crate) fn set(&mut self, name: &'static str, given: Given) {
        self.0.insert(name, given);
    }

    /// Lays another place over this one: what it says counts.
    pub(crate) fn over(mut self, upper: &Self) -> Self {
        // A profile is a value for each of these; a ttl that is said above it takes its place.
        if upper.0.contains_key("profile") {
            OF_PROFILE.iter().for_each(|name| drop(self.0.remove(name)));
        }
        if upper.0.contains_key("ttl") {
            self.0.remove("profile");
            // Nor does anybody hear of other software's defaults who did not write them.
            let is_default = |given: &Given| matches!(given.origin, Origin::Default(_));
            self.0.retain(|name, given| !(OF_PROFILE.contains(name) && is_default(given)));
        }
        self.0.extend(upper.0.iter().map(|(name, given)| (*name, given.clone())));
        self
    }

    /// Returns the value that a profile and a ttl of one place contradict each other by.
    pub(crate) fn contradiction(&self) -> Option<&Given> {
        self.get("profile").and(self.get("ttl"))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.said {
            Said::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn time(&self, name: &str) -> Option<std::time::Duration> {
        match &self.get(name)?.said {
            Said::Time(time) => Some(*time),
            _ => None,
        }
    }

    pub(crate) fn percent(&self, name: &str) -> Option<f64> {
        match &self.get(name)?.said {
            Said::Percent(percent) => Some(*percent),
            _ => None,
        }
    }

    pub(crate) fn switch(&self, name: &str) -> bool {
        matches!(self.get(name).map(|given| &given.said), Some(Said::Switch(true)))
    }

    pub(crate) fn words(&self, name: &str) -> Option<&[String]> {
        match &self.get(name)?.said {
            Said::Words(words) => Some(words),
            _ => None,
        }
    }
}
