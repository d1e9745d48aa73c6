//! HCL: blocks become tables, by their labels. Of its expressions, values, text with `${…}` and `env("NAME")` are
//! understood; another one is a mistake only where its value is needed.

use std::ops::Range;

use hcl_edit::Span;
use hcl_edit::expr::{Expression, FuncCall, ObjectKey, UnaryOperator};
use hcl_edit::parser::parse_body;
use hcl_edit::structure::{Block, BlockLabel, Body, Structure};
use hcl_edit::template::{Element, Template};

use crate::mistake::{Mistake, Text};
use crate::sources::Environment;
use crate::tree::{Entry, Node, Value};

pub(super) fn parse(text: &Text, environment: &Environment) -> Result<Node, Vec<Mistake>> {
    let body = parse_body(&text.text).map_err(|error| {
        let at = error.location().offset();
        vec![text.mistake(
            &(at..at + 1),
            format!("this is not valid HCL: {}", error.message().replace('\n', "; ")),
        )]
    })?;
    Ok(Evaluator { environment }.body(&body, 0..text.text.len()))
}

struct Evaluator<'a> {
    environment: &'a Environment,
}

fn span(of: &impl Span) -> Range<usize> {
    of.span().unwrap_or(0..0)
}

impl Evaluator<'_> {
    fn body(&self, body: &Body, span: Range<usize>) -> Node {
        let entries = body.iter().map(|structure| match structure {
            Structure::Attribute(attribute) => Entry {
                name: attribute.key.to_string(),
                span: self::span(&attribute.key),
                node: self.expression(&attribute.value),
            },
            Structure::Block(block) => self.block(block),
        });
        Node::new(Value::Map(entries.collect()), span)
    }

    /// `election "billing" { … }` is the table `billing` in the table `election`.
    fn block(&self, block: &Block) -> Entry {
        let whole = span(block);
        let mut node = self.body(&block.body, whole.clone());
        for label in block.labels.iter().rev() {
            let (name, span) = match label {
                BlockLabel::Ident(name) => (name.to_string(), span(name)),
                BlockLabel::String(name) => (name.to_string(), span(name)),
            };
            node = Node::new(Value::Map(vec![Entry { name, span, node }]), whole.clone());
        }
        Entry { name: block.ident.to_string(), span: span(&block.ident), node }
    }

    fn expression(&self, expression: &Expression) -> Node {
        let value = match expression {
            Expression::Null(_) => Value::Nothing,
            Expression::Bool(switch) => Value::Switch(**switch),
            Expression::Number(number) => match number.value().as_f64() {
                Some(number) => Value::Number(number),
                None => Value::Unknown("this is no number that can be used here".to_owned()),
            },
            Expression::String(text) => Value::Text(text.to_string()),
            Expression::Array(list) => Value::List(list.iter().map(|item| self.expression(item)).collect()),
            Expression::Object(object) => {
                let entries = object.iter().map(|(key, value)| self.entry(key, value.expr()));
                Value::Map(entries.collect())
            }
            Expression::StringTemplate(template) => self.template(template.iter()),
            Expression::HeredocTemplate(heredoc) => self.heredoc(&heredoc.template),
            Expression::Parenthesis(inner) => self.expression(inner.inner()).value,
            Expression::FuncCall(call) => self.call(call),
            Expression::UnaryOp(operation) if *operation.operator.value() == UnaryOperator::Neg => {
                match self.expression(&operation.expr).value {
                    Value::Number(number) => Value::Number(-number),
                    _ => other(),
                }
            }
            _ => other(),
        };
        Node::new(value, span(expression))
    }

    fn entry(&self, key: &ObjectKey, value: &Expression) -> Entry {
        let (name, span) = match key {
            ObjectKey::Ident(name) => (name.to_string(), span(name)),
            ObjectKey::Expression(expression) => match self.expression(expression) {
                Node { value: Value::Text(name), span } => (name, span),
                Node { span, .. } => ("(an expression)".to_owned(), span),
            },
        };
        Entry { name, span, node: self.expression(value) }
    }

    fn heredoc(&self, template: &Template) -> Value {
        self.template(template.iter())
    }

    fn template<'a>(&self, elements: impl Iterator<Item = &'a Element>) -> Value {
        let mut text = String::new();
        for element in elements {
            match element {
                Element::Literal(literal) => text.push_str(literal),
                Element::Interpolation(part) => match self.expression(&part.expr).value {
                    Value::Text(part) => text.push_str(&part),
                    Value::Number(number) => text.push_str(&number.to_string()),
                    Value::Switch(switch) => text.push_str(&switch.to_string()),
                    unknown @ Value::Unknown(_) => return unknown,
                    _ => {
                        return Value::Unknown(
                            "only text, numbers and true or false fit into a text".to_owned(),
                        );
                    }
                },
                Element::Directive(_) => return other(),
            }
        }
        Value::Text(text)
    }

    /// `env("NAME")`, or `env("NAME", "what if it is not set")`.
    fn call(&self, call: &FuncCall) -> Value {
        if !call.name.namespace.is_empty() || call.name.name.as_str() != "env" {
            return other();
        }
        let arguments: Vec<Value> =
            call.args.iter().map(|argument| self.expression(argument).value).collect();
        let (name, otherwise) = match arguments.as_slice() {
            [Value::Text(name)] => (name, None),
            [Value::Text(name), otherwise] => (name, Some(otherwise)),
            _ => {
                return Value::Unknown(
                    "env takes the name of a variable, as in env(\"REDIS_URL\")".to_owned(),
                );
            }
        };
        match (self.environment.get(name), otherwise) {
            (Some(value), _) => Value::Text(value.clone()),
            (None, Some(otherwise)) => otherwise.clone(),
            (None, None) => Value::Unknown(format!(
                "the variable {name} is not set: set it, or write env({name:?}, \"what to take then\")"
            )),
        }
    }
}

fn other() -> Value {
    Value::Unknown(
        "this expression is not understood: values, text with ${…} and env(\"NAME\") are".to_owned(),
    )
}
