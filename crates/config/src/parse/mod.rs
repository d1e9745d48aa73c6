//! The formats: each turns its text into the same tree.

mod hcl;
mod json;
mod toml;
mod yaml;

use std::path::Path;

use crate::mistake::{Mistake, Text};
use crate::sources::Environment;
use crate::tree::Node;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Toml,
    Json,
    Yaml,
    Hcl,
}

/// The ends of file names, and what they mean.
pub(crate) const FORMATS: &[(&str, Format)] = &[
    ("toml", Format::Toml),
    ("json", Format::Json),
    ("yaml", Format::Yaml),
    ("yml", Format::Yaml),
    ("hcl", Format::Hcl),
    ("honua", Format::Hcl),
];

impl Format {
    /// Tells by the end of its name how a file is written.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let end = path.extension()?.to_str()?.to_ascii_lowercase();
        FORMATS.iter().find(|(known, _)| *known == end).map(|(_, format)| *format)
    }
}

/// Turns a text into a tree.
pub(crate) fn parse(format: Format, text: &Text, environment: &Environment) -> Result<Node, Vec<Mistake>> {
    match format {
        Format::Toml => toml::parse(text),
        Format::Json => json::parse(text),
        Format::Yaml => yaml::parse(text),
        Format::Hcl => hcl::parse(text, environment),
    }
}

/// Says that tables and lists lie too deep in each other.
fn too_deep(text: &Text, span: &std::ops::Range<usize>) -> Mistake {
    let deepest = crate::tree::DEEPEST;
    text.mistake(span, format!("this lies more than {deepest} tables or lists deep: nothing here needs that"))
}
