//! systemd: ready, status and watchdog, if it asks for them.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The socket of the service manager; does nothing without one.
pub(super) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often the watchdog wants to hear of us.
    pub(super) watchdog: Option<Duration>,
}

impl Notify {
    pub(super) fn from_env() -> Self {
        let watchdog = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        let for_us = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        Self {
            socket: std::env::var_os("NOTIFY_SOCKET").and_then(|path| connect(&path)),
            // Twice in its time, so that one that comes late is not the last.
            watchdog: watchdog.filter(|_| for_us).map(|micros: u64| Duration::from_micros(micros) / 2),
        }
    }

    pub(super) fn ready(&self) {
        self.send("READY=1");
    }

    pub(super) fn status(&self, text: &str) {
        self.send(&format!("STATUS={text}"));
    }

    pub(super) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    pub(super) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    fn send(&self, message: &str) {
        if let Some((socket, address)) = &self.socket {
            // A manager that does not listen misses it; the command matters more.
            let _ = socket.send_to_addr(message.as_bytes(), address);
        }
    }
}

fn connect(path: &OsStr) -> Option<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok()?,
        None => SocketAddr::from_pathname(path).ok()?,
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.set_nonblocking(true).ok()?;
    Some((socket, address))
}
