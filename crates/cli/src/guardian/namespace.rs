//! A PID namespace: when its first process ends the kernel ends all others, whatever they did to hide.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, configure_capability_in_ambient_set,
    set_capabilities,
};

/// What could not be had, in words.
pub(super) type Refusal = String;

/// How a namespace was made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Namespace {
    /// With the privileges that we have.
    Privileged,
    /// Inside a user namespace of its own, because we have none.
    InUserNamespace,
}

impl Namespace {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Privileged => "PID namespace",
            Self::InUserNamespace => "PID namespace in a user namespace",
        }
    }
}

/// Sees to it that the next child of the caller is the first process of a namespace. The caller stays outside.
pub(super) fn found() -> Result<Namespace, Refusal> {
    let refuse = |what: &str, error: io::Error| format!("the kernel refuses {what}: {error}");
    if unshare(CloneFlags::CLONE_NEWPID).is_ok() {
        return Ok(Namespace::Privileged);
    }
    // The maps name the ids from outside, which cannot be asked for any more inside.
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWPID)
        .map_err(|error| refuse("a PID namespace, and a user namespace too", error.into()))?;
    keep_ids(user, group).map_err(|error| refuse("the ids in a user namespace", error))?;
    keep_power_over_mounts().map_err(|error| refuse("to hand on a capability", error))?;
    Ok(Namespace::InUserNamespace)
}

/// Maps our ids to themselves: the command does not notice. (The kernel wants `setgroups` denied first.)
fn keep_ids(user: u32, group: u32) -> io::Result<()> {
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Hands the capability to mount on to the next program, which would lose it because it is not root.
fn keep_power_over_mounts() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true)?;
    Ok(())
}

/// Furnishes the namespace from inside, as its first process: its own /proc, which nobody outside sees. Gives the
/// capability that was handed on back.
pub(super) fn furnish(in_user_namespace: bool) -> Result<(), Refusal> {
    let refuse = |error: io::Error| format!("the kernel refuses an own /proc: {error}");
    unshare(CloneFlags::CLONE_NEWNS).map_err(|error| refuse(error.into()))?;
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private).map_err(|error| refuse(error.into()))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", "/proc", "proc", flags, None).map_err(|error| refuse(error.into()))?;
    if in_user_namespace {
        clear_ambient_capability_set()
            .map_err(|error| format!("the kernel refuses to take a capability back: {error}"))?;
    }
    Ok(())
}
