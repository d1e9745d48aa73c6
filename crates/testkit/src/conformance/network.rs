//! Trouble at the calls themselves, for stores that no network lies before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::Clock;
use tenure_core::store::{ErrorKind, LeaseStore};

use super::{Network, Trouble};
use crate::fault::{Fault, Faults, Faulty, Verb};

pub(super) struct CallFaults {
    store: Arc<dyn LeaseStore>,
    faults: Faults,
    call_limit: Duration,
    hung: AtomicBool,
}

impl CallFaults {
    pub(super) fn new(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>, call_limit: Duration) -> Self {
        let faulty = Faulty::new(store, clock);
        Self { faults: faulty.faults(), store: Arc::new(faulty), call_limit, hung: false.into() }
    }
}

#[async_trait]
impl Network for CallFaults {
    fn handle(&self) -> Arc<dyn LeaseStore> {
        Arc::clone(&self.store)
    }

    fn call_limit(&self) -> Duration {
        self.call_limit
    }

    async fn set(&self, trouble: Trouble) {
        self.faults.clear();
        if self.hung.swap(trouble == Trouble::Hung, Ordering::Relaxed) {
            self.faults.forget();
        }
        let fault = match trouble {
            Trouble::None => return,
            Trouble::RequestsLost | Trouble::Cut => Fault::Before(ErrorKind::Unavailable),
            Trouble::AnswersLost => Fault::After(ErrorKind::Timeout),
            Trouble::RequestsHeld | Trouble::Hung => Fault::Late { give_up: Some(self.call_limit) },
        };
        for verb in [Verb::Acquire, Verb::Renew, Verb::Release, Verb::Read] {
            self.faults.always(verb, fault.clone());
        }
        if trouble == Trouble::Cut {
            self.faults.always(Verb::Watch, fault);
        }
    }

    async fn deliver(&self) {
        self.faults.deliver().await;
    }

    fn troubled(&self) -> u64 {
        self.faults.injected_in_all()
    }
}
