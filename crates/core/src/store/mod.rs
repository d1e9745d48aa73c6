//! The contract between the elector and the place where leases live.

mod control;
mod error;
mod guarantees;
mod lease;
mod recent;
pub mod record;
mod serde_ms;
mod together;
pub mod ttl;
pub mod ttl_store;
pub mod versioned;
pub mod wake;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;

pub use control::{Action, Answer, Answered, ControlRequest, Operator, Pause, Requested};
pub use error::{ErrorKind, StoreError};
pub use guarantees::{ExpiryClock, Guarantees, TokenOrder, Wake};
pub use lease::{
    Bid, Holder, Lease, LeaseRecord, Metadata, Next, Origin, RecordState, Release, Renew, Term, TermEnd,
};

use crate::name::ElectionName;

/// The answer to a bid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquisition {
    /// The bid leads; the lease names the attempt that was applied.
    Acquired(Lease),
    /// It does not; the record says who does or why nobody may.
    Refused(Box<LeaseRecord>),
}

/// The answer to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease lives on, from the send of the attempt that it names; an operator's request may come along.
    Renewed(Lease, Option<Box<ControlRequest>>),
    /// The lease is gone, definitely; the record is what was found instead, if it could be read.
    Lost(Option<Box<LeaseRecord>>),
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The lease was given back by this very release.
    Released,
    /// It was not held (any more), and nothing was changed.
    NotHeld,
}

/// What a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The election's record is now this. Renewals need not be reported.
    Record(Box<LeaseRecord>),
    /// Changes may have been missed: look again.
    Gap,
}

/// A stream of changes.
pub type Changes = Pin<Box<dyn Stream<Item = Change> + Send>>;

/// A place where leases live.
///
/// # Contract
///
/// *Outcomes are definite, errors mostly are not.* `Acquired`, `Refused`, `Renewed`, `Lost`, `Released` and
/// `NotHeld` are facts. An error of kind `Timeout`, `Unavailable` or `Conflict` means that nobody knows whether the
/// call took effect; `Denied`, `Invalid` and `Corrupt` mean that it did not.
///
/// *Repeating is harmless.* A repeated bid answers the same term and token while that term lives, names the attempt
/// that was applied and extends nothing; afterwards it is refused, as long as it is among the last terms kept. A
/// repeated renewal attempt extends nothing. A repeated release attempt answers `Released` again.
///
/// *Late writes are harmless.* Renewals and releases match bid, token and the nonce of the last applied attempt, so
/// that they can touch neither a later term nor the term of a cloned process. A `Lost` whose record still shows the
/// caller's own bid and one of its own attempts says only that a later attempt overtook this one.
///
/// *Tokens rise.* A granted token is above the record's last one and above the bid's floor.
///
/// *A lease ends* when it was not renewed for its ttl, by the clock that [`Guarantees`] name, and not before, unless
/// its holder released it or is known to be dead.
///
/// Calls may take any time; the elector gives up waiting but never drops them. They must not block the thread.
///
/// The public suite in `tenure-testkit` checks all of this.
#[async_trait]
pub trait LeaseStore: Send + Sync + 'static {
    /// Asks for the lease of `election`.
    ///
    /// A bid that was refused is not remembered: a copy of it that the network delivers later, when the election is
    /// free, wins. Nobody leads by it as if it were new: a candidate that still repeats the bid finds it and counts from
    /// the bid's first send; one that hears of it later gives it back; if the candidate has gone, the election is
    /// leaderless for one ttl. Nothing in the bid can tell such a
    /// copy from a bid that is merely slow: no clock is common to candidate and store, and a store that noted every
    /// refusal would turn every look of a follower into a write.
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError>;

    /// Renews leases, answering each in its place, in as few round trips as the store allows.
    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>>;

    /// Gives a lease back; keeps token and last terms.
    async fn release(&self, release: &Release) -> Result<Released, StoreError>;

    /// Reads the record of `election`; `None` if nobody ever wrote one.
    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError>;

    /// Reports changes of these elections without polling, or `None` where the store cannot.
    fn watch(&self, elections: &[ElectionName]) -> Option<Changes>;

    /// Says what the store promises.
    fn guarantees(&self) -> Guarantees;

    /// Returns what operators can do here, if anything.
    fn operator(&self) -> Option<&dyn Operator>;
}

#[async_trait]
impl<S: LeaseStore + ?Sized> LeaseStore for Arc<S> {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        (**self).acquire(election, bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        (**self).renew(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        (**self).release(release).await
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        (**self).read(election).await
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        (**self).watch(elections)
    }

    fn guarantees(&self) -> Guarantees {
        (**self).guarantees()
    }

    fn operator(&self) -> Option<&dyn Operator> {
        (**self).operator()
    }
}

impl fmt::Debug for dyn LeaseStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseStore({})", self.guarantees().store)
    }
}
