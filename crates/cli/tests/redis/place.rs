//! A server with a password that nobody may ever see, and the command on it.

use std::process::Command;

use tenure_testkit::servers::redis::{Options, Redis};

use crate::stage::{Running, Said};
use crate::world::{Candidate, tenure};

/// The password of the server.
pub(crate) const SECRET: &str = "hush-4711";

pub(crate) struct Place {
    pub(crate) server: Redis,
    /// What the store is told, after the `?`.
    pub(crate) options: &'static str,
}

impl Place {
    /// A server that wants its password and keeps what it answered, as candidates know: nobody waits for it to grow old.
    pub(crate) async fn start() -> Self {
        let server = Options::default().password(SECRET).append_only().start().await;
        Self { server, options: "survives_restart=true" }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?{}", self.server.url(), self.options)
    }

    /// The store as the command shows it.
    pub(crate) fn shown(&self) -> String {
        format!("redis://{}/0", self.server.address())
    }

    /// Begins `tenure run` on the election `billing`.
    pub(crate) fn run(&self, args: &[&str]) -> Command {
        let mut command = tenure();
        command.args(["run", "--store", &self.url(), "--election", "billing"]).args(args);
        command
    }

    /// Starts a candidate whose command runs for ever.
    pub(crate) fn candidate(&self, args: &[&str]) -> Candidate {
        let mut command = self.run(args);
        command.args(["--", "sh", "-c", "exec sleep 1000"]);
        Candidate::start(command)
    }

    fn verb(&self, args: &[&str]) -> Command {
        let mut command = tenure();
        command.args(args).env("TENURE_STORE", self.url());
        command
    }

    /// Asks a verb that only looks.
    pub(crate) fn ask(&self, args: &[&str]) -> Said {
        let said = Said::of(&mut self.verb(args));
        assert!(!format!("{said:?}").contains(SECRET), "{said:?}");
        said
    }

    /// Starts a verb that goes on by itself.
    pub(crate) fn keep_asking(&self, args: &[&str]) -> Running {
        Running::start(&mut self.verb(args))
    }
}

/// Waits for the end of a candidate that does not wait, and checks its code and its words.
pub(crate) fn assert_ends(mut candidate: Candidate, code: i32, words: &[&str]) {
    let ended = candidate.exits();
    for word in words {
        candidate.says(word);
    }
    let said = candidate.said().join("\n");
    assert_eq!(ended, code, "{said}");
    assert!(!said.contains(SECRET), "{said}");
}
