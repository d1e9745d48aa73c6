//! Candidates that take part for real, beside a test that waits.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use tenure::elector::ElectorState;
use tenure::{Elections, FileStore, Settings};

use crate::stage::{HANG, Stage, candidate};

/// A candidate on a thread of its own, which stops with the test.
pub(crate) struct Standing {
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Stage {
    /// Stands for an election, and returns when this one or another leads.
    pub(crate) fn stand(&self, election: &str, who: &str, ttl: Duration) -> Standing {
        let store = FileStore::open(self.store.path()).unwrap();
        let elections =
            Elections::builder(store).candidate(candidate(who)).settings(Settings::ttl(ttl)).build();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (tell, told) = mpsc::channel();
        let election = election.to_owned();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let handle = elections.elector(&election).start().unwrap();
                let settled = |status: &tenure::elector::ElectionStatus| {
                    status.state == ElectorState::Leading || status.leader.is_some()
                };
                handle.statuses().wait_for(settled).await.unwrap();
                tell.send(()).unwrap();
                // The end of the test, in any way.
                let _ = stopped.await;
                handle.stop().await;
            });
        });
        told.recv_timeout(HANG).expect("it stands");
        Standing { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
