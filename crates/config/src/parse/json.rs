//! JSON, with the comments and the last commas that editors and other software allow.

use std::ops::Range;

use super::too_deep;
use crate::mistake::{Mistake, Text};
use crate::tree::{DEEPEST, Entry, Node, Value};

pub(super) fn parse(text: &Text) -> Result<Node, Vec<Mistake>> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.document().map_err(|mistake| vec![mistake])
}

struct Parser<'a> {
    text: &'a Text,
    at: usize,
    depth: usize,
}

type Parsed<T> = Result<T, Mistake>;

impl Parser<'_> {
    fn document(&mut self) -> Parsed<Node> {
        let node = self.value()?;
        self.skip_space()?;
        match self.peek() {
            None => Ok(node),
            Some(_) => Err(self.wrong("this stands after the end of the document")),
        }
    }

    fn rest(&self) -> &str {
        &self.text.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn wrong(&self, what: &str) -> Mistake {
        let end = self.at + self.peek().map_or(0, char::len_utf8);
        self.wrong_at(&(self.at..end), what)
    }

    fn wrong_at(&self, span: &Range<usize>, what: &str) -> Mistake {
        self.text.mistake(span, format!("this is not valid JSON: {what}"))
    }

    fn skip_space(&mut self) -> Parsed<()> {
        loop {
            let rest = self.rest();
            if let Some(comment) = rest.strip_prefix("//") {
                self.at += 2 + comment.find('\n').unwrap_or(comment.len());
            } else if let Some(comment) = rest.strip_prefix("/*") {
                match comment.find("*/") {
                    Some(end) => self.at += 2 + end + 2,
                    None => return Err(self.wrong("a comment begins here and does not end")),
                }
            } else {
                let space = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
                if space == 0 {
                    return Ok(());
                }
                self.at += space;
            }
        }
    }

    fn value(&mut self) -> Parsed<Node> {
        self.skip_space()?;
        let start = self.at;
        let value = match self.peek() {
            Some('{') => self.within(start, Self::map)?,
            Some('[') => self.within(start, Self::list)?,
            Some('"') => Value::Text(self.string()?),
            Some(c) if c.is_alphanumeric() || c == '-' => self.word()?,
            Some('\'') => return Err(self.wrong("text stands in double quotes")),
            Some(_) => return Err(self.wrong("a value was expected here")),
            None => return Err(self.wrong("it ends where a value was expected")),
        };
        Ok(Node::new(value, start..self.at))
    }

    fn within(&mut self, start: usize, parse: fn(&mut Self) -> Parsed<Value>) -> Parsed<Value> {
        if self.depth == DEEPEST {
            return Err(too_deep(self.text, &(start..start + 1)));
        }
        self.depth += 1;
        let value = parse(self);
        self.depth -= 1;
        value
    }

    fn map(&mut self) -> Parsed<Value> {
        let open = self.at;
        self.at += 1;
        let mut entries = Vec::new();
        loop {
            self.skip_space()?;
            let start = self.at;
            match self.peek() {
                Some('}') => break,
                Some('"') => {}
                Some(_) => return Err(self.wrong("a name in double quotes was expected here, or }")),
                None => return Err(self.wrong_at(&(open..open + 1), "the { is not closed")),
            }
            let name = self.string()?;
            let span = start..self.at;
            self.skip_space()?;
            if self.peek() != Some(':') {
                return Err(self.wrong("a : was expected after the name"));
            }
            self.at += 1;
            let node = self.value()?;
            entries.push(Entry { name, span, node });
            self.skip_space()?;
            match self.peek() {
                Some(',') => self.at += 1,
                Some('}') => break,
                Some(_) => return Err(self.wrong("a , or } was expected here")),
                None => return Err(self.wrong_at(&(open..open + 1), "the { is not closed")),
            }
        }
        self.at += 1;
        Ok(Value::Map(entries))
    }

    fn list(&mut self) -> Parsed<Value> {
        let open = self.at;
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_space()?;
            if self.peek() == Some(']') {
                break;
            }
            if self.peek().is_none() {
                return Err(self.wrong_at(&(open..open + 1), "the [ is not closed"));
            }
            items.push(self.value()?);
            self.skip_space()?;
            match self.peek() {
                Some(',') => self.at += 1,
                Some(']') => break,
                Some(_) => return Err(self.wrong("a , or ] was expected here")),
                None => return Err(self.wrong_at(&(open..open + 1), "the [ is not closed")),
            }
        }
        self.at += 1;
        Ok(Value::List(items))
    }

    fn word(&mut self) -> Parsed<Value> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '+' | '.' | '_')));
        let word = &rest[..end.unwrap_or(rest.len())];
        let span = self.at..self.at + word.len();
        let value = match word {
            "true" => Value::Switch(true),
            "false" => Value::Switch(false),
            "null" => Value::Nothing,
            _ => match word.parse::<f64>() {
                Ok(number) if number.is_finite() && !word.starts_with(char::is_alphabetic) => {
                    Value::Number(number)
                }
                _ => return Err(self.wrong_at(&span, "text stands in double quotes")),
            },
        };
        self.at = span.end;
        Ok(value)
    }

    fn string(&mut self) -> Parsed<String> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            let Some(character) = self.peek() else {
                return Err(self.wrong_at(&(start..start + 1), "the text is not closed"));
            };
            match character {
                '"' => break,
                '\\' => text.push(self.escape()?),
                '\n' => return Err(self.wrong_at(&(start..self.at), "the text is not closed on this line")),
                _ => {
                    text.push(character);
                    self.at += character.len_utf8();
                }
            }
        }
        self.at += 1;
        Ok(text)
    }

    fn escape(&mut self) -> Parsed<char> {
        let start = self.at;
        self.at += 1;
        let Some(sign) = self.peek() else { return Err(self.wrong("the text is not closed")) };
        self.at += sign.len_utf8();
        let wrong = |parser: &Self| parser.wrong_at(&(start..parser.at), "there is no such escape");
        Ok(match sign {
            '"' | '\\' | '/' => sign,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let first = self.hex().ok_or_else(|| wrong(self))?;
                // Two halves make one character beyond the first 65,536.
                let code = match first {
                    0xd800..0xdc00 if self.rest().starts_with("\\u") => {
                        self.at += 2;
                        let second = self.hex().ok_or_else(|| wrong(self))?;
                        if !(0xdc00..0xe000).contains(&second) {
                            return Err(wrong(self));
                        }
                        0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
                    }
                    code => code,
                };
                char::from_u32(code).ok_or_else(|| wrong(self))?
            }
            _ => return Err(wrong(self)),
        })
    }

    fn hex(&mut self) -> Option<u32> {
        let digits =
            self.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        let code = u32::from_str_radix(digits, 16).ok()?;
        self.at += 4;
        Some(code)
    }
}
