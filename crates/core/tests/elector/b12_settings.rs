//! B12: settings that break rules are refused before anything is sent, with every rule that is broken.

use tenure_core::Settings;
use tenure_core::elector::StartError;
use tenure_core::store::LeaseStore;

use crate::world::{World, election, ms, secs};

#[tokio::test(start_paused = true)]
async fn broken_settings_are_refused_at_the_start_and_all_are_named() {
    let world = World::new();
    let a = world
        .candidate_with("a", Settings::ttl(ms(10)).renew_interval(secs(1)).drain_timeout(secs(0)).drift(0.7));
    let Err(StartError::Settings(invalid)) = a.elector("e").start() else { panic!("started") };
    let broken = invalid.broken_rules().join("\n");
    for words in ["drift is 0.7", "ttl is 10ms", "500ms", "two of them take 2s"] {
        assert!(broken.contains(words), "{words} in {broken}");
    }
    assert!(world.store.read(&election()).await.unwrap().is_none(), "nothing was sent");
    a.elector("e").settings(Settings::ttl(secs(5))).start().expect("the place was not taken").stop().await;
}
