//! What every format is turned into: values with their places in the text.

use std::ops::Range;

/// A value and where it stands, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Map(Vec<Entry>),
    List(Vec<Node>),
    Text(String),
    Number(f64),
    Switch(bool),
    Nothing,
    /// What cannot be worked out, and why: a mistake only if somebody wants it.
    Unknown(String),
}

/// A name in a map, with its value. A name may stand there twice: that is for the reader to judge.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) span: Range<usize>,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn new(value: Value, span: Range<usize>) -> Self {
        Self { value, span }
    }

    /// Returns the entries of a map; anything else has none.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Says what this is, for a message.
    pub(crate) fn kind(&self) -> &'static str {
        match self.value {
            Value::Map(_) => "a table",
            Value::List(_) => "a list",
            Value::Text(_) => "text",
            Value::Number(_) => "a number",
            Value::Switch(_) => "true or false",
            Value::Nothing => "nothing",
            Value::Unknown(_) => "an expression",
        }
    }
}

/// So deep may tables and lists lie in each other: more is a mistake, and readers and droppers go down by recursion.
pub(crate) const DEEPEST: usize = 64;
