//! A value of other software, from a file or from the environment.

use std::ops::Range;
use std::time::Duration;

use crate::keys::{Said, quoted};
use crate::layer::Given;
use crate::mistake::{Mistake, Place, Text};
use crate::origin::Origin;
use crate::tree::{Entry, Node, Value};

/// A value, its name, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Found<'a> {
    pub(super) name: String,
    value: Value,
    place: Where<'a>,
}

#[derive(Clone, Debug)]
enum Where<'a> {
    File(&'a Text, Range<usize>),
    Variable(String),
    /// Nobody said it: the software's own default.
    Default,
}

/// Longer times are mistakes in the unit, also there.
const LONGEST_SECONDS: f64 = 24.0 * 60.0 * 60.0;

impl<'a> Found<'a> {
    pub(super) fn in_file(text: &'a Text, name: impl Into<String>, node: &Node) -> Self {
        Self { name: name.into(), value: node.value.clone(), place: Where::File(text, node.span.clone()) }
    }

    /// A block or a section itself, by its name.
    pub(super) fn name_in_file(text: &'a Text, entry: &Entry) -> Self {
        Self { name: entry.name.clone(), value: Value::Nothing, place: Where::File(text, entry.span.clone()) }
    }

    pub(super) fn in_variable(name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        Self { value: Value::Text(value.into()), place: Where::Variable(name.clone()), name }
    }

    pub(super) fn default(name: impl Into<String>, value: Value) -> Self {
        Self { name: name.into(), value, place: Where::Default }
    }

    pub(super) fn mistake(&self, message: impl Into<String>) -> Mistake {
        match &self.place {
            Where::File(text, span) => text.mistake(span, message),
            Where::Variable(name) => Mistake::new(Place::Name(name.clone()), message),
            Where::Default => Mistake::new(Place::Nowhere, message),
        }
    }

    /// Makes it a value of ours that stands where this one does.
    pub(super) fn given(&self, said: Said) -> Given {
        let (origin, span) = match &self.place {
            Where::File(text, span) => (crate::read::origin(text, span), Some(span.clone())),
            Where::Variable(name) => (Origin::Variable(name.clone()), None),
            Where::Default => (Origin::Default(Some(self.name.clone())), None),
        };
        Given { said, origin, span }
    }

    /// Returns the text; blank is as good as nothing.
    pub(super) fn text(&self) -> Result<Option<String>, Mistake> {
        match &self.value {
            Value::Nothing => Ok(None),
            Value::Text(text) if text.trim().is_empty() => Ok(None),
            Value::Text(text) => Ok(Some(text.clone())),
            Value::Number(number) => Ok(Some(number.to_string())),
            _ => Err(self.wrong("text")),
        }
    }

    /// Returns a text that may be blank, such as a prefix.
    pub(super) fn any_text(&self) -> Result<String, Mistake> {
        match &self.value {
            Value::Text(text) => Ok(text.clone()),
            Value::Nothing => Ok(String::new()),
            _ => Err(self.wrong("text")),
        }
    }

    pub(super) fn switch(&self) -> Result<bool, Mistake> {
        match &self.value {
            Value::Switch(switch) => Ok(*switch),
            Value::Text(text) => {
                text.trim().to_ascii_lowercase().parse().map_err(|_| self.wrong("true or false"))
            }
            _ => Err(self.wrong("true or false")),
        }
    }

    pub(super) fn seconds(&self) -> Result<Duration, Mistake> {
        let seconds = match &self.value {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        };
        let whole =
            seconds.filter(|seconds| seconds.fract() == 0.0 && (1.0..=LONGEST_SECONDS).contains(seconds));
        whole
            .map(Duration::from_secs_f64)
            .ok_or_else(|| self.wrong("a number of whole seconds, from 1 to 86400"))
    }

    fn wrong(&self, expected: &str) -> Mistake {
        let name = &self.name;
        match &self.value {
            Value::Unknown(why) => self.mistake(format!("{name}: {why}")),
            Value::Text(text) => self.mistake(format!("{name} is {}: it must be {expected}", quoted(text))),
            Value::Number(number) => self.mistake(format!("{name} is {number}: it must be {expected}")),
            other => {
                let kind = Node::new(other.clone(), 0..0).kind();
                self.mistake(format!("{name} is {kind}: it must be {expected}"))
            }
        }
    }
}
