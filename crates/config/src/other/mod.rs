//! Settings of other software, with the defaults of that software: while it is replaced, both contest the same lease.
//!
//! They are looked for only where nothing of ours says a store.

mod connection;
mod high_availability;
mod leader_election;
mod lease;
mod mutex_redis;
mod value;

use tenure_core::ElectionName;

use crate::layer::Layer;
use crate::mistake::{Mistake, Place, Text};
use crate::parse::Format;
use crate::sources::Sources;
use crate::tree::Node;

pub(crate) use lease::other_key;

/// What other software's settings come to in ours.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    /// What they are, for a message.
    pub(crate) what: &'static str,
    pub(crate) election: Option<ElectionName>,
    pub(crate) layer: Layer,
    pub(crate) warnings: Vec<Mistake>,
}

/// Looks for them in a file that has no word of ours; `None` if it has none of theirs either.
pub(crate) fn in_file(
    sources: &Sources,
    text: &Text,
    format: Format,
    root: &Node,
) -> Option<(Other, Vec<Mistake>)> {
    match format {
        Format::Json => leader_election::in_file(sources, text, root),
        Format::Hcl => high_availability::in_file(text, root),
        Format::Toml | Format::Yaml => None,
    }
}

/// Looks for them in the environment.
pub(crate) fn in_environment(sources: &Sources) -> (Option<Other>, Vec<Mistake>) {
    let environment = &sources.environment;
    let (section, mutex) = (leader_election::variable(environment), mutex_redis::own_variable(environment));
    if let (Some(section), Some(mutex)) = (section, mutex) {
        let message = format!(
            "{section} and {mutex} belong to different software: it is not clear whose lease is meant"
        );
        let hint = "unset one of them, or say it in our own words with --store";
        return (None, vec![Mistake::new(Place::Nowhere, message).hint(hint)]);
    }
    if section.is_some() {
        return leader_election::in_environment(sources);
    }
    mutex_redis::in_environment(sources)
}
