//! Where a value comes from.

use std::fmt;
use std::path::PathBuf;

use serde_json::{Value, json};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A flag of the command, such as `--ttl`.
    Flag(String),
    /// A variable of the environment, by its name.
    Variable(String),
    /// A line of a file.
    File {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
    },
    /// A profile, and where that was named.
    Profile(String, Box<Origin>),
    /// Nobody said it: it follows from the rest, or from other software's defaults; in a few words.
    Default(Option<String>),
}

impl Origin {
    /// Writes it for programs.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Flag(flag) => json!({ "from": "flag", "flag": flag }),
            Self::Variable(name) => json!({ "from": "environment", "variable": name }),
            Self::File { path, line } => {
                json!({ "from": "file", "file": path.display().to_string(), "line": line })
            }
            Self::Profile(profile, origin) => {
                json!({ "from": "profile", "profile": profile, "origin": origin.json() })
            }
            Self::Default(None) => json!({ "from": "default" }),
            Self::Default(Some(what)) => json!({ "from": "default", "what": what }),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(flag) => f.write_str(flag),
            Self::Variable(name) => f.write_str(name),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Profile(profile, origin) => write!(f, "profile {profile} ({origin})"),
            Self::Default(None) => f.write_str("default"),
            Self::Default(Some(what)) => write!(f, "default ({what})"),
        }
    }
}
