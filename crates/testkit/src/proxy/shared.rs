//! What the tasks of a proxy and its commands share.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use super::Protocol;
use super::state::State;
use crate::wait::{LIMIT, within};

pub(super) struct Shared {
    pub(super) server: SocketAddr,
    pub(super) protocol: Arc<dyn Protocol>,
    /// Ports by which the server names servers, and those of their proxies.
    pub(super) ports: Vec<(u16, u16)>,
    state: Mutex<State>,
    /// Rises when a task may have something to do.
    commands: watch::Sender<u64>,
    /// Rises when something was counted.
    facts: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(server: SocketAddr, protocol: Arc<dyn Protocol>, ports: Vec<(u16, u16)>) -> Self {
        Self {
            server,
            protocol,
            ports,
            state: Mutex::default(),
            commands: watch::Sender::new(0),
            facts: watch::Sender::new(0),
        }
    }

    /// Takes one step that nobody sees half of.
    pub(super) fn step<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        let done = step(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.facts.send_modify(|version| *version += 1);
        done
    }

    /// Takes one step after which tasks have something to do.
    pub(super) fn command<T>(&self, step: impl FnOnce(&mut State) -> T) -> T {
        let done = self.step(step);
        self.wake();
        done
    }

    /// Lets every task look whether it has something to do.
    pub(super) fn wake(&self) {
        self.commands.send_modify(|version| *version += 1);
    }

    pub(super) fn commands(&self) -> watch::Receiver<u64> {
        self.commands.subscribe()
    }

    /// Waits until `fact` finds something.
    ///
    /// # Panics
    /// If it does not in time; with the counts.
    pub(super) async fn wait_for<T>(&self, what: &str, fact: impl Fn(&State) -> Option<T>) -> T {
        let mut facts = self.facts.subscribe();
        let look = || fact(&self.state.lock().unwrap_or_else(PoisonError::into_inner));
        let found = within(LIMIT, async {
            loop {
                facts.borrow_and_update();
                if let Some(found) = look() {
                    return found;
                }
                // The sender is `self`: it is still there.
                let _ = facts.changed().await;
            }
        });
        match found.await {
            Some(found) => found,
            None => panic!(
                "the proxy waits in vain for {what}: {:?}",
                self.state.lock().unwrap_or_else(PoisonError::into_inner).counts
            ),
        }
    }
}
