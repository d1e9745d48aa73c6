//! How one server is set up.

use std::fmt::Write as _;
use std::path::Path;

use super::{Certificates, Flavour, Redis};

/// Who may connect over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Anybody.
    Optional,
    /// Whoever has a certificate that our authority signed.
    Required,
}

/// How one server is set up. Without more: nothing is kept on disk, nobody needs a password.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(super) flavour: Flavour,
    pub(super) kind: Kind,
    pub(super) tls: Option<ClientCertificates>,
    pub(super) password: Option<String>,
    without_default_user: bool,
    users: Vec<User>,
    settings: Vec<(String, String)>,
}

/// What the program is used as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Server,
    /// A part of a cluster, which needs a second port.
    OfCluster,
    Sentinel,
}

#[derive(Clone, Debug)]
struct User {
    name: String,
    password: String,
    rules: String,
}

/// The user with which the fixture itself comes in; it may do everything, over the socket in the server's directory.
pub(super) const FIXTURE_USER: &str = "fixture";
pub(super) const FIXTURE_PASSWORD: &str = "of-the-fixture";

impl Options {
    /// Takes the server of somebody else.
    #[must_use]
    pub fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = flavour;
        self
    }

    /// Sets what else may stand in the configuration file: `("maxmemory-policy", "allkeys-lru")`,
    /// `("notify-keyspace-events", "KEA")`. The last one of a name counts.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Writes every change to disk before it is answered, so that even a killed server finds all of it again.
    #[must_use]
    pub fn append_only(self) -> Self {
        self.set("appendonly", "yes").set("appendfsync", "always")
    }

    /// Wants a password of the default user; [`Redis::url`] has it.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Lets only named users in.
    #[must_use]
    pub fn without_default_user(mut self) -> Self {
        self.without_default_user = true;
        self
    }

    /// Adds a user with rights as Redis writes them: `"~tenure:* &* +@all"`. The first one is in [`Redis::url`].
    #[must_use]
    pub fn user(mut self, name: &str, password: &str, rules: &str) -> Self {
        self.users.push(User {
            name: name.to_owned(),
            password: password.to_owned(),
            rules: rules.to_owned(),
        });
        self
    }

    /// Talks TLS, and nothing else, on its port; the certificates are in [`Redis::certificates`].
    #[must_use]
    pub fn tls(mut self, of_clients: ClientCertificates) -> Self {
        self.tls = Some(of_clients);
        self
    }

    /// Starts a server that is set up so, and waits until it answers.
    ///
    /// # Panics
    /// If the program is missing, or the server does not start; with its log.
    pub async fn start(self) -> Redis {
        Redis::start_with(self).await
    }

    pub(super) fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// Returns what stands before the host in a URL.
    pub(super) fn credentials(&self) -> String {
        match (self.users.first(), &self.password) {
            (Some(user), _) => format!("{}:{}@", user.name, user.password),
            (None, Some(password)) => format!(":{password}@"),
            (None, None) => String::new(),
        }
    }

    /// Writes the configuration file. Rights of users are only read from one, not from arguments.
    pub(super) fn file(&self, directory: &Path, port: u16, certificates: Option<&Certificates>) -> String {
        let mut file = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(file, "{name} {value}");
        };
        let quoted = |path: &Path| format!("\"{}\"", path.display());
        line("bind", "127.0.0.1");
        line("unixsocket", &quoted(&directory.join("socket")));
        line("dir", &quoted(&directory.join("data")));
        line("user", &format!("{FIXTURE_USER} on >{FIXTURE_PASSWORD} ~* &* +@all"));
        match (self.tls, certificates) {
            (Some(of_clients), Some(certificates)) => {
                line("port", "0");
                line("tls-port", &port.to_string());
                line("tls-cert-file", &quoted(&certificates.server()));
                line("tls-key-file", &quoted(&certificates.server_private()));
                line("tls-ca-cert-file", &quoted(&certificates.authority()));
                let required = of_clients == ClientCertificates::Required;
                line("tls-auth-clients", if required { "yes" } else { "optional" });
            }
            _ => line("port", &port.to_string()),
        }
        if self.kind != Kind::Sentinel {
            line("save", "\"\"");
            // At once, not five seconds after the first replica has come.
            line("repl-diskless-sync-delay", "0");
        }
        if self.kind == Kind::OfCluster {
            line("cluster-enabled", "yes");
            // Beside the data, since a server that loses its data stays in the cluster.
            line("cluster-config-file", &quoted(&directory.join("cluster")));
        }
        if let Some(password) = &self.password {
            line("requirepass", password);
        }
        if self.without_default_user {
            line("user", "default off");
        }
        for User { name, password, rules } in &self.users {
            line("user", &format!("{name} on >{password} {rules}"));
        }
        for (name, value) in &self.settings {
            line(name, value);
        }
        file
    }
}
