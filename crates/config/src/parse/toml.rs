//! TOML.

use std::ops::Range;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::too_deep;
use crate::mistake::{Mistake, Text};
use crate::tree::{Entry, Node, Value};

pub(super) fn parse(text: &Text) -> Result<Node, Vec<Mistake>> {
    if let Some(span) = long_name(&text.text) {
        return Err(vec![too_deep(text, &span)]);
    }
    let (table, errors) = DeTable::parse_recoverable(&text.text);
    if errors.is_empty() {
        let span = table.span();
        return Ok(Node::new(entries(table.get_ref()), span));
    }
    let end = text.text.len();
    let mistakes = errors.iter().map(|error| {
        let message = format!("this is not valid TOML: {}", error.message());
        text.mistake(&error.span().unwrap_or(end..end), message)
    });
    // After the first one that misleads the parser the others are guesses.
    Err(mistakes.take(3).collect())
}

/// So many parts may a dotted name have. The parser limits brackets itself, but each part is a table in a table too.
const LONGEST_NAME: usize = 16;

fn long_name(text: &str) -> Option<Range<usize>> {
    let mut dots = 0;
    for token in Source::new(text).lex() {
        match token.kind() {
            TokenKind::Dot => dots += 1,
            TokenKind::Atom | TokenKind::BasicString | TokenKind::LiteralString | TokenKind::Whitespace => {}
            _ => dots = 0,
        }
        if dots > LONGEST_NAME {
            return Some(token.span().start()..token.span().end());
        }
    }
    None
}

fn entries(table: &DeTable<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(name, value)| Entry { name: name.get_ref().to_string(), span: name.span(), node: node(value) })
        .collect();
    // As they stand in the file, not by the alphabet.
    entries.sort_by_key(|entry| entry.span.start);
    Value::Map(entries)
}

fn node(value: &Spanned<DeValue<'_>>) -> Node {
    let tree = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => {
            let digits = number.as_str().replace('_', "");
            match i64::from_str_radix(&digits, number.radix()) {
                #[allow(clippy::cast_precision_loss)] // Nothing here needs more than 2^53.
                Ok(number) => Value::Number(number as f64),
                Err(_) => Value::Unknown("the number is too large".to_owned()),
            }
        }
        DeValue::Float(number) => match number.as_str().replace('_', "").parse() {
            Ok(number) => Value::Number(number),
            Err(_) => Value::Unknown("this is no number".to_owned()),
        },
        DeValue::Boolean(switch) => Value::Switch(*switch),
        DeValue::Datetime(_) => Value::Unknown("a date has no use here".to_owned()),
        DeValue::Array(list) => Value::List(list.iter().map(node).collect()),
        DeValue::Table(table) => entries(table),
    };
    Node::new(tree, value.span())
}
