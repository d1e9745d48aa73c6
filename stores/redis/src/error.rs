//! What can go wrong with a server, and what to do about it.

use std::time::Duration;

use redis::{RedisError, ServerErrorKind};
use tenure_core::ElectionName;
use tenure_core::store::{ErrorKind, StoreError};

use crate::script::command_in;

/// The store's short name.
pub(crate) const STORE: &str = "redis";

/// Why a call has no outcome.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// No answer came within this time.
    NoAnswer(Duration),
    /// No connection came about within this time.
    NoConnection(Duration),
    /// There is no connection, or it broke.
    Connection(RedisError),
    /// The server answered with an error.
    Server(RedisError),
    /// The server is not one that leases may lie in, or the configuration is not one that it can be reached with.
    Unfit(ErrorKind, String),
    /// The answer is not one that our script gives.
    Reply(String),
}

/// What a message about trouble names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) operation: &'static str,
    /// The server, without secrets.
    pub(crate) server: &'a str,
    /// The access rule for our keys.
    pub(crate) access: &'a str,
    /// The script that was run.
    pub(crate) script: &'static str,
    pub(crate) election: Option<&'a ElectionName>,
}

impl Trouble {
    /// Tells whether what is kept of an election cannot be understood.
    pub(crate) fn is_corrupt(&self) -> bool {
        matches!(self, Self::Server(error) if matches!(error.code(), Some("CORRUPT" | "WRONGTYPE")))
    }

    /// Makes the error that callers see.
    pub(crate) fn into_error(self, about: About<'_>) -> StoreError {
        let About { operation, server, .. } = about;
        let error = |kind, message: String| StoreError::new(kind, STORE, operation, message);
        match self {
            Self::NoAnswer(limit) => {
                let ms = limit.as_millis();
                error(ErrorKind::Timeout, format!("{server} gave no answer within {ms} ms"))
            }
            Self::NoConnection(limit) => {
                let (ms, other) =
                    (limit.as_millis(), if server.starts_with("rediss") { "redis" } else { "rediss" });
                let hint = "is the way to it open, and is it not too busy?";
                let message = format!(
                    "{server} gave no answer within {ms} ms while connecting; {hint} If the port speaks {} TLS, write \
                     {other}://",
                    if other == "redis" { "no" } else { "only" }
                );
                error(ErrorKind::Timeout, message)
            }
            Self::Connection(source) => {
                let (kind, message) = connection(&source, server);
                error(kind, message).with_source(source)
            }
            Self::Server(source) => {
                let (kind, message) = answered(&source, about);
                error(kind, message).with_source(source)
            }
            Self::Unfit(kind, message) => error(kind, format!("{server} {message}")),
            Self::Reply(message) => error(
                ErrorKind::Unavailable,
                format!("{server} gave an answer that is not ours ({message}): is there a proxy in between?"),
            ),
        }
    }
}

fn connection(error: &RedisError, server: &str) -> (ErrorKind, String) {
    let text = error.to_string();
    let plain = server.starts_with("redis://");
    let hint = match error.kind() {
        redis::ErrorKind::AuthenticationFailed => return answered_login(server, &text),
        redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => {
            let about = About { operation: "connect", server, access: "", script: "", election: None };
            return answered(error, about);
        }
        redis::ErrorKind::InvalidClientConfig => {
            return (ErrorKind::Invalid, format!("{server} cannot be reached this way: {text}"));
        }
        redis::ErrorKind::RESP3NotSupported => {
            let rule = "it is older than version 6, the first one that leases can lie in: upgrade it";
            return (ErrorKind::Invalid, format!("{server}: {rule}"));
        }
        _ if text.contains("CertificateRequired") => {
            "the server wants to see a certificate: give one with certificate=/path and certificate_private=/path"
        }
        _ if text.contains("certificate") || text.contains("UnknownIssuer") => {
            "give the authority that signed it with ca=/path, the name in it with server_name=…"
        }
        _ if !plain && (text.contains("InvalidContentType") || text.contains("corrupt message")) => {
            "the port does not speak TLS: write redis://, or the port that does"
        }
        _ if plain && (text.contains("eset") || text.contains("closed") || text.contains("arse")) => {
            "if the port wants TLS, write rediss://"
        }
        _ if error.is_connection_refusal() => "is the server running, and is the address right?",
        _ => "is the server there and the way to it open?",
    };
    (ErrorKind::Unavailable, format!("{server} cannot be reached: {text}; {hint}"))
}

fn answered_login(server: &str, text: &str) -> (ErrorKind, String) {
    let message = format!("{server} refuses the user or the password ({text}): check both");
    (ErrorKind::Denied, message)
}

