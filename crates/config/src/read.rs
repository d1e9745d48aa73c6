//! The one reader of our own files: walks the tree, takes what it knows, and collects every mistake.

use std::ops::Range;

use tenure_core::ElectionName;

use crate::keys::{self, KEYS, Key, Scope};
use crate::layer::{Given, Layer};
use crate::mistake::{Mistake, Text};
use crate::origin::Origin;
use crate::suggest;
use crate::tree::{Entry, Node, Value};

/// What a file says.
#[derive(Debug, Default)]
pub(crate) struct File {
    /// What holds for all elections.
    pub(crate) top: Layer,
    pub(crate) elections: Vec<Named>,
}

/// An election, and what is said of it.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) name: ElectionName,
    pub(crate) layer: Layer,
}

/// Under these names elections stand in a file; the first is the one to write, the second reads better in HCL's blocks.
pub(crate) const ELECTIONS: [&str; 2] = ["elections", "election"];

/// What editors want to know of a file.
const SCHEMA: &str = "$schema";

/// Tells whether a file has a word of ours at its top.
pub(crate) fn is_ours(root: &Node) -> bool {
    let ours = |name: &str| ELECTIONS.contains(&name) || keys::find(name).is_some();
    root.entries().iter().any(|entry| ours(&entry.name))
}

pub(crate) fn read(text: &Text, root: &Node) -> (File, Vec<Mistake>) {
    let mut reader = Reader { text, mistakes: Vec::new() };
    let file = reader.file(root);
    (file, reader.mistakes)
}

struct Reader<'a> {
    text: &'a Text,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn wrong(&mut self, span: &Range<usize>, message: impl Into<String>, hint: Option<String>) {
        let mistake = self.text.mistake(span, message).maybe_hint(hint);
        self.mistakes.push(mistake);
    }

    fn file(&mut self, root: &Node) -> File {
        let mut file = File::default();
        match &root.value {
            // An empty file says nothing.
            Value::Nothing => {}
            Value::Map(entries) => {
                let (elections, settings): (Vec<&Entry>, Vec<&Entry>) =
                    entries.iter().partition(|entry| ELECTIONS.contains(&entry.name.as_str()));
                let settings = settings.into_iter().filter(|entry| entry.name != SCHEMA);
                file.top = self.layer(settings, Scope::Everywhere);
                for entry in elections {
                    self.elections(entry, &mut file.elections);
                }
            }
            _ => self.wrong(
                &root.span,
                format!("a configuration is a table of settings, and this is {}", root.kind()),
                None,
            ),
        }
        file
    }

    fn elections(&mut self, entry: &Entry, elections: &mut Vec<Named>) {
        let hint = || Some("an election is a table by its name, such as elections.billing".to_owned());
        let Value::Map(entries) = &entry.node.value else {
            let message = format!("{} is {}: it must be a table of elections", entry.name, entry.node.kind());
            return self.wrong(&entry.node.span, message, hint());
        };
        for entry in entries {
            let name = match ElectionName::new(&entry.name) {
                Ok(name) => name,
                Err(error) => {
                    self.wrong(&entry.span, error.to_string(), None);
                    continue;
                }
            };
            if elections.iter().any(|other| other.name == name) {
                self.wrong(
                    &entry.span,
                    format!("the election {:?} stands here a second time", entry.name),
                    None,
                );
            }
            let layer = match &entry.node.value {
                Value::Map(settings) => self.layer(settings.iter(), Scope::Election),
                Value::Nothing => Layer::default(),
                _ => {
                    let message = format!(
                        "{:?} is {}: an election is a table of settings",
                        entry.name,
                        entry.node.kind()
                    );
                    self.wrong(&entry.node.span, message, hint());
                    continue;
                }
            };
            elections.push(Named { name, layer });
        }
    }

    fn layer<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>, scope: Scope) -> Layer {
        let mut layer = Layer::default();
        for entry in entries {
            let Some(key) = keys::find(&entry.name) else {
                self.unknown(entry, scope);
                continue;
            };
            if key.scope == Scope::Election && scope == Scope::Everywhere {
                let hint = format!("write it into an election, such as elections.billing.{}", key.name);
                self.wrong(&entry.span, format!("{} belongs to an election", key.name), Some(hint));
            } else if let Some(first) = layer.get(key.name).and_then(|given| given.span.clone()) {
                let line = self.text.line(first.start);
                self.wrong(
                    &entry.span,
                    format!("{} is said a second time (first in line {line})", key.name),
                    None,
                );
            } else {
                self.take(key, entry, &mut layer);
            }
        }
        if let Some(span) = layer.contradiction().and_then(|ttl| ttl.span.clone()) {
            self.wrong(
                &span,
                "profile and ttl contradict each other: a profile sets the ttl and everything that follows from it",
                Some("give one of them".to_owned()),
            );
        }
        layer
    }

    fn take(&mut self, key: &'static Key, entry: &Entry, layer: &mut Layer) {
        match keys::from_node(key, &entry.node) {
            Ok(said) => {
                let origin = origin(self.text, &entry.span);
                layer.set(key.name, Given { said, origin, span: Some(entry.node.span.clone()) });
            }
            Err(wrong) => self.wrong(&entry.node.span, wrong.message, wrong.hint),
        }
    }

    fn unknown(&mut self, entry: &Entry, scope: Scope) {
        let at_top = scope == Scope::Everywhere;
        let known = KEYS.iter().map(|key| key.name).chain(at_top.then_some(ELECTIONS[0]));
        let hint = suggest::did_you_mean(&entry.name, known).or_else(|| match entry.node.value {
            Value::Map(_) if at_top => {
                Some(format!("an election stands in the table elections: elections.{}", entry.name))
            }
            _ => Some("`tenure config schema` shows every setting".to_owned()),
        });
        self.wrong(&entry.span, format!("there is no setting {}", keys::quoted(&entry.name)), hint);
    }
}

pub(crate) fn origin(text: &Text, span: &Range<usize>) -> Origin {
    Origin::File { path: text.path.clone(), line: text.line(span.start) }
}
