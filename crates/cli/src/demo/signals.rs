//! The signals that end the demonstration, and the one that says that the window has another size.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) struct Signals {
    hang_up: Signal,
    interrupt: Signal,
    terminate: Signal,
    resized: Signal,
}

/// What a signal means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// End, and exit with this code.
    End(u8),
    Redraw,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            resized: signal(SignalKind::window_change())?,
        })
    }

    /// Waits for the next one. Nothing is lost if this is dropped.
    pub(super) async fn next(&mut self) -> Wish {
        tokio::select! {
            biased;
            _ = self.hang_up.recv() => Wish::End(128 + 1),
            _ = self.interrupt.recv() => Wish::End(128 + 2),
            _ = self.terminate.recv() => Wish::End(128 + 15),
            _ = self.resized.recv() => Wish::Redraw,
        }
    }
}
