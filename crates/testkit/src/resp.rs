//! The protocol of Redis and Valkey, as far as tests need it: where a message ends, and plain requests by hand.

/// What a server answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A word such as `OK`.
    Text(String),
    /// A refusal, with its code in front: `WRONGTYPE …`.
    Error(String),
    /// A number.
    Integer(i64),
    /// A value.
    Bytes(Vec<u8>),
    /// Several replies.
    List(Vec<Reply>),
    /// Nothing is there.
    Null,
}

impl Reply {
    /// Returns the text of a word, a value or a refusal.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Error(text) => Some(text.clone()),
            Self::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            Self::Integer(number) => Some(number.to_string()),
            Self::List(_) | Self::Null => None,
        }
    }

    /// Returns the replies of a list, none for anything else.
    #[must_use]
    pub fn list(&self) -> &[Reply] {
        match self {
            Self::List(replies) => replies,
            _ => &[],
        }
    }

    /// Returns the value after `name` in a list of names and values.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<String> {
        self.list().chunks(2).find(|pair| pair[0].text().as_deref() == Some(name))?.get(1)?.text()
    }

    /// Returns the value of a line `name:value`, as `INFO` has them.
    #[must_use]
    pub fn line(&self, name: &str) -> Option<String> {
        let text = self.text()?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some(value.trim().to_owned())
    }
}

/// Writes a request down.
#[must_use]
pub fn request<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend(format!("${}\r\n", argument.len()).bytes());
        bytes.extend(argument);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// Reads the reply with which `bytes` begin, if all of it is there, and tells how long it is.
///
/// Types that only RESP3 has are understood as far as they look like one of [`Reply`]; the others become text.
#[must_use]
pub fn reply(bytes: &[u8]) -> Option<(Reply, usize)> {
    let length = length(bytes)?;
    Some((Reader { bytes: &bytes[..length] }.reply()?, length))
}

/// Returns the command of a request in upper case: `EVALSHA`.
#[must_use]
pub fn command(request: &[u8]) -> Option<String> {
    let word = match request.first()? {
        b'*' => {
            let mut reader = Reader { bytes: request };
            reader.line()?;
            reader.value()?
        }
        _ => request.split(u8::is_ascii_whitespace).next()?.to_vec(),
    };
    Some(String::from_utf8_lossy(&word).to_ascii_uppercase())
}

/// Returns the length of the message with which `bytes` begin, if all of it is there.
///
/// What is no such message (an inline command apart, which is a line) is taken as it came, as a whole.
#[must_use]
pub fn length(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut missing) = (0, 1_u64);
    while missing > 0 {
        let kind = *bytes.get(at)?;
        if !kind.is_ascii_graphic() {
            return Some(bytes.len());
        }
        let end = at + bytes[at..].windows(2).position(|pair| pair == b"\r\n")? + 2;
        let text = &bytes[at + 1..end - 2];
        let number = || std::str::from_utf8(text).ok()?.parse::<i64>().ok();
        missing -= 1;
        at = end;
        match kind {
            b'$' | b'=' | b'!' => {
                let Some(number) = number() else { return Some(bytes.len()) };
                // Minus one: there is no value.
                if let Ok(length) = usize::try_from(number) {
                    at += length + 2;
                }
            }
            b'*' | b'~' | b'>' | b'%' | b'|' => {
                let Some(number) = number() else { return Some(bytes.len()) };
                let parts = u64::try_from(number).unwrap_or(0);
                missing += if matches!(kind, b'%' | b'|') { parts * 2 } else { parts };
                // An attribute stands before the reply that it belongs to.
                missing += u64::from(kind == b'|');
            }
            _ => {}
        }
    }
    (at <= bytes.len()).then_some(at)
}

/// Tells whether a reply came by itself: a message of a subscription, or the confirmation of one.
#[must_use]
pub fn is_push(reply: &[u8]) -> bool {
    const OF_SUBSCRIPTIONS: [&[u8]; 9] = [
        b"message",
        b"pmessage",
        b"smessage",
        b"subscribe",
        b"psubscribe",
        b"ssubscribe",
        b"unsubscribe",
        b"punsubscribe",
        b"sunsubscribe",
    ];
    match reply.first() {
        Some(b'>') => true,
        // Without RESP3 they are ordinary lists that begin with a word.
        Some(b'*') => {
            let mut reader = Reader { bytes: reply };
            let word = reader.line().and_then(|_| reader.value());
            word.is_some_and(|word| OF_SUBSCRIPTIONS.contains(&word.as_slice()))
        }
        _ => false,
    }
}

/// Reads what is known to be whole.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn line(&mut self) -> Option<(u8, String)> {
        let end = self.bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let kind = *self.bytes.first()?;
        let text = String::from_utf8_lossy(self.bytes.get(1..end)?).into_owned();
        self.bytes = &self.bytes[end + 2..];
        Some((kind, text))
    }

    /// Reads a value, the length of which is written in front.
    fn value(&mut self) -> Option<Vec<u8>> {
        let (kind, length) = self.line()?;
        if kind != b'$' {
            return None;
        }
        self.take(length.parse().ok()?)
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        let value = self.bytes.get(..length)?.to_vec();
        self.bytes = self.bytes.get(length + 2..)?;
        Some(value)
    }

    fn reply(&mut self) -> Option<Reply> {
        let (kind, text) = self.line()?;
        Some(match kind {
            b'-' => Reply::Error(text),
            b':' => Reply::Integer(text.parse().ok()?),
            b'_' => Reply::Null,
            b'$' | b'=' | b'!' => match text.parse::<usize>() {
                Ok(length) => Reply::Bytes(self.take(length)?),
                Err(_) => Reply::Null,
            },
            b'*' | b'~' | b'>' | b'%' => match text.parse::<usize>() {
                Ok(parts) => {
                    let parts = if kind == b'%' { parts * 2 } else { parts };
                    Reply::List((0..parts).map(|_| self.reply()).collect::<Option<_>>()?)
                }
                Err(_) => Reply::Null,
            },
            b'|' => {
                for _ in 0..text.parse::<usize>().ok()? * 2 {
                    self.reply()?;
                }
                self.reply()?
            }
            _ => Reply::Text(text),
        })
    }
}

#[cfg(test)]
#[path = "resp_test.rs"]
mod tests;
