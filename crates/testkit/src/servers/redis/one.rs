//! One server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::options::{FIXTURE_PASSWORD, FIXTURE_USER, Kind};
use super::{Certificates, Options};
use crate::resp::{self, Reply};
use crate::servers::{Launch, Port, Server};
use crate::wait::{LIMIT, within};

/// How far the port of a cluster's members lies above the one for everybody.
const BUS: u16 = 10_000;

/// How long a server may take to say what it knows of others before it counts as frozen.
const ASK_LIMIT: Duration = Duration::from_secs(1);

/// What a restarted server finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// All that it had. Without [`append_only`](Options::append_only) it is told to save first.
    Kept,
    /// Nothing.
    Lost,
}

/// One server of Redis or Valkey, alone or as a part of something larger.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    options: Options,
    port: Port,
    _bus: Option<Port>,
    certificates: Option<Certificates>,
}

impl Redis {
    /// Starts one that keeps nothing on disk and wants no password, and waits until it answers.
    ///
    /// # Panics
    /// If the program is missing, or the server does not start; with its log.
    pub async fn start() -> Self {
        Options::default().start().await
    }

    /// Starts independent ones, all at once.
    ///
    /// # Panics
    /// If the program is missing, or a server does not start; with its log.
    pub async fn start_many(count: usize, options: &Options) -> Vec<Self> {
        join_all((0..count).map(|_| options.clone().start())).await
    }

    pub(super) async fn start_with(options: Options) -> Self {
        let redis = Self::new(options);
        redis.start_again().await;
        redis
    }

    fn new(options: Options) -> Self {
        let directory = Server::directory_for_one();
        let path = directory.path();
        let (port, bus) = match options.kind {
            Kind::OfCluster => {
                let (port, bus) = Port::reserve_pair(BUS);
                (port, Some(bus))
            }
            _ => (Port::reserve(), None),
        };
        let certificates = options.tls.map(|_| Certificates::make(&path.join("certificates")));
        let file = path.join("configuration");
        fs::create_dir(path.join("data")).expect("a directory for data");
        fs::write(&file, options.file(path, port.number(), certificates.as_ref())).expect("a configuration");
        let mut arguments = vec![file.into_os_string()];
        if options.kind == Kind::Sentinel {
            arguments.push("--sentinel".into());
        }
        let launch = Launch { program: options.flavour.program(), arguments, environment: Vec::new() };
        Self { server: Server::new(directory, launch), options, port, _bus: bus, certificates }
    }

    /// Returns the port on which it listens, also while it is down.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the address on which it listens, also while it is down.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.port.address()
    }

    /// Returns its URL, with the first user and its password, or with the default user's.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_by(self.address())
    }

    /// Returns its URL by another address: that of a proxy.
    #[must_use]
    pub fn url_by(&self, address: SocketAddr) -> String {
        let scheme = if self.options.tls.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://{}{address}", self.options.credentials())
    }

    /// Returns the path of the unix socket on which it listens, too.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.server.directory().join("socket")
    }

    /// Returns the certificates of a server that talks TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Returns the process: its log, its process id.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a request by hand and returns the reply, which may be a refusal.
    ///
    /// It goes over the unix socket, as a user who may do everything: no proxy, password or certificate is in its way.
    ///
    /// # Panics
    /// If the server cannot be reached or does not answer; with its log.
    pub async fn call<A: AsRef<[u8]>>(&self, arguments: &[A]) -> Reply {
        match within(LIMIT, self.try_call(arguments)).await {
            Some(Ok(reply)) => reply,
            Some(Err(error)) => {
                panic!("{} cannot be asked: {error}\n{}", self.server, self.server.log_tail())
            }
            None => panic!("{} does not answer\n{}", self.server, self.server.log_tail()),
        }
    }

    /// Sends a request by hand as [`call`](Self::call) does, to a server that may be down.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn try_call<A: AsRef<[u8]>>(&self, arguments: &[A]) -> io::Result<Reply> {
        let mut stream = UnixStream::connect(self.socket()).await?;
        stream.write_all(&resp::request(&["AUTH", FIXTURE_USER, FIXTURE_PASSWORD])).await?;
        stream.write_all(&resp::request(arguments)).await?;
        let mut bytes = Vec::new();
        let mut welcome = None;
        loop {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            while let Some((reply, length)) = resp::reply(&bytes) {
                bytes.drain(..length);
                match welcome {
                    None => welcome = Some(reply),
                    Some(Reply::Error(error)) => return Err(io::Error::other(error)),
                    Some(_) => return Ok(reply),
                }
            }
        }
    }

    /// Sends a request by hand to a server that may be down or frozen.
    pub(super) async fn ask(&self, arguments: &[&str]) -> Option<Reply> {
        within(ASK_LIMIT, self.try_call(arguments)).await?.ok()
    }

    /// Starts it after it was killed, on whatever its directory has, and waits until it answers.
    ///
    /// # Panics
    /// If it runs already or does not start; with its log.
    pub async fn start_again(&self) {
        // It is gone when it was killed; then a socket without a server would only delay the first answer.
        let _ = fs::remove_file(self.socket());
        let pong = Reply::Text("PONG".to_owned());
        self.server.start(async || self.try_call(&["PING"]).await.is_ok_and(|reply| reply == pong)).await;
    }

    /// Kills it and starts it again.
    ///
    /// # Panics
    /// If it is down or does not start; with its log.
    pub async fn restart(&self, data: Data) {
        if data == Data::Kept {
            self.save().await;
        }
        self.kill().await;
        if data == Data::Lost {
            self.lose_data();
        }
        self.start_again().await;
    }

    /// Writes what only memory has to disk.
    async fn save(&self) {
        let appends = self.call(&["CONFIG", "GET", "appendonly"]).await.field("appendonly");
        if appends.as_deref() != Some("yes") {
            let saved = self.call(&["SAVE"]).await;
            assert_eq!(saved, Reply::Text("OK".to_owned()), "{} cannot save", self.server);
        }
    }

    /// Removes all data of a server that is down. A part of a cluster still belongs to it afterwards.
    ///
    /// # Panics
    /// If it runs.
    pub fn lose_data(&self) {
        assert_eq!(self.server.pid(), None, "{} runs: it has its data in memory", self.server);
        let data = self.server.directory().join("data");
        fs::remove_dir_all(&data).and_then(|()| fs::create_dir(&data)).expect("its data can be removed");
    }

    /// Kills it (SIGKILL), also while it is frozen.
    ///
    /// # Panics
    /// If it does not go.
    pub async fn kill(&self) {
        self.server.kill().await;
    }

    /// Freezes it (SIGSTOP).
    ///
    /// # Panics
    /// If it is down.
    pub async fn freeze(&self) {
        self.server.freeze().await;
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Panics
    /// If it is down.
    pub async fn thaw(&self) {
        self.server.thaw().await;
    }
}
