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
    /// So many replicas have it, and not as many as must.
    TooFew { replicas: u32, of: u32 },
    /// The server is not one that leases may lie in, or the configuration is not one that it can be reached with.
    Unfit(ErrorKind, String),
    /// The answer is not one that our script gives.
    Reply(String),
    /// This, with one of several servers.
    At(String, Box<Trouble>),
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

    /// Tells whether an answer says that the server is not, or not now, the one that serves: whoever connects anew may
    /// find another one.
    pub(crate) fn is_of_the_wrong_server(error: &RedisError) -> bool {
        let kinds = [ServerErrorKind::ReadOnly, ServerErrorKind::MasterDown, ServerErrorKind::BusyLoading];
        kinds.iter().any(|kind| error.kind() == redis::ErrorKind::Server(*kind))
            // A script's error names the one within, before version 7.
            || error.detail().is_some_and(|detail| detail.contains("-READONLY"))
    }

    /// Makes the error that callers see.
    pub(crate) fn into_error(self, about: About<'_>) -> StoreError {
        let source = match &self {
            Self::Connection(source) | Self::Server(source) => Some(source.clone()),
            _ => None,
        };
        let (kind, message) = self.explained(about);
        let error = StoreError::new(kind, STORE, about.operation, message);
        match source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }

    /// Says what it is and what to do about it.
    pub(crate) fn explained(self, about: About<'_>) -> (ErrorKind, String) {
        let server = about.server;
        match self {
            Self::At(server, trouble) => trouble.explained(About { server: &server, ..about }),
            Self::NoAnswer(limit) => {
                (ErrorKind::Timeout, format!("{server} gave no answer within {} ms", limit.as_millis()))
            }
            Self::NoConnection(limit) => {
                let hint = match scheme(server) {
                    Some("redis") => "If the port speaks only TLS, write rediss://",
                    Some("rediss") => "If the port speaks no TLS, write redis://",
                    _ => "Does tls=true say what the ports speak?",
                };
                let message = format!(
                    "{server} gave no answer within {} ms while connecting; is the way to it open, and is it not too busy? \
                     {hint}",
                    limit.as_millis()
                );
                (ErrorKind::Timeout, message)
            }
            Self::Connection(source) => connection(&source, server),
            Self::Server(source) => answered(&source, about),
            Self::TooFew { replicas, of } => {
                let rule = "it counts for nothing, since a failover could lose it: mend the replicas, or lower min_replicas";
                let message = format!("{server} has this on {replicas} of {of} replicas in time: {rule}");
                (ErrorKind::Unavailable, message)
            }
            Self::Unfit(kind, message) => (kind, format!("{server} {message}")),
            Self::Reply(message) => {
                let rule = "is there a proxy in between?";
                (
                    ErrorKind::Unavailable,
                    format!("{server} gave an answer that is not ours ({message}): {rule}"),
                )
            }
        }
    }
}

/// Returns the scheme of a server that is named by its URL.
fn scheme(server: &str) -> Option<&str> {
    server.split_once("://").map(|(scheme, _)| scheme)
}

fn connection(error: &RedisError, server: &str) -> (ErrorKind, String) {
    let text = error.to_string();
    let scheme = scheme(server);
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
        _ if text.contains("InvalidContentType") || text.contains("corrupt message") => match scheme {
            Some("rediss") => "the port does not speak TLS: write redis://, or the port that does",
            _ => "the port does not speak TLS: leave tls=true out, or write the port that does",
        },
        _ if text.contains("eset") || text.contains("closed") || text.contains("arse") => match scheme {
            Some("redis") => "if the port wants TLS, write rediss://",
            Some("rediss") => "is the server there and the way to it open?",
            _ => "if the port wants TLS, write tls=true",
        },
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
    let is_cluster = server.starts_with("redis+cluster");
    let say = |kind, rule: &str| (kind, format!("{server} {rule} ({code} {detail})"));
    let is_replica = if server.starts_with("redis+sentinel") {
        "is not led by this server any more: the sentinels are asked for the new master with the next call"
    } else {
        "is a replica that cannot be written to: give the address of its master"
    };
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
        (redis::ErrorKind::Server(ServerErrorKind::ReadOnly), _) => say(ErrorKind::Unavailable, is_replica),
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
        (redis::ErrorKind::Server(ServerErrorKind::CrossSlot), _) if is_cluster => say(
            ErrorKind::Invalid,
            "has these keys in different slots: give them one hash tag, such as {billing}:fence and {billing}:totals",
        ),
        (redis::ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask), _) if is_cluster => {
            say(ErrorKind::Unavailable, "does not agree on who has this slot: try again")
        }
        (redis::ErrorKind::Server(ServerErrorKind::TryAgain), _) => {
            say(ErrorKind::Unavailable, "is moving this slot to another server: it serves when that is done")
        }
        (
            redis::ErrorKind::Server(
                ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot,
            ),
            _,
        ) => say(ErrorKind::Invalid, "is a node of a Redis Cluster: write redis+cluster://"),
        (redis::ErrorKind::Server(ServerErrorKind::ClusterDown), _) => {
            say(ErrorKind::Unavailable, "is a cluster, or a node of one, that does not serve now")
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
