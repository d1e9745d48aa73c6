//! What the kernel tells about this process and its clocks.
#![allow(clippy::disallowed_methods)] // A benchmark measures the clocks themselves.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

pub(crate) fn read_clock(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The boot clock, which all processes of the machine share.
pub(crate) fn boot() -> Duration {
    read_clock(ClockId::Boottime)
}

/// Processor time that this process has used so far.
pub(crate) fn processor_time() -> Duration {
    read_clock(ClockId::ProcessCPUTime)
}

/// Memory of this process that is resident now.
pub(crate) fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Waits without a runtime.
pub(crate) fn pause(duration: Duration) {
    std::thread::sleep(duration);
}

pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
