//! Faults that a test asks for, on the way to any store and back.
//!
//! [`Faulty`] wraps a store; its [`Faults`] decide what happens to each call. A fault is asked for once ("the next
//! renewal …") or until it is taken back, and every one that happened is counted: a test about lost replies that lost
//! none has shown nothing.
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use tenure_core::embedded::MemoryStore;
//! # use tenure_core::store::{ErrorKind, LeaseStore};
//! # use tenure_core::{ElectionName, ManualClock};
//! # use tenure_testkit::fault::{Fault, Faulty, Verb};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = Arc::new(ManualClock::new());
//! let store = Faulty::new(MemoryStore::with_clock(clock.clone()), clock);
//! let faults = store.faults();
//! faults.next(Verb::Read, Fault::Before(ErrorKind::Unavailable));
//!
//! let election = ElectionName::new("billing").unwrap();
//! assert_eq!(store.read(&election).await.unwrap_err().kind(), ErrorKind::Unavailable);
//! assert_eq!(store.read(&election).await.unwrap(), None);
//! assert_eq!(faults.injected(Verb::Read), 1);
//! # }
//! ```

mod faulty;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::ElectionName;
use tenure_core::store::ErrorKind;
use tokio::sync::Notify;

pub use faulty::Faulty;

/// What is called at a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// A bid.
    Acquire,
    /// A renewal, of one lease or of many in one call.
    Renew,
    /// A release.
    Release,
    /// A look at a record.
    Read,
    /// One change on its way to a watcher.
    Watch,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Acquire, Self::Renew, Self::Release, Self::Read, Self::Watch];
}

/// What happens to a call.
///
/// A change on its way to a watcher is a call too: one that was lost ([`Before`](Self::Before),
/// [`After`](Self::After)) becomes a `Gap`, one that is [`Late`](Self::Late) waits like one that [`Hang`](Self::Hang)s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It reaches the store this much later.
    Delay(Duration),
    /// It does not reach the store; the caller gets an error of this kind.
    Before(ErrorKind),
    /// It reaches the store, but the answer is lost: the caller gets an error of this kind.
    After(ErrorKind),
    /// It stands still until it is [let go](Faults::let_go), and then goes on. A caller that drops it takes it back.
    Hang,
    /// It reaches the store twice; the caller gets the first answer.
    Duplicate,
    /// It is held back until it is [delivered](Faults::deliver), and then reaches the store whether or not the caller
    /// still waits. After `give_up` the caller gets a `Timeout`; without it, it has to give up by itself.
    Late {
        /// How long the caller waits.
        give_up: Option<Duration>,
    },
}

type Chooser = Box<dyn FnMut(Verb, &[ElectionName]) -> Option<Fault> + Send>;
type Delivery = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Says what happens to the calls of a [`Faulty`] store; clones say it to the same one.
#[derive(Clone, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    plan: Mutex<Plan>,
    /// Rung when hung calls may go on.
    gone_on: Notify,
}

#[derive(Default)]
struct Plan {
    next: BTreeMap<Verb, VecDeque<Fault>>,
    chooser: Option<Chooser>,
    always: BTreeMap<Verb, Fault>,
    injected: BTreeMap<Verb, u64>,
    held_back: Vec<Delivery>,
    /// Rises when hung calls are let go; a call hangs until it has risen.
    round: u64,
    hung: usize,
}

impl Faults {
    /// Asks for a fault of the next call of `verb`; several are taken in the order in which they were asked for.
    pub fn next(&self, verb: Verb, fault: Fault) {
        self.plan().next.entry(verb).or_default().push_back(fault);
    }

    /// Asks for a fault of every call of `verb` for which no other one was asked.
    pub fn always(&self, verb: Verb, fault: Fault) {
        self.plan().always.insert(verb, fault);
    }

    /// Asks `choose` about every call for which nothing is queued, for faults that a simulation draws.
    pub fn choose(&self, choose: impl FnMut(Verb, &[ElectionName]) -> Option<Fault> + Send + 'static) {
        self.plan().chooser = Some(Box::new(choose));
    }

    /// Takes back everything that was asked for; what hangs or is held back stays so.
    pub fn clear(&self) {
        let mut plan = self.plan();
        plan.next.clear();
        plan.always.clear();
        plan.chooser = None;
    }

    /// Lets every call go on that hangs now.
    pub fn let_go(&self) {
        self.plan().round += 1;
        self.shared.gone_on.notify_waiters();
    }

    /// Brings every call that is held back to the store, in the order in which they were made, and waits until the
    /// store has answered them; tells how many there were.
    pub async fn deliver(&self) -> usize {
        let late = std::mem::take(&mut self.plan().held_back);
        let count = late.len();
        for delivery in late {
            delivery.await;
        }
        count
    }

    /// Loses every call that is held back, for ever; tells how many there were.
    pub fn forget(&self) -> usize {
        std::mem::take(&mut self.plan().held_back).len()
    }

    /// Counts the calls that are held back now.
    #[must_use]
    pub fn held_back(&self) -> usize {
        self.plan().held_back.len()
    }

    /// Counts the calls that hang now.
    #[must_use]
    pub fn hung(&self) -> usize {
        self.plan().hung
    }

    /// Counts the faults of `verb` that happened.
    #[must_use]
    pub fn injected(&self, verb: Verb) -> u64 {
        self.plan().injected.get(&verb).copied().unwrap_or(0)
    }

    /// Counts all faults that happened.
    #[must_use]
    pub fn injected_in_all(&self) -> u64 {
        self.plan().injected.values().sum()
    }

    /// Decides about a call, and counts it.
    fn take(&self, verb: Verb, elections: &[ElectionName]) -> Option<Fault> {
        let mut plan = self.plan();
        let queued = plan.next.get_mut(&verb).and_then(VecDeque::pop_front);
        let fault = match queued {
            Some(fault) => Some(fault),
            None => plan
                .chooser
                .as_mut()
                .and_then(|choose| choose(verb, elections))
                .or_else(|| plan.always.get(&verb).cloned()),
        };
        if fault.is_some() {
            *plan.injected.entry(verb).or_default() += 1;
        }
        fault
    }

    fn hold_back(&self, delivery: Delivery) {
        self.plan().held_back.push(delivery);
    }

    async fn hang(&self) {
        /// Counts the call for as long as it hangs, also if the caller drops it.
        struct Hung<'a>(&'a Faults);
        impl Drop for Hung<'_> {
            fn drop(&mut self) {
                self.0.plan().hung -= 1;
            }
        }
        let round = self.plan().round;
        self.plan().hung += 1;
        let _hung = Hung(self);
        loop {
            // Before the look: being let go after it is then not missed.
            let gone_on = self.shared.gone_on.notified();
            if self.plan().round != round {
                return;
            }
            gone_on.await;
        }
    }

    /// Takes the lock, also after a test panicked with it: every change under it is complete.
    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan();
        f.debug_struct("Faults")
            .field("next", &plan.next)
            .field("always", &plan.always)
            .field("injected", &plan.injected)
            .field("held_back", &plan.held_back.len())
            .field("hung", &plan.hung)
            .finish_non_exhaustive()
    }
}
