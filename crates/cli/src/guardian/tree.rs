//! Who descends from whom, read from /proc.
//!
//! Descendants cannot leave: whoever loses its parent falls to the nearest subreaper above it, and we are one.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

/// One process, as /proc shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    /// Zero if its leader is in a PID namespace above ours, as for what `unshare --pid --fork` starts.
    pub(super) group: i32,
    /// Zero like the group.
    pub(super) session: i32,
    /// Clock ticks after boot; with the process id it names one process for ever.
    started: u64,
    pub(super) name: String,
    /// A zombie does not live, but one whose first thread alone has ended does.
    pub(super) lives: bool,
}

impl Process {
    /// Reads one process; `None` if there is none, or none that we may see.
    fn read(pid: i32) -> io::Result<Option<Self>> {
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(stat) => Ok(parse(&String::from_utf8_lossy(&stat))),
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Reads ourselves. Unlike the system calls that ask for our group and session, it knows those that are zero.
    pub(super) fn own() -> io::Result<Self> {
        let own = Self::read(getpid().as_raw_pid())?;
        own.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "/proc does not show this process"))
    }

    /// Sends it a signal if it still is the one that was read and still is below `top`.
    ///
    /// The order keeps us from hitting a stranger: once the descriptor is open the process id cannot become somebody
    /// else's without the second look noticing.
    pub(super) fn signal(&self, top: Pid, signal: Signal) -> io::Result<()> {
        let pidfd = pidfd_open(self.pid, PidfdFlags::empty())?;
        let again = Self::read(self.pid.as_raw_pid())?.filter(|again| again.started == self.started);
        if let Some(again) = again
            && again.is_below(top)?
        {
            pidfd_send_signal(pidfd, signal)?;
        }
        Ok(())
    }

    fn is_below(&self, top: Pid) -> io::Result<bool> {
        let mut process = self.clone();
        loop {
            if process.parent == top.as_raw_pid() {
                return Ok(true);
            }
            // A parent is never younger than its child, also if it adopted it: otherwise its id was given anew.
            match Self::read(process.parent)?.filter(|parent| parent.started <= process.started) {
                Some(parent) => process = parent,
                None => return Ok(false),
            }
        }
    }
}

/// Finds all processes below `top`, children before their own children, without those that are `spared` and what is
/// below these.
///
/// One that is born or adopted while we look may be missed: whoever needs all of them looks again. An error says that
/// we could not look, as when there are no more file descriptors: it never means that nobody is there.
pub(super) fn below(top: Pid, spared: impl Fn(&Process) -> bool) -> io::Result<Vec<Process>> {
    let mut by_parent: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all()? {
        by_parent.entry(process.parent).or_default().push(process);
    }
    let mut found = by_parent.remove(&top.as_raw_pid()).unwrap_or_default();
    found.retain(|process| !spared(process));
    let mut next = 0;
    while next < found.len() {
        let children = by_parent.remove(&found[next].pid.as_raw_pid()).unwrap_or_default();
        found.extend(children.into_iter().filter(|child| !spared(child)));
        next += 1;
    }
    Ok(found)
}

fn all() -> io::Result<Vec<Process>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        if let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
            all.extend(Process::read(pid)?);
        }
    }
    Ok(all)
}

/// Takes a line of /proc/PID/stat apart. The name stands in parentheses and may itself contain any of them.
fn parse(stat: &str) -> Option<Process> {
    let (pid, rest) = stat.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let threads: u64 = fields.get(17)?.parse().ok()?;
    Some(Process {
        pid: Pid::from_raw(pid.parse().ok()?)?,
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
        name: name.to_owned(),
        lives: !matches!(*fields.first()?, "Z" | "X") || threads > 1,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_line_is_taken_apart_whatever_the_name_contains() {
        let line = "42 (a) (b c) S 7 8 9 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 12345 2441216 80 184467";
        let process = parse(line).unwrap();
        assert_eq!((process.pid.as_raw_pid(), process.parent), (42, 7));
        assert_eq!((process.group, process.session, process.started), (8, 9, 12345));
        assert_eq!(process.name, "a) (b c");
        assert!(process.lives);
        assert!(!parse(&line.replace(" S ", " Z ")).unwrap().lives);
        assert!(parse(&line.replace(" S ", " Z ").replace(" 20 0 1 0 ", " 20 0 3 0 ")).unwrap().lives);
        assert_eq!(parse("42 (short"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn descendants_are_found_and_signalled_and_strangers_are_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let (me, id) = (rustix::process::getpid(), Pid::from_child(&child));
        let found = below(me, |_| false).unwrap().into_iter().find(|process| process.pid == id).unwrap();
        assert!(found.lives);
        assert!(below(me, |process| process.pid == id).unwrap().iter().all(|process| process.pid != id));

        let reused = Process { started: found.started + 1, ..found.clone() };
        reused.signal(me, Signal::KILL).unwrap();
        found.signal(id, Signal::KILL).unwrap();
        assert_eq!(child.try_wait().unwrap(), None, "neither another one of this id nor below another one");

        found.signal(me, Signal::KILL).unwrap();
        assert!(!child.wait().unwrap().success());
        assert!(found.signal(me, Signal::KILL).is_err(), "gone");
    }
}
