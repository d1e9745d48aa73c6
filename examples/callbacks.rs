//! Stands in an election until Ctrl-C, with callbacks; run it twice and kill one.
//!
//! `cargo run -p tenure --example callbacks [DIRECTORY [TTL_SECONDS]]`

mod failure;

use std::time::Duration;

use tenure::{Elector, FileStore, Settings};

use failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().map_or_else(FileStore::default_directory, |path| Ok(path.into()))?;
    let ttl = arguments.next().map_or(Ok(5), |seconds| seconds.parse())?;
    println!("store: {} (this machine, this user), pid {}", directory.display(), std::process::id());

    let handle = Elector::new(FileStore::open(&directory)?, "hello")
        .settings(Settings::ttl(Duration::from_secs(ttl)))
        .on_elected(|leadership| async move {
            // Work of the term: returns when the term ends.
            leadership
                .every(Duration::from_secs(1), || async {
                    if leadership.is_leader() {
                        println!("term {}: I lead", leadership.token());
                    }
                })
                .await;
            Ok(())
        })
        .on_term_end(|reason| async move {
            println!("my term is over: {reason}");
            Ok(())
        })
        .start()?;
    println!("standing by");
    tokio::signal::ctrl_c().await?;
    handle.stop().await;
    println!("stopped");
    Ok(())
}
