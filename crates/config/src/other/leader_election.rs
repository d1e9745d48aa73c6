//! The section `LeaderElection` of a JSON file, with `Redis:ConnectionString`, and both as variables of the environment
//! (`LeaderElection__ResourceName`). Upper and lower case are the same, as in the software whose settings they are.

use super::Other;
use super::lease::{Lease, Names};
use super::value::Found;
use crate::mistake::{Mistake, Text};
use crate::sources::{Environment, Sources};
use crate::suggest;
use crate::tree::{Entry, Node, Value};

const SECTION: &str = "LeaderElection";
const NAMES: Names =
    ["ResourceName", "LeaseDurationSeconds", "RenewalIntervalSeconds", "KeyPrefix", "EnableDetailedLogging"];
const CONNECTION: [&str; 2] = ["Redis", "ConnectionString"];

/// Returns a variable that speaks of the section.
pub(super) fn variable(environment: &Environment) -> Option<&str> {
    environment.keys().map(String::as_str).find(|name| behind_section(name).is_some())
}

fn behind_section(variable: &str) -> Option<&str> {
    let (section, name) = variable.split_once("__")?;
    section.eq_ignore_ascii_case(SECTION).then_some(name)
}

pub(super) fn in_environment(sources: &Sources) -> (Option<Other>, Vec<Mistake>) {
    let mut mistakes = Vec::new();
    let other = read(sources, None, &mut mistakes);
    (Some(other), mistakes)
}

/// Reads the section of a file; `None` if it has none.
pub(super) fn in_file(sources: &Sources, text: &Text, root: &Node) -> Option<(Other, Vec<Mistake>)> {
    let mut mistakes = Vec::new();
    let section = Section { text, root };
    if !section.is_there() {
        return None;
    }
    section.check(&mut mistakes);
    let other = read(sources, Some(&section), &mut mistakes);
    Some((other, mistakes))
}

fn read(sources: &Sources, section: Option<&Section<'_>>, mistakes: &mut Vec<Mistake>) -> Other {
    let environment = &sources.environment;
    check_variables(environment, mistakes);
    // The environment counts more than the file, as there.
    let find = |path: [&str; 2]| {
        let variable = path.join("__");
        let in_variable = environment.iter().find(|(name, _)| name.eq_ignore_ascii_case(&variable));
        let in_variable = in_variable.map(|(name, value)| Found::in_variable(name, value));
        in_variable.or_else(|| section.and_then(|section| section.find(path)))
    };
    let in_section = section.and_then(Section::name);
    let in_variable = || Found::in_variable(variable(environment).unwrap_or(SECTION), "");
    let at = in_section.unwrap_or_else(in_variable);
    let lease = Lease::new(at, NAMES, |name| find([SECTION, name]));
    let read = lease.read(find(CONNECTION).as_ref(), mistakes);
    Other {
        what: "section LeaderElection",
        election: read.election,
        layer: read.layer,
        warnings: read.warnings,
    }
}

fn check_variables(environment: &Environment, mistakes: &mut Vec<Mistake>) {
    for (variable, value) in environment {
        let Some(name) = behind_section(variable) else { continue };
        if !NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let hint = suggest::nearest(name, NAMES).map(|near| format!("did you mean {SECTION}__{near}?"));
            let found = Found::in_variable(variable, value);
            mistakes.push(found.mistake(format!("{SECTION} has no setting {name:?}")).maybe_hint(hint));
        }
    }
}

/// The sections of a file; `A: { B: … }` may also be written `"A:B": …`.
struct Section<'a> {
    text: &'a Text,
    root: &'a Node,
}

impl<'a> Section<'a> {
    fn is_there(&self) -> bool {
        self.name().is_some()
    }

    /// Returns where the section begins.
    fn name(&self) -> Option<Found<'a>> {
        let is_section = |entry: &&Entry| {
            let name = entry.name.split(':').next().unwrap_or_default();
            name.eq_ignore_ascii_case(SECTION)
        };
        let entry = self.root.entries().iter().find(is_section)?;
        Some(Found::name_in_file(self.text, entry))
    }

    /// Returns the settings of a section, by their names in it.
    fn of(&self, section: &str) -> impl Iterator<Item = (&'a str, &'a Entry)> {
        self.root.entries().iter().flat_map(move |entry| match entry.name.split_once(':') {
            None if entry.name.eq_ignore_ascii_case(section) => {
                entry.node.entries().iter().map(|inner| (inner.name.as_str(), inner)).collect()
            }
            Some((name, rest)) if name.eq_ignore_ascii_case(section) => vec![(rest, entry)],
            _ => Vec::new(),
        })
    }

    fn find(&self, path: [&str; 2]) -> Option<Found<'a>> {
        // What stands last counts, as there.
        let (_, entry) = self.of(path[0]).filter(|(name, _)| name.eq_ignore_ascii_case(path[1])).last()?;
        Some(Found::in_file(self.text, path[1], &entry.node))
    }

    /// Only this section is ours to judge.
    fn check(&self, mistakes: &mut Vec<Mistake>) {
        for (name, entry) in self.of(SECTION) {
            if !NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                let hint = suggest::did_you_mean(name, NAMES);
                let mistake = self.text.mistake(&entry.span, format!("{SECTION} has no setting {name:?}"));
                mistakes.push(mistake.maybe_hint(hint));
            }
        }
        for entry in self.root.entries().iter().filter(|entry| entry.name.eq_ignore_ascii_case(SECTION)) {
            if !matches!(entry.node.value, Value::Map(_)) {
                let message = format!("{SECTION} is {}: it must be a table", entry.node.kind());
                mistakes.push(self.text.mistake(&entry.node.span, message));
            }
        }
    }
}
