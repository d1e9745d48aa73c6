//! Runs something while leading, and prints what it came to.
//!
//! `cargo run -p tenure --example run_while_leading`

mod failure;

use std::time::Duration;

use tenure::{Elector, MemoryStore, Settings};

use failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let bills = Elector::new(MemoryStore::new(), "billing")
        .settings(Settings::ttl(Duration::from_secs(10)))
        .run(|leadership| async move {
            println!("term {}: I lead", leadership.token());
            let mut bills = 0;
            // Ask right before each act: the answer comes from the clocks and cannot be stale.
            while bills < 3 && leadership.is_leader() {
                bills += 1;
                println!("term {}: bill {bills} sent", leadership.token());
            }
            bills
        })
        .await?;
    println!("done, {bills} bills");
    Ok(())
}
