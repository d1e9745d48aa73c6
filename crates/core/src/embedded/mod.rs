//! Stores without a server: in memory, and in a directory of this machine.

mod file;
pub(crate) mod local;
mod memory;
mod memory_ttl;
mod memory_versioned;

pub use file::{FileStore, FileStoreBuilder, Repaired};
pub use memory::MemoryStore;
pub use memory_ttl::MemoryTtl;
pub use memory_versioned::MemoryVersioned;