/// Says what an error of the server means and what to do about it.
fn answered(error: &RedisError, about: About<'_>) -> (ErrorKind, String) {
    let server = about.server;
    let code = error.code().unwrap_or_default();
    let detail = error.detail().unwrap_or_default();
    let say = |kind, rule: &str| (kind, format!("{server} {rule} ({code} {detail})"));
    match (error.kind(), code) {
        (redis::ErrorKind::AuthenticationFailed, _) | (_, "WRONGPASS" | "NOAUTH") => {
            answered_login(server, &error.to_string())
        }
        (redis::ErrorKind::Server(ServerErrorKind::NoPerm), _) => denied(detail, about),
        (_, "ERR") if detail.contains("The user executing the script can't") => denied(detail, about),
        (_, "ERR") if detail.contains("ACL failure in script") => denied(detail, about),
        (_, "DENIED") => {
            say(ErrorKind::Denied, "serves its own machine only: set a password or an address to bind to")
        }
        (redis::ErrorKind::Server(ServerErrorKind::ReadOnly), _) => say(
            ErrorKind::Unavailable,
            "is a replica that cannot be written to: give the address of its master",
        ),
        (redis::ErrorKind::Server(ServerErrorKind::MasterDown), _) => {
            say(ErrorKind::Unavailable, "is a replica that has lost its master: give the master's address")
        }
        (redis::ErrorKind::Server(ServerErrorKind::BusyLoading), _) => {
            say(ErrorKind::Unavailable, "is still loading its data: it will serve soon")
        }
        (_, "OOM") => say(
            ErrorKind::Unavailable,
            "has no memory left for new leases: raise maxmemory or remove other keys; held leases can still be renewed",
        ),
        (_, "BUSY") => say(
            ErrorKind::Unavailable,
            "is held up by a script of somebody that runs too long: end it with SCRIPT KILL",
        ),
        (_, "MISCONF") => {
            say(ErrorKind::Unavailable, "cannot write its data to disk and takes no writes: see its log")
        }
        (_, "NOREPLICAS") => say(
            ErrorKind::Unavailable,
            "has too few replicas in reach and takes no writes (min-replicas-to-write)",
        ),
        (_, "CORRUPT" | "WRONGTYPE") => {
            let message = match about.election {
                Some(election) => format!(
                    "what {server} keeps of election {:?} cannot be understood: {detail}; it counts as held until \
                     somebody removes or mends it",
                    election.as_str()
                ),
                None => format!("what {server} keeps there is something else: {detail}"),
            };
            (ErrorKind::Corrupt, message)
        }
        (
            redis::ErrorKind::Server(
                ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot,
            ),
            _,
        ) => say(ErrorKind::Invalid, "is a node of a Redis Cluster: write redis+cluster://"),
        (redis::ErrorKind::Server(ServerErrorKind::ClusterDown | ServerErrorKind::TryAgain), _) => {
            say(ErrorKind::Unavailable, "is a node of a cluster that does not serve now")
        }
        (_, "ERR") if detail.contains("unknown command") => say(
            ErrorKind::Invalid,
            "does not know a command that leases need: Redis 6 or later, with scripts, is needed",
        ),
        (_, "ERR") if detail.contains("DB index") || detail.contains("switch database") => {
            say(ErrorKind::Invalid, "does not have this database: write a lower number")
        }
        (_, "ERR") if detail.contains("Script killed") || detail.contains("SCRIPT KILL") => {
            say(ErrorKind::Unavailable, "ended our script by somebody's SCRIPT KILL: try again")
        }
        _ => say(ErrorKind::Unavailable, "answered with an error"),
    }
}

fn denied(detail: &str, about: About<'_>) -> (ErrorKind, String) {
    let About { server, access, script, .. } = about;
    // The server names a command that was sent in quotes, and one of a script by the line in which it stands.
    let quoted = || Some(detail.rsplit_once('\'')?.0.rsplit_once('\'')?.1);
    let command =
        command_in(script, detail).or_else(quoted).unwrap_or("a command of the script").to_lowercase();
    let what = if detail.contains("key") && !detail.contains("command or subcommand") {
        format!("does not let this user at the keys of the election (command {command}): grant {access}")
    } else if detail.contains("channel") {
        format!(
            "does not let this user at the channels of the election: grant &* or the channels of {access}"
        )
    } else {
        format!("does not let this user run {command}: grant +{command} on {access}")
    };
    (ErrorKind::Denied, format!("{server} {what}"))
}
