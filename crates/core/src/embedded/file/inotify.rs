//! The process's one door to the kernel's file events.
//!
//! A user may have 128 inotify instances by default, so one process takes one for all its stores: a thread blocks on
//! it and rings whoever watches.

use std::collections::BTreeMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::name::ElectionName;
use crate::store::wake::Wakes;

/// Room for some hundred events in one read.
const BUFFER: usize = 16 * 1024;

static OF_PROCESS: Mutex<Option<Arc<Hub>>> = Mutex::new(None);

/// All watches of the process.
#[derive(Debug)]
pub(super) struct Hub {
    inotify: OwnedFd,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    /// The kernel gives one descriptor for one file, however many watch it.
    watches: BTreeMap<i32, BTreeMap<u64, Bell>>,
}

/// Who is woken by an event.
#[derive(Clone, Debug)]
pub(super) struct Bell {
    pub(super) wakes: Weak<Wakes>,
    /// The election that changed.
    pub(super) election: ElectionName,
}

/// What happens to a file that is worth a wake.
#[derive(Clone, Copy, Debug)]
pub(super) enum Events {
    /// A new record in an election's folder, or the folder's end.
    Records,
    /// The end of a process that kept a file open for writing.
    Death,
    /// A directory that is moved or removed.
    Removal,
}

impl Events {
    fn flags(self) -> WatchFlags {
        let removal = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        match self {
            Self::Records => WatchFlags::CREATE | WatchFlags::MOVED_TO | removal,
            Self::Death => WatchFlags::CLOSE_WRITE,
            Self::Removal => removal,
        }
    }
}

/// One watch of one store; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watch {
    hub: Arc<Hub>,
    descriptor: i32,
    id: u64,
}

impl Hub {
    /// Returns the process's hub, beginning it if there is none.
    pub(super) fn of_process() -> io::Result<Arc<Self>> {
        let mut of_process = unpoisoned(&OF_PROCESS);
        if let Some(hub) = &*of_process {
            return Ok(Arc::clone(hub));
        }
        let hub = Arc::new(Self { inotify: inotify::init(CreateFlags::CLOEXEC)?, table: Mutex::default() });
        let reading = Arc::clone(&hub);
        std::thread::Builder::new().name("tenure-watch".into()).spawn(move || reading.run())?;
        *of_process = Some(Arc::clone(&hub));
        Ok(hub)
    }

    /// Watches what is at `path` now.
    pub(super) fn watch(self: &Arc<Self>, path: &Path, events: Events, bell: Bell) -> io::Result<Watch> {
        // Under the lock, so that neither an event nor the end of another's watch on the same file comes in between.
        let mut table = unpoisoned(&self.table);
        let descriptor = inotify::add_watch(&self.inotify, path, events.flags())?;
        table.last_id += 1;
        let id = table.last_id;
        table.watches.entry(descriptor).or_default().insert(id, bell);
        Ok(Watch { hub: Arc::clone(self), descriptor, id })
    }

    fn run(&self) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        loop {
            match reader.next() {
                Ok(event) => self.dispatch(event.wd(), event.events()),
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "file events have ended; followers look for themselves");
                    break;
                }
            }
        }
        // The next who watches begins another one.
        *unpoisoned(&OF_PROCESS) = None;
        let mut table = unpoisoned(&self.table);
        ring(table.watches.values().flat_map(BTreeMap::values));
        table.watches.clear();
    }

    fn dispatch(&self, descriptor: i32, events: ReadFlags) {
        let mut table = unpoisoned(&self.table);
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            // Some events are lost, nobody knows whose.
            ring(table.watches.values().flat_map(BTreeMap::values));
            return;
        }
        if let Some(bells) = table.watches.get(&descriptor) {
            ring(bells.values());
        }
        if events.contains(ReadFlags::IGNORED) {
            // The file is gone, and the kernel's watch with it.
            table.watches.remove(&descriptor);
        }
    }
}

