//! Names of elections, candidates and identities, and the ids of bids and attempts.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::random::Random;

/// The longest name, in bytes: what fits into one file name, one key and one line.
pub const MAX_NAME_BYTES: usize = 255;

/// Why a name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} name {shown:?} {rule}")]
pub struct InvalidName {
    what: &'static str,
    shown: String,
    rule: &'static str,
}

fn check(what: &'static str, name: &str) -> Result<(), InvalidName> {
    let rule = if name.trim().is_empty() {
        "is blank: give it at least one visible character"
    } else if name.len() > MAX_NAME_BYTES {
        "is longer than 255 bytes: shorten it"
    } else if name.chars().any(char::is_control) {
        "contains a control character (such as a line break): remove it"
    } else {
        return Ok(());
    };
    // A name may be megabytes long by mistake: the message shows its beginning only.
    let mut shown: String = name.chars().take(40).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    Err(InvalidName { what, shown, rule })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl $type {
            /// Takes a name of 1 to 255 bytes that is not blank and has no control characters.
            ///
            /// # Errors
            /// Names the value, the rule that it breaks and what to do.
            pub fn new(name: impl AsRef<str>) -> Result<Self, InvalidName> {
                let name = name.as_ref();
                check($what, name)?;
                Ok(Self(name.into()))
            }

            /// Returns the name as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl FromStr for $type {
            type Err = InvalidName;
            fn from_str(name: &str) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl TryFrom<&str> for $type {
            type Error = InvalidName;
            fn try_from(name: &str) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidName;
            fn try_from(name: String) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().into()
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        // Compared and ordered as its text is, so that maps can be asked by text.
        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// What is contested, by name.
    ElectionName, "election"
}
name! {
    /// One process taking part, unique per process start: `{host}_{pid}_{random}`.
    CandidateId, "candidate"
}
name! {
    /// A name that stays the same over restarts of one machine.
    Identity, "identity"
}

impl CandidateId {
    /// Makes the id of this process: host name, process id and random characters.
    #[must_use]
    pub fn of_this_process(random: &Random) -> Self {
        let uname = rustix::system::uname();
        let host: String =
            uname.nodename().to_string_lossy().chars().filter(|c| !c.is_control()).take(63).collect();
        let host = if host.trim().is_empty() { "host" } else { host.as_str() };
        let id = format!("{host}_{}_{:08x}", std::process::id(), random.next_u64() >> 32);
        // At most 63 characters of at most 4 bytes, and 20 more: within the limit, never blank.
        Self(id.into())
    }
}

/// Every call to a store writes some ids, and the formatter of numbers takes several times as long.
fn hex_digits(bytes: [u8; 16]) -> [u8; 32] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [0; 32];
    for (pair, byte) in digits.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    digits
}

macro_rules! id {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        // Bytes, in the order of their digits: a number of this size would have to stand at every sixteenth byte, and
        // what holds ids would grow by that.
        pub struct $type([u8; 16]);

        impl $type {
            /// Draws a new one.
            #[must_use]
            pub fn new(random: &Random) -> Self {
                Self(random.next_u128().to_be_bytes())
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let digits = hex_digits(self.0);
                f.pad(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // The first quarter tells two apart in a log or a trace.
                write!(f, "{:08x}", u128::from_be_bytes(self.0) >> 96)
            }
        }

        impl FromStr for $type {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                if text.len() != 32 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                    return Err(InvalidId(text.chars().take(40).collect()));
                }
                let id = u128::from_str_radix(text, 16).map_err(|_| InvalidId(text.into()))?;
                Ok(Self(id.to_be_bytes()))
            }
        }

        impl TryFrom<String> for $type {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(id: $type) -> String {
                id.to_string()
            }
        }
    };
}

/// Why the text of an id was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("id {0:?} is not 32 lower-case hexadecimal digits")]
pub struct InvalidId(String);

id! {
    /// One wish to lead. Repeating it is harmless; once its term ended it is spent.
    BidId
}
id! {
    /// One request on behalf of a bid or a lease (its nonce), kept in the record so that a write whose answer was
    /// lost can be found out and dated.
    Attempt
}
id! {
    /// One request of an operator to a leader.
    RequestId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_any_visible_characters_is_taken() {
        for name in ["a", "a b", "größe/ü:*{}", &"x".repeat(255)] {
            assert_eq!(ElectionName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn a_broken_name_is_refused_with_value_rule_and_way_out() {
        for (name, words) in [
            ("", "is blank"),
            (" \t", "is blank"),
            (&"x".repeat(256), "longer than 255 bytes"),
            ("a\nb", "control character"),
            ("a\0", "control character"),
        ] {
            let message = ElectionName::new(name).unwrap_err().to_string();
            assert!(message.contains(words) && message.starts_with("election name"), "{message}");
            assert!(message.len() < 300, "{message}");
        }
    }

    #[test]
    fn ids_read_back_as_written_and_refuse_the_rest() {
        let id = BidId::new(&Random::from_seed(1));
        assert_eq!(id.to_string().parse(), Ok(id));
        for text in ["", "xyz", &"0".repeat(31), &"+".repeat(32), &"A".repeat(32)] {
            assert!(text.parse::<BidId>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_candidate_is_unique_per_start() {
        let random = Random::from_os();
        let (a, b) = (CandidateId::of_this_process(&random), CandidateId::of_this_process(&random));
        assert_ne!(a, b);
        assert!(a.as_str().contains(&format!("_{}_", std::process::id())));
    }
}
