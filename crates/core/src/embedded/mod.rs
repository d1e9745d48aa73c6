//! Stores without a server: in memory, and in a directory of this machine.

use std::sync::atomic::{AtomicU64, Ordering};

mod file;
pub(crate) mod local;
mod memory;
mod memory_ttl;
mod memory_versioned;

pub use file::{FileStore, FileStoreBuilder, Repaired};
pub use memory::MemoryStore;
pub use memory_ttl::MemoryTtl;
pub use memory_versioned::MemoryVersioned;

/// Numbers the stores in the memory of this process, so that two of them are told apart.
fn next_number() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
