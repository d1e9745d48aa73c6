//! The machine: clocks, file systems, what keeps a command's processes together, and what the environment says.

use std::fs;
use std::path::Path;

use tenure::StoreUrl;

use super::{Finding, Report, Verdict};
use crate::guardian;

pub(super) fn look(url: &StoreUrl, report: &mut Report) {
    report.add(clock());
    report.findings.extend(directory(url));
    report.add(isolation());
    report.findings.extend(environment());
}

/// Deadlines are counted on the boot clock: it goes on while the machine sleeps, and nobody sets it.
fn clock() -> Finding {
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.map_or_else(|_| "unknown".to_owned(), |source| source.trim().to_owned());
    let text =
        format!("the boot clock counts deadlines (its source: {source}); setting the time changes none");
    // Asked for before every act of a leader: these take a microsecond and more.
    if matches!(source.as_str(), "hpet" | "acpi_pm" | "jiffies" | "refined-jiffies") {
        Finding::new("clock", Verdict::Doubtful, text)
            .hint("this source is slow to read; tsc or kvm-clock is not")
    } else {
        Finding::new("clock", Verdict::Good, text)
    }
}

fn directory(url: &StoreUrl) -> Option<Finding> {
    let StoreUrl::File { allow_unknown_file_system, .. } = url else { return None };
    let Ok(StoreUrl::File { path: Some(path), .. }) = url.clone().resolved() else { return None };
    Some(if *allow_unknown_file_system {
        let text = format!("{} is taken as it is (allow_unknown_file_system)", path.display());
        Finding::new("file system", Verdict::Doubtful, text)
            .hint("on a file system that several machines share two could lead")
    } else if path.is_dir() {
        let text = format!("{} is on a file system of this machine", path.display());
        Finding::new("file system", Verdict::Good, text)
    } else {
        let text = format!("{} is not there yet: the first candidate makes it", path.display());
        Finding::new("file system", Verdict::Noted, text)
    })
}

/// What `tenure run` has to keep a command's processes together.
fn isolation() -> Finding {
    match guardian::control_group() {
        Some(path) => {
            let text =
                format!("`tenure run` keeps a command's processes together in a control group below {path}");
            Finding::new("isolation", Verdict::Good, text)
        }
        None => {
            let text = "`tenure run` finds a command's processes by walking the process tree: no control group is to be had";
            Finding::new("isolation", Verdict::Noted, text)
                .hint("--isolate on keeps them in a PID namespace, which nothing leaves")
        }
    }
}

/// What others have set up around us. Values may be secrets: only names are shown.
fn environment() -> Vec<Finding> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut found = Vec::new();
    let mut note = |text: &str| found.push(Finding::new("environment", Verdict::Noted, text));
    let own: Vec<_> = ["TENURE_STORE", "TENURE_DIR"].into_iter().filter(|name| is_set(name)).collect();
    if !own.is_empty() {
        note(&format!("set: {}", own.join(", ")));
    }
    if is_set("TENURE_ELECTION") && is_set("TENURE_TOKEN") {
        note("inside a command of `tenure run`");
    }
    if is_set("NOTIFY_SOCKET") {
        note("under a service manager that is told when `tenure run` is ready (NOTIFY_SOCKET)");
    }
    if is_set("KUBERNETES_SERVICE_HOST") {
        note("in a Kubernetes pod: the default store is this container's alone, use one that all pods reach");
    } else if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        note(
            "in a container: the default store is this container's alone, unless its directory is mounted from outside",
        );
    }
    found
}
