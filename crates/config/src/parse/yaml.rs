//! YAML, without anchors: what holds for several elections stands at the top of the file.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::too_deep;
use crate::mistake::{Mistake, Text};
use crate::tree::{DEEPEST, Entry, Node, Value};

pub(super) fn parse(text: &Text) -> Result<Node, Vec<Mistake>> {
    build(text).map_err(|mistake| vec![mistake])
}

/// A map or a list that is not complete yet.
enum Open {
    Map { start: usize, entries: Vec<Entry>, name: Option<(String, Range<usize>)> },
    List { start: usize, items: Vec<Node> },
}

fn build(text: &Text) -> Result<Node, Mistake> {
    let places = Places::of(&text.text);
    let mut open: Vec<Open> = Vec::new();
    let mut root: Option<Node> = None;
    for event in Parser::new_from_str(&text.text) {
        let (event, span) = event.map_err(|error| {
            let at = places.byte(error.marker().index());
            text.mistake(&(at..at + 1), format!("this is not valid YAML: {}", error.info()))
        })?;
        let span = places.bytes(&span);
        let wrong = |message: &str| text.mistake(&span, message);
        if matches!(event, Event::SequenceStart(..) | Event::MappingStart(..)) && open.len() == DEEPEST {
            return Err(too_deep(text, &span));
        }
        let done = match event {
            Event::Alias(_) => {
                return Err(wrong("anchors are not understood here")
                    .hint("what holds for all elections can stand once, at the top of the file"));
            }
            Event::Scalar(scalar, style, _, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
                let value = if is_text { Value::Text(scalar.into_owned()) } else { plain(&scalar) };
                Node::new(value, span)
            }
            Event::SequenceStart(..) => {
                open.push(Open::List { start: span.start, items: Vec::new() });
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map { start: span.start, entries: Vec::new(), name: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List { start, items }) => Node::new(Value::List(items), start..span.end),
                Some(Open::Map { start, entries, .. }) => Node::new(Value::Map(entries), start..span.end),
                None => continue,
            },
            Event::DocumentStart(_) if root.is_some() => {
                return Err(wrong("a second document begins here: there is one in a file"));
            }
            _ => continue,
        };
        match open.last_mut() {
            None => root = Some(done),
            Some(Open::List { items, .. }) => items.push(done),
            Some(Open::Map { entries, name, .. }) => match name.take() {
                Some((name, span)) => entries.push(Entry { name, span, node: done }),
                None => *name = Some((as_name(text, &done)?, done.span)),
            },
        }
    }
    Ok(root.unwrap_or_else(|| Node::new(Value::Nothing, 0..0)))
}

fn as_name(text: &Text, node: &Node) -> Result<String, Mistake> {
    match &node.value {
        Value::Text(name) => Ok(name.clone()),
        Value::Number(_) | Value::Switch(_) | Value::Nothing => {
            Ok(text.text.get(node.span.clone()).unwrap_or_default().to_owned())
        }
        _ => Err(text.mistake(&node.span, "a name was expected here")),
    }
}

/// What a word without quotes means.
fn plain(word: &str) -> Value {
    match word {
        "true" | "True" | "TRUE" => Value::Switch(true),
        "false" | "False" | "FALSE" => Value::Switch(false),
        "" | "~" | "null" | "Null" | "NULL" => Value::Nothing,
        _ if word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) => {
            match word.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Number(number),
                _ => Value::Text(word.to_owned()),
            }
        }
        _ => Value::Text(word.to_owned()),
    }
}

/// The parser counts characters; everything else counts bytes.
struct Places(Vec<usize>);

impl Places {
    fn of(text: &str) -> Self {
        Self(text.char_indices().map(|(at, _)| at).chain([text.len()]).collect())
    }

    fn byte(&self, character: usize) -> usize {
        self.0[character.min(self.0.len() - 1)]
    }

    fn bytes(&self, span: &Span) -> Range<usize> {
        let start = self.byte(span.start.index());
        start..self.byte(span.end.index()).max(start)
    }
}
