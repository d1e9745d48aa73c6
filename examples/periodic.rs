//! A task that only the leader does, again and again.
//!
//! `cargo run -p tenure --example periodic`

mod failure;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure::{Elector, MemoryStore};
use tokio::sync::Notify;

use failure::Failure;

static RUNS: AtomicU32 = AtomicU32::new(0);
static ENOUGH: Notify = Notify::const_new();

async fn clean_up() {
    let run = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
    println!("clean-up {run}");
    if run == 3 {
        ENOUGH.notify_one();
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    Elector::new(MemoryStore::new(), "clean-up")
        .run(|leadership| async move {
            // It goes on until the term ends; here, until it was done three times.
            tokio::select! {
                () = leadership.every(Duration::from_millis(50), clean_up) => {}
                () = ENOUGH.notified() => {}
            }
        })
        .await?;
    println!("stopped");
    Ok(())
}