fn ring<'a>(bells: impl Iterator<Item = &'a Bell>) {
    for bell in bells {
        if let Some(wakes) = bell.wakes.upgrade() {
            wakes.wake(&bell.election);
        }
    }
}

impl Watch {
    /// Tells whether the file that is watched is still there.
    pub(super) fn is_live(&self) -> bool {
        let table = unpoisoned(&self.hub.table);
        let bells = table.watches.get(&self.descriptor);
        bells.is_some_and(|bells| bells.contains_key(&self.id))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut table = unpoisoned(&self.hub.table);
        let Some(bells) = table.watches.get_mut(&self.descriptor) else {
            return;
        };
        bells.remove(&self.id);
        if bells.is_empty() {
            table.watches.remove(&self.descriptor);
            let _ = inotify::remove_watch(&self.hub.inotify, self.descriptor);
        }
    }
}

/// A thread that panicked left only whole values behind here.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    fn name(name: &str) -> ElectionName {
        ElectionName::new(name).unwrap()
    }

    fn bell(wakes: &Arc<Wakes>, election: &str) -> Bell {
        Bell { wakes: Arc::downgrade(wakes), election: name(election) }
    }

    #[tokio::test]
    async fn a_new_record_a_death_and_a_removal_ring_whoever_watches() {
        let top = tempfile::tempdir().unwrap();
        let hub = Hub::of_process().unwrap();
        let wakes = Arc::new(Wakes::default());
        let wake = wakes.watch(&[name("records"), name("death"), name("removal")]);
        let (life, folder) = (top.path().join("life"), top.path().join("folder"));
        let file = File::create(&life).unwrap();
        fs::create_dir(&folder).unwrap();
        let watches = [
            hub.watch(&folder, Events::Records, bell(&wakes, "records")).unwrap(),
            hub.watch(&life, Events::Death, bell(&wakes, "death")).unwrap(),
            hub.watch(top.path(), Events::Removal, bell(&wakes, "removal")).unwrap(),
        ];
        fs::hard_link(&life, folder.join("1")).unwrap();
        assert_eq!(wake.next().await, name("records"));
        drop(File::open(&life).unwrap());
        drop(file);
        assert_eq!(wake.next().await, name("death"));
        let moved = top.path().with_extension("moved");
        fs::rename(top.path(), &moved).unwrap();
        assert_eq!(wake.next().await, name("removal"));
        assert!(watches.iter().all(Watch::is_live));
        fs::remove_dir_all(moved).unwrap();
        wake.next().await;
        while watches.iter().any(Watch::is_live) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_watch_ends_with_its_last_watcher() {
        let top = tempfile::tempdir().unwrap();
        let hub = Hub::of_process().unwrap();
        let wakes = Arc::new(Wakes::default());
        let watch = || hub.watch(top.path(), Events::Records, bell(&wakes, "a")).unwrap();
        let (one, two) = (watch(), watch());
        let descriptor = one.descriptor;
        assert_eq!(descriptor, two.descriptor);
        drop(one);
        assert!(two.is_live());
        drop(two);
        assert!(!unpoisoned(&hub.table).watches.contains_key(&descriptor));
        let kernel = fs::read_to_string(
            "/proc/self/fdinfo/".to_owned()
                + &{
                    use std::os::fd::AsRawFd;
                    hub.inotify.as_raw_fd().to_string()
                },
        );
        assert!(!kernel.unwrap().contains(&format!("inotify wd:{descriptor:x} ")));
    }

    #[tokio::test]
    async fn an_overflow_rings_everybody() {
        let top = tempfile::tempdir().unwrap();
        let hub = Hub::of_process().unwrap();
        let wakes = Arc::new(Wakes::default());
        let wake = wakes.watch(&[name("a")]);
        let _watch = hub.watch(top.path(), Events::Records, bell(&wakes, "a")).unwrap();
        hub.dispatch(-1, ReadFlags::QUEUE_OVERFLOW);
        assert_eq!(wake.next().await, name("a"));
    }
}
