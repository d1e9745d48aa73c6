//! The memory store, also behind a pointer and behind a fault wrapper without faults, shows every property.

#![allow(clippy::unwrap_used)] // The fixtures are test code, too.

mod fixtures;

use std::sync::Arc;

use fixtures::Memory;
use tenure_core::store::LeaseStore;
use tenure_testkit::conformance::assert_conforms;
use tenure_testkit::fault::Faulty;

#[tokio::test(start_paused = true)]
async fn the_memory_store_conforms() {
    assert_conforms("memory", || Memory::fresh(|store, _| Arc::new(store))).await;
}

#[tokio::test(start_paused = true)]
async fn a_pointer_to_a_store_conforms() {
    let fresh = || {
        Memory::fresh(|store, _| {
            let pointer: Arc<dyn LeaseStore> = Arc::new(store);
            // The pointer itself is the store under test.
            Arc::new(pointer)
        })
    };
    assert_conforms("memory-pointer", fresh).await;
}

#[tokio::test(start_paused = true)]
async fn a_fault_wrapper_without_faults_conforms() {
    let fresh = || Memory::fresh(|store, clock| Arc::new(Faulty::new(store, clock)));
    assert_conforms("memory-faulty", fresh).await;
}
