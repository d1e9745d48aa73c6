//! What was typed.

use std::io::{self, Read};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// Choose the candidate of this seat.
    Choose(usize),
    Up,
    Down,
    Kill,
    Stop,
    Continue,
    CutOffOrConnect,
    HandOff,
    Start,
    Quit,
}

/// Reads keys in a thread of its own, which ends with the process. When nothing can be typed any more, that is a wish to
/// quit.
pub(super) fn read() -> io::Result<UnboundedReceiver<Key>> {
    let (sender, keys) = unbounded_channel();
    std::thread::Builder::new().name("tenure-keys".to_owned()).spawn(move || {
        let mut reader = Reader::default();
        let mut bytes = [0; 64];
        while let Ok(length @ 1..) = io::stdin().read(&mut bytes) {
            for key in bytes[..length].iter().filter_map(|byte| reader.take(*byte)) {
                let _ = sender.send(key);
            }
        }
        let _ = sender.send(Key::Quit);
    })?;
    Ok(keys)
}

const ESCAPE: u8 = 0x1b;
const CTRL_C: u8 = 0x03;

/// Where in the bytes of one key we are: a slow line may bring them one by one.
#[derive(Clone, Copy, Debug, Default)]
enum Reader {
    #[default]
    Between,
    AfterEscape,
    InSequence,
}

impl Reader {
    fn take(&mut self, byte: u8) -> Option<Key> {
        match (*self, byte) {
            (_, ESCAPE) => *self = Self::AfterEscape,
            (Self::AfterEscape, b'[' | b'O') => *self = Self::InSequence,
            (Self::InSequence, last @ 0x40..=0x7e) => {
                *self = Self::Between;
                return match last {
                    b'A' => Some(Key::Up),
                    b'B' => Some(Key::Down),
                    _ => None,
                };
            }
            // Numbers of a longer sequence.
            (Self::InSequence, 0x20..=0x3f) => {}
            (_, plain) => {
                *self = Self::Between;
                return key(plain);
            }
        }
        None
    }
}

fn key(byte: u8) -> Option<Key> {
    Some(match byte.to_ascii_lowercase() {
        digit @ b'1'..=b'3' => Key::Choose(usize::from(digit - b'1')),
        b'\t' => Key::Down,
        b'k' => Key::Kill,
        b's' => Key::Stop,
        b'c' => Key::Continue,
        b'x' => Key::CutOffOrConnect,
        b'h' => Key::HandOff,
        b'r' => Key::Start,
        b'q' | CTRL_C => Key::Quit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_among_bytes() {
        let mut reader = Reader::default();
        let bytes = b"1\x1b[A\x1bOB\x1b[1;5Cq\x1b\x1b[Bz\x1bk\xffK\x03";
        let keys: Vec<_> = bytes.iter().filter_map(|byte| reader.take(*byte)).collect();
        let expected =
            [Key::Choose(0), Key::Up, Key::Down, Key::Quit, Key::Down, Key::Kill, Key::Kill, Key::Quit];
        assert_eq!(keys, expected);
    }
}
