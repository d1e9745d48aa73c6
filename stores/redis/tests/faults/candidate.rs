//! What a candidate's process does: it stands for election, stamps its permission, and writes through a fence.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::thread::nanosleep;
use rustix::time::Timespec;
use tenure_core::clock::ClockExt;
use tenure_core::elector::{Elector, Leadership, Permit, Settings};
use tenure_core::{Clock, SystemClock};
use tenure_redis::{RedisConfig, RedisFence, RedisFenceError};
use tenure_testkit::process::{Process, ready, told};

use crate::deployment::open;
use crate::stamps::Stamper;

/// What all candidates stand for.
pub const ELECTION: &str = "contested";

/// Where a leader writes: the fence's mark, and the journal of all writes in the order in which they happened.
pub const MARK: &str = "{work}:mark";
pub const JOURNAL: &str = "{work}:journal";

/// Time between two samples of the permission, and between two writes.
const SAMPLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
const WRITE: Duration = Duration::from_millis(5);

/// A follower stamps every so many samples: it only has to be seen to live.
const FOLLOWER: u32 = 50;

/// Starts a candidate of the store at `url` that writes to the server at `resource` and stamps into the file `stamps`.
pub async fn start(url: &str, resource: &str, stamps: &str, ttl: Duration) -> Process {
    let ttl_ms = ttl.as_millis().to_string();
    let what = [("URL", url), ("RESOURCE", resource), ("STAMPS", stamps), ("TTL_MS", &ttl_ms)];
    Process::start("candidate_process", &what).await
}

/// The process.
pub fn run() {
    let stamper = Arc::new(Stamper::open(&told("STAMPS")));
    let permit = Arc::new(Mutex::new(None));
    let (sampled, stamps) = (Arc::clone(&permit), Arc::clone(&stamper));
    // A thread of its own: the permission must be right whatever else the process does.
    std::thread::spawn(move || sample(&sampled, &stamps));

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = open(&told("URL"));
        let fence = RedisFence::new(RedisConfig::from_url(&told("RESOURCE")).unwrap(), MARK).unwrap();
        let fence = Arc::new(fence);
        let elector = Elector::new(store, ELECTION)
            .settings(Settings::ttl(Duration::from_millis(told("TTL_MS").parse().unwrap())))
            .on_elected(move |leadership| {
                *permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(leadership.permit());
                let (fence, stamper) = (Arc::clone(&fence), Arc::clone(&stamper));
                async move {
                    write(&leadership, &fence, &stamper).await;
                    Ok(())
                }
            })
            .start()
            .unwrap();
        ready();
        std::future::pending::<()>().await;
        drop(elector);
    });
}

fn sample(permit: &Mutex<Option<Permit>>, stamper: &Stamper) {
    let mut samples = 0u32;
    loop {
        let present = permit.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let before = SystemClock.now();
        let leads = present.filter(Permit::is_leader);
        let after = SystemClock.now();
        match leads {
            Some(permit) => stamper.leads(permit.token(), before, after),
            None if samples.is_multiple_of(FOLLOWER) => stamper.follows(before),
            None => {}
        }
        samples = samples.wrapping_add(1);
        // Woken earlier by a signal is no harm.
        let _ = nanosleep(&SAMPLE);
    }
}

/// The leader's work.
async fn write(leadership: &Leadership, fence: &RedisFence, stamper: &Stamper) {
    let token = leadership.token();
    while leadership.check().is_ok() {
        match fence.write(token, "RPUSH", JOURNAL, &[token.to_string()]).await {
            Ok(_) => {}
            // It goes on, as one would that does not care: the fence has to hold, not the leader.
            Err(RedisFenceError::Refused { .. }) => stamper.refused(token),
            Err(error) => panic!("the resource is never disturbed: {error}"),
        }
        tokio::select! {
            biased;
            () = leadership.cancelled() => return,
            () = SystemClock.sleep(WRITE) => {}
        }
    }
}
