//! Watching elections: their folders for new records, and their holders' lives for the end.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use futures_util::stream;

use super::directory::{Inner, blocking};
use super::inotify::{Bell, Events, Hub, Watch};
use super::layout::make_folder;
use crate::clock::ClockExt;
use crate::name::ElectionName;
use crate::store::StoreError;
use crate::store::record::Record;
use crate::store::versioned::ChangedNames;
use crate::store::wake::Wake;

/// How long to wait before asking the kernel again for watches that it would not give.
const RETRY: Duration = Duration::from_secs(30);

/// What one open store watches.
#[derive(Debug, Default)]
pub(super) struct Watched {
    elections: Mutex<BTreeMap<ElectionName, Election>>,
}

#[derive(Debug)]
struct Election {
    watchers: usize,
    folder: Watch,
    /// The directory itself: when it is moved, every election has changed.
    _top: Watch,
    /// The present holder's life sign, and the watch on it.
    life: Option<(String, Watch)>,
}

impl Watched {
    fn elections(&self) -> MutexGuard<'_, BTreeMap<ElectionName, Election>> {
        self.elections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn bell(&self, election: &ElectionName) -> Bell {
        Bell { wakes: Arc::downgrade(&self.wakes), election: election.clone() }
    }

    fn watch_folder(&self, election: &ElectionName) -> io::Result<Watch> {
        // Nothing is made in a directory that took the place of ours.
        if !self.is_same_directory()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        let folder = self.layout.election(election);
        if self.takes_part() {
            make_folder(&folder)?;
        }
        Hub::of_process()?.watch(&folder, Events::Records, self.bell(election))
    }

    fn begin_watch(self: &Arc<Self>, election: &ElectionName) -> io::Result<Watcher> {
        let mut elections = self.watched.elections();
        match elections.get_mut(election) {
            Some(watched) => watched.watchers += 1,
            None => {
                let folder = self.watch_folder(election)?;
                let top = Hub::of_process()?.watch(&self.layout.top, Events::Removal, self.bell(election))?;
                let watched = Election { watchers: 1, folder, _top: top, life: None };
                elections.insert(election.clone(), watched);
            }
        }
        Ok(Watcher { inner: Arc::clone(self), election: election.clone() })
    }

    /// Keeps the watches of an election on what was just read, *before* anybody asks whether its holder lives: a death
    /// before that is then found by asking, a later one rings.
    pub(super) fn follow(&self, election: &ElectionName, bytes: Option<&[u8]>) {
        let mut elections = self.watched.elections();
        let Some(watched) = elections.get_mut(election) else {
            return;
        };
        if !watched.folder.is_live() {
            // Somebody removed the folder; the next record stands in a new one.
            if let Ok(folder) = self.watch_folder(election) {
                watched.folder = folder;
            }
        }
        let record = bytes.and_then(|bytes| Record::decode(election, bytes).ok());
        let Some(life_sign) = record.as_ref().and_then(Record::life_sign) else {
            watched.life = None;
            return;
        };
        if watched.life.as_ref().is_some_and(|(known, watch)| known == life_sign && watch.is_live()) {
            return;
        }
        // Without the watch (no file, no room) the election opens when the lease runs out: later, as safe.
        let path = self.layout.lives.join(life_sign);
        let watch = Hub::of_process().and_then(|hub| hub.watch(&path, Events::Death, self.bell(election)));
        watched.life = watch.ok().map(|watch| (life_sign.to_owned(), watch));
    }
}

/// One stream's share in the watch of an election.
struct Watcher {
    inner: Arc<Inner>,
    election: ElectionName,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut elections = self.inner.watched.elections();
        if let Some(watched) = elections.get_mut(&self.election) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                elections.remove(&self.election);
            }
        }
    }
}

struct State {
    inner: Arc<Inner>,
    wake: Wake,
    watchers: Vec<Watcher>,
    /// Elections whose watch has not begun, or that the kernel would not watch.
    unwatched: Vec<ElectionName>,
    /// Elections whose watch has just begun: what happened before is seen by looking once.
    begun: VecDeque<ElectionName>,
    told_gap: bool,
}

/// Reports the elections that changed, and each of them once at the beginning.
///
/// Renewals are reported too: a follower that hears of one moves its timer, instead of looking when it rings.
pub(super) fn watch(inner: &Arc<Inner>, elections: &[ElectionName]) -> ChangedNames {
    let state = State {
        inner: Arc::clone(inner),
        wake: inner.wakes.watch(elections),
        watchers: Vec::new(),
        unwatched: elections.to_vec(),
        begun: VecDeque::new(),
        told_gap: false,
    };
    Box::pin(stream::unfold((state, true), |(mut state, mut try_now)| async move {
        loop {
            if let Some(election) = state.begun.pop_front() {
                return Some((Some(election), (state, try_now)));
            }
            if try_now && !state.unwatched.is_empty() {
                try_now = false;
                if !state.begin().await && !state.told_gap {
                    state.told_gap = true;
                    return Some((None, (state, try_now)));
                }
                continue;
            }
            let retry = state.inner.clock.sleep(RETRY);
            tokio::select! {
                biased;
                election = state.wake.next() => return Some((Some(election), (state, try_now))),
                () = retry, if !state.unwatched.is_empty() => try_now = true,
            }
        }
    }))
}

impl State {
    /// Begins the watches that are missing; tells whether none is missing afterwards.
    async fn begin(&mut self) -> bool {
        let (inner, elections) = (Arc::clone(&self.inner), std::mem::take(&mut self.unwatched));
        let names = elections.clone();
        // Whoever stops listening meanwhile drops the answer, and the watches with it.
        let begun = blocking("watch", move || Ok(begin_all(&inner, names))).await;
        let (watchers, unwatched) = begun.unwrap_or_else(|error: StoreError| {
            tracing::debug!(%error, "watching did not begin");
            (Vec::new(), elections)
        });
        self.begun.extend(watchers.iter().map(|watcher| watcher.election.clone()));
        self.watchers.extend(watchers);
        self.unwatched = unwatched;
        self.unwatched.is_empty()
    }
}

fn begin_all(inner: &Arc<Inner>, elections: Vec<ElectionName>) -> (Vec<Watcher>, Vec<ElectionName>) {
    let (mut watchers, mut unwatched) = (Vec::new(), Vec::new());
    for election in elections {
        match inner.begin_watch(&election) {
            Ok(watcher) => watchers.push(watcher),
            Err(error) => {
                static TOLD: Once = Once::new();
                TOLD.call_once(|| {
                    tracing::warn!(
                        %error,
                        election = election.as_str(),
                        "the kernel does not watch this election's folder; followers look when a lease runs out \
                         (limits: fs.inotify.max_user_instances, fs.inotify.max_user_watches, ulimit -n)"
                    );
                });
                unwatched.push(election);
            }
        }
    }
    (watchers, unwatched)
}
