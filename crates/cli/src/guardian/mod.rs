//! The command is dead before the lease can move, whatever happens to the processes around it.
//!
//! ```text
//! wrapper    `tenure run`: campaigns, renews, gives orders (wrapper.rs)
//! └ guardian over all terms; sends SIGTERM at the deadline, SIGKILL at must-stop (guardian.rs)
//!   └ keeper for one term, started in advance; reaps (keeper.rs)
//!     └ stub, started in advance too; becomes the command by exec (stub.rs)
//!       └ whatever the command starts
//! ```
//!
//! With `--isolate on` an init (init.rs) stands between keeper and stub, as the first process of a PID namespace.
//!
//! All are this program again and subreapers, so that every descendant stays below the lowest of them that lives. Each
//! has a socket to the one above it: its end of file means that this one is gone, and then everything below is killed
//! and reaped. So two of the three may die at once. Guardian and keeper hold the wrapper's life file open until they
//! exit, and they exit when nobody is left below them: the lease of a wrapper that was killed is not free before.

use std::process::ExitCode;

mod alarm;
mod cgroup;
mod child;
#[cfg(debug_assertions)]
mod drive;
#[allow(clippy::module_inception)] // It is the process of that name.
mod guardian;
mod init;
mod keeper;
mod killer;
mod namespace;
mod post;
mod protocol;
mod stub;
mod supervisor;
mod terminal;
mod tree;
mod wrapper;

pub(crate) use protocol::Ending;
pub(crate) use wrapper::{Guardian, Options, Order, Report};

const GUARDIAN: &str = "__guardian";
const KEEPER: &str = "__keeper";
const INIT: &str = "__init";
const STUB: &str = "__exec";
const RECORD: &str = "__record";
/// Lets a test be the wrapper.
#[cfg(debug_assertions)]
const DRIVE: &str = "__drive";

/// Plays the role that the first argument names; `None` if it names none, as when people call.
pub(crate) fn main() -> Option<ExitCode> {
    match std::env::args_os().nth(1)?.to_str()? {
        GUARDIAN => Some(guardian::main()),
        KEEPER => Some(keeper::main()),
        INIT => Some(init::main()),
        STUB => Some(stub::main()),
        #[cfg(debug_assertions)]
        RECORD if drive::is_recorder() => Some(drive::record()),
        RECORD => Some(crate::run::record::main()),
        #[cfg(debug_assertions)]
        DRIVE => Some(drive::main()),
        _ => None,
    }
}

/// Returns below which control group a command's processes can be kept together, if they can.
pub(crate) fn control_group() -> Option<String> {
    let group = cgroup::Cgroup::create()?;
    let parent = group.path().parent().map(|parent| parent.display().to_string());
    group.remove();
    parent
}
