//! What can be told to happen on the way.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::resp;

/// One of the two directions of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Answers, and what the server says by itself.
    FromServer,
}

/// What becomes of a connection when something was lost on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It is reset, so that whoever waits knows at once.
    Cut,
    /// It stays open, and nothing more passes in that direction: whoever waits, waits in vain.
    Silence,
}

/// What happens to what is on its way.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Everything in one direction takes longer; its order stays.
    Delay(Direction, Duration),
    /// One direction is dead.
    Silence(Direction),
    /// Both are, also on new connections, which are accepted and never reach the server.
    BlackHole,
    /// These requests do not reach the server.
    LoseRequests(Requests, Then),
    /// These requests reach the server, which applies them; their answers do not come back.
    LoseAnswers(Requests, Then),
    /// These requests, and all that follows on their connections, are kept until they are delivered late.
    HoldBack(Requests),
}

/// Which requests a fault is about.
#[derive(Clone)]
pub struct Requests {
    fits: Arc<Fits>,
    most: Option<u64>,
}

type Fits = dyn Fn(&[u8]) -> bool + Send + Sync;

impl Requests {
    /// Takes all of them.
    #[must_use]
    pub fn all() -> Self {
        Self::matching(|_| true)
    }

    /// Takes those whose bytes fit.
    pub fn matching(fits: impl Fn(&[u8]) -> bool + Send + Sync + 'static) -> Self {
        Self { fits: Arc::new(fits), most: None }
    }

    /// Takes those that have a piece of text somewhere: the name of an election.
    #[must_use]
    pub fn containing(text: &str) -> Self {
        let text = text.as_bytes().to_vec();
        Self::matching(move |request| {
            text.is_empty() || request.windows(text.len()).any(|window| window == text)
        })
    }

    /// Takes the requests to Redis that have one of these commands: `&["EVALSHA", "FCALL"]`.
    #[must_use]
    pub fn commands(commands: &[&str]) -> Self {
        let commands: Vec<_> = commands.iter().map(|command| command.to_ascii_uppercase()).collect();
        Self::matching(move |request| {
            resp::command(request).is_some_and(|command| commands.contains(&command))
        })
    }

    /// Takes all requests to Redis except those that a connection begins with or that only ask about servers: what a
    /// store is *for*.
    #[must_use]
    pub fn of_work() -> Self {
        const OTHERS: [&str; 20] = [
            "ASKING",
            "AUTH",
            "CLIENT",
            "CLUSTER",
            "COMMAND",
            "HELLO",
            "INFO",
            "PING",
            "PSUBSCRIBE",
            "PUNSUBSCRIBE",
            "QUIT",
            "READONLY",
            "READWRITE",
            "ROLE",
            "SELECT",
            "SENTINEL",
            "SSUBSCRIBE",
            "SUBSCRIBE",
            "SUNSUBSCRIBE",
            "UNSUBSCRIBE",
        ];
        Self::matching(|request| {
            resp::command(request).is_none_or(|command| !OTHERS.contains(&command.as_str()))
        })
    }

    /// Takes only the next so many of them.
    #[must_use]
    pub fn next(mut self, count: u64) -> Self {
        self.most = Some(count);
        self
    }

    /// Takes a request, if it is one of these and not too many were taken before.
    pub(super) fn take(&mut self, request: &[u8]) -> bool {
        if self.most == Some(0) || !(self.fits)(request) {
            return false;
        }
        self.most = self.most.map(|most| most - 1);
        true
    }
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("most", &self.most).finish_non_exhaustive()
    }
}
