//! B10: a restarted process with a stable identity takes its own unexpired lease at once, and nobody else's.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::embedded::MemoryStore;
use tenure_core::store::{LeaseStore, TermEnd};
use tenure_core::{
    CandidateId, ElectionName, Elections, FencingToken, ManualClock, Settings, StableIdentity,
};

/// A machine with a store beside it; its processes live in runtimes of their own, which end without a word.
struct Machine {
    clock: ManualClock,
    store: MemoryStore,
}

impl Machine {
    fn new() -> Self {
        let clock = ManualClock::new();
        Self { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
    }

    /// A process that tries to lead once and is then killed; answers the token that it led with.
    fn process(&self, name: &str, state: &Path) -> Option<FencingToken> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let elections = Elections::builder(self.store.clone())
            .clock(Arc::new(self.clock.clone()))
            .candidate(CandidateId::new(name).unwrap())
            .identity(StableIdentity::open("web-1", state, None).unwrap())
            .settings(Settings::ttl(Duration::from_secs(30)))
            .build();
        let leadership = runtime.block_on(elections.try_lead("e")).unwrap();
        let token = leadership.as_ref().map(tenure_core::Leadership::token);
        // Killed: the runtime goes first, so that nothing is given back.
        drop(runtime);
        token
    }
}

#[test]
fn a_restarted_process_takes_its_own_lease_with_a_higher_token() {
    let machine = Machine::new();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    assert_eq!(machine.process("first", &state), Some(FencingToken(1)));
    assert_eq!(machine.process("second", &state), Some(FencingToken(2)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let record = runtime.block_on(machine.store.read(&ElectionName::new("e").unwrap())).unwrap().unwrap();
    assert_eq!(record.leader().unwrap().candidate.as_str(), "second");
    let last = record.last_terms.last().unwrap();
    assert_eq!((last.candidate.as_str(), last.end), ("first", Some(TermEnd::Superseded)));
}

#[test]
fn a_copy_of_the_state_directory_waits_for_expiry() {
    let machine = Machine::new();
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(machine.process("first", &directory.path().join("state")), Some(FencingToken(1)));
    assert_eq!(machine.process("clone", &directory.path().join("copy")), None);
    machine.clock.advance(Duration::from_secs(30));
    assert_eq!(machine.process("clone again", &directory.path().join("copy")), Some(FencingToken(2)));
}
