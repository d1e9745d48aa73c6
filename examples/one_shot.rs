//! Leads once for one operation: at once, with patience, and many side by side.
//!
//! `cargo run -p tenure --example one_shot`

mod failure;

use std::time::Duration;

use tenure::{CandidateId, Elections, MemoryStore};

use failure::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let store = MemoryStore::new();
    let mine = Elections::new(store.clone());
    // Another candidate in the same process needs a name of its own.
    let other = Elections::builder(store).candidate(CandidateId::new("other")?).build();

    let leadership = mine.try_lead("migrate").await?.ok_or("somebody else migrates")?;
    let first = leadership.token();
    println!("term {first}: migrating");

    let refused = other.try_lead("migrate").await?;
    println!("the other one may not: {}", refused.is_none());
    let waited = other.lead_within("migrate", Duration::from_millis(100)).await?;
    println!("nor after a while: {}", waited.is_none());

    // Dropping the last clone ends the term and gives the lease back.
    drop(leadership);
    let leadership = other.lead("migrate").await?;
    println!("term {}: the other one's turn", leadership.token());
    drop(leadership);

    // Back again: may what I know from my own first term be stale?
    let leadership = mine.lead("migrate").await?;
    println!(
        "term {}: somebody else led since my term 1: {}",
        leadership.token(),
        leadership.others_led_since(first)
    );
    drop(leadership);
    other.close().await;
    mine.close().await;
    Ok(())
}
