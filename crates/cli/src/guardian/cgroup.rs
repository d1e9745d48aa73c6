//! A control group around the command: one write kills everything in it, forks under way included.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::alarm;

/// A control group of our own, version 2.
#[derive(Clone, Debug)]
pub(super) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes one below our own, if the kernel and the permissions allow it.
    pub(super) fn create() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let parent = place(&mounts, &own)?;
        // Our id alone is not enough: another PID namespace may have it too, and see the same control groups.
        let born = alarm::moment::boot_ns(alarm::now());
        let cgroup = Self { path: parent.join(format!("tenure-{}-{born:x}", std::process::id())) };
        fs::create_dir(&cgroup.path).ok()?;
        // To enter it a process must be allowed to leave the parent.
        let files = [parent.join("cgroup.procs"), cgroup.file("cgroup.procs"), cgroup.file("cgroup.kill")];
        if files.iter().any(|file| OpenOptions::new().write(true).open(file).is_err()) {
            cgroup.remove();
            return None;
        }
        Some(cgroup)
    }

    /// Makes it again if it was removed. Not the only means, so that a failure is nobody's end.
    pub(super) fn make_anew(&self) {
        let _ = fs::create_dir(&self.path);
    }

    /// Names one that exists.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the calling process into it.
    pub(super) fn enter(&self) -> io::Result<()> {
        fs::write(self.file("cgroup.procs"), "0")
    }

    /// Moves a child of ours into it that is where we are: one that entered a group by itself stays there. Only while it is
    /// not reaped: its number is its own.
    pub(super) fn take(&self, child: Pid) -> io::Result<()> {
        let child = child.as_raw_pid();
        let group = |process: &str| fs::read_to_string(format!("/proc/{process}/cgroup"));
        let unified = |groups: &str| groups.lines().find(|line| line.starts_with("0::")).map(str::to_owned);
        if unified(&group(&child.to_string())?) == unified(&group("self")?) {
            fs::write(self.file("cgroup.procs"), child.to_string())?;
        }
        Ok(())
    }

    /// Kills everything in it. Not the only means, so that a failure is nobody's end.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.file("cgroup.kill"), "1");
    }

    /// Tells whether anything in it is still there, zombies not counted.
    pub(super) fn is_populated(&self) -> bool {
        fs::read_to_string(self.file("cgroup.events")).is_ok_and(|events| events.contains("populated 1"))
    }

    /// Takes it away; possible only when it is empty. The command may have made others inside.
    pub(super) fn remove(&self) {
        remove(&self.path);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _ = fs::remove_dir(path);
}

/// Finds the folder of our own control group: mounts as in /proc/self/mountinfo, `own` as in /proc/self/cgroup.
fn place(mounts: &str, own: &str) -> Option<PathBuf> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        if !source.starts_with("cgroup2 ") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (unescape(fields.next()?), unescape(fields.next()?));
        // A mount may show a part of the hierarchy only, and we may be elsewhere.
        let inside = Path::new(own).strip_prefix(root).ok()?;
        Some(Path::new(&point).join(inside))
    })
}

/// Undoes what the kernel does to spaces and the like in a path.
fn unescape(path: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(path.to_owned(), |path, (code, sign)| path.replace(code, sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";

    #[test]
    fn the_own_group_is_found_wherever_it_is_mounted() {
        let found = |mounts: &str, own: &str| place(mounts, own).map(|path| path.display().to_string());
        assert_eq!(found(HYBRID, "4:memory:/x\n0::/\n").as_deref(), Some("/sys/fs/cgroup/unified/"));
        assert_eq!(
            found(HYBRID, "0::/user.slice/a.service\n").as_deref(),
            Some("/sys/fs/cgroup/unified/user.slice/a.service")
        );
        let part = "41 31 0:38 /docker/7 /my\\040groups rw - cgroup2 cgroup rw\n";
        assert_eq!(found(part, "0::/docker/7/job\n").as_deref(), Some("/my groups/job"));
        assert_eq!(found(part, "0::/elsewhere\n"), None);
        assert_eq!(found(HYBRID, "4:memory:/x\n"), None, "no version 2 here");
        assert_eq!(found("", "0::/\n"), None);
    }
}
