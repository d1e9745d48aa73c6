//! What a store's test hands to the suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tenure_core::store::{ErrorKind, LeaseStore};
use tenure_core::{Clock, ElectionName};

use super::Property;

/// A fresh, empty store and what a test can do to it.
///
/// Three methods are needed; the others say what else can be done here. What cannot be done is left out of the suite
/// *and reported so*, never passed silently.
#[async_trait]
pub trait Fixture: Send + Sync + 'static {
    /// Opens the store once more, as another process would: over the same data, sharing nothing else.
    ///
    /// Panics if that is not possible: a store that cannot be reached does not pass.
    async fn handle(&self) -> Arc<dyn LeaseStore>;

    /// Returns the clock by which to wait: the store's own one in virtual time, the machine's for a real server.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Returns the ttl of the suite's leases: in real time the shortest with which the store is at ease, since some
    /// properties wait for several of them.
    fn ttl(&self) -> Duration;

    /// Says why a property does not apply to this store, if it does not.
    ///
    /// # Errors
    /// With the reason, for the table.
    fn applies(&self, _property: Property) -> Result<(), &'static str> {
        Ok(())
    }

    /// Returns how long one property may take by [`clock`](Self::clock) before it counts as hung.
    fn limit(&self) -> Duration {
        self.ttl().saturating_mul(60).saturating_add(Duration::from_secs(60))
    }

    /// Returns how to write into the place of a record past the store's own code.
    fn by_hand(&self) -> Option<&dyn ByHand> {
        None
    }

    /// Returns how to restart the store.
    fn restart(&self) -> Option<&dyn Restart> {
        None
    }

    /// Returns how to step the clock by which people would read the store's times.
    fn wall_clock(&self) -> Option<&dyn WallClock> {
        None
    }

    /// Returns the way between a handle and the store, where it can be disturbed. Without one the suite disturbs the
    /// calls themselves, with [`Faulty`](crate::fault::Faulty).
    fn network(&self) -> Option<Arc<dyn Network>> {
        None
    }

    /// Returns how to make requests about one election hang while all others are served.
    fn stall(&self) -> Option<&dyn Stall> {
        None
    }

    /// Opens the store in ways in which it must refuse to serve.
    async fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    /// Returns how to freeze another process in the middle of a call.
    fn freezer(&self) -> Option<&dyn Freezer> {
        None
    }

    /// Returns the session on which the store's leases hang, for stores that have sessions.
    fn session(&self) -> Option<&dyn Session> {
        None
    }
}

/// Writes into the place of a record, as somebody with access to the storage could.
#[async_trait]
pub trait ByHand: Send + Sync {
    /// Returns what stands in the record's place.
    async fn get(&self, election: &ElectionName) -> Option<Vec<u8>>;

    /// Puts `bytes` into the record's place, or removes what is there.
    async fn put(&self, election: &ElectionName, bytes: Option<Vec<u8>>);

    /// Returns all that the store keeps about an election; more than the record's place in stores that keep more.
    async fn copy(&self, election: &ElectionName) -> Option<Vec<u8>> {
        self.get(election).await
    }

    /// Puts back what [`copy`](Self::copy) gave, or removes everything.
    async fn restore(&self, election: &ElectionName, copy: Option<Vec<u8>>) {
        self.put(election, copy).await;
    }

    /// Returns what stands in the record's place as a later version would write it: in a format that is not there yet.
    fn in_a_later_format(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut record: Value = serde_json::from_slice(bytes).ok()?;
        let format = record.get_mut("format")?;
        *format = Value::from(format.as_u64()? + 1000);
        serde_json::to_vec(&record).ok()
    }
}

/// Restarts the store while its candidates live on.
#[async_trait]
pub trait Restart: Send + Sync {
    /// Restarts it with its data; tells whether it can keep any.
    async fn keeping_data(&self) -> bool;

    /// Restarts it without any data; tells whether that can be done.
    async fn losing_data(&self) -> bool;
}

/// Steps the store's wall clock, which must not matter to any lease or token.
pub trait WallClock: Send + Sync {
    /// Sets it back.
    fn set_back(&self, by: Duration);
}

/// What happens on the way between a handle and its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    None,
    /// Requests do not arrive.
    RequestsLost,
    /// Requests arrive, answers do not.
    AnswersLost,
    /// Requests are held back until they are [delivered](Network::deliver), which may be when the way is clear again.
    RequestsHeld,
    /// Connections are accepted and never answered.
    Hung,
    /// Connections are cut, and refused while this lasts.
    Cut,
}

/// A way between a handle and its store that can be disturbed.
#[async_trait]
pub trait Network: Send + Sync + 'static {
    /// Returns the handle whose calls take this way.
    fn handle(&self) -> Arc<dyn LeaseStore>;

    /// Returns how long a call of that handle takes at most, whatever happens: well below the ttl, since the suite lets
    /// several calls of one term time out.
    fn call_limit(&self) -> Duration;

    /// Sets what happens from now on. Requests that were held back stay so; those that hung are lost.
    async fn set(&self, trouble: Trouble);

    /// Brings the requests that were held back to the store, and returns when it has dealt with them.
    async fn deliver(&self);

    /// Counts requests, answers and connections that met trouble.
    fn troubled(&self) -> u64;
}

/// Makes the requests about one election hang, of every handle.
#[async_trait]
pub trait Stall: Send + Sync {
    /// Answers no request about `election` any more.
    async fn stall(&self, election: &ElectionName);
}

/// A way to open the store in which it must refuse to serve: a wrong password, a missing permission, a replica that
/// cannot be written to, a full memory.
pub struct Refusal {
    /// What is wrong, for messages.
    pub what: &'static str,
    /// The store, opened so.
    pub handle: Arc<dyn LeaseStore>,
    /// The kind of error with which it must refuse a bid.
    pub kind: ErrorKind,
    /// A word that the message must contain, so that whoever reads it knows what to do.
    pub hint: &'static str,
}

/// Freezes a participant in another process (SIGSTOP), wherever it happens to be.
#[async_trait]
pub trait Freezer: Send + Sync {
    /// Starts a process that acquires, renews and releases `election` again and again, and freezes it after `after`.
    async fn freeze(&self, election: &ElectionName, after: Duration);

    /// Ends the frozen process.
    async fn end(&self);
}

/// The session of one handle, for stores whose leases hang on sessions.
#[async_trait]
pub trait Session: Send + Sync {
    /// Returns the handle whose session this is.
    fn handle(&self) -> Arc<dyn LeaseStore>;

    /// Removes the record of `election` past the store's own code, while the session lives on.
    async fn remove(&self, election: &ElectionName);

    /// Lists the elections for which something of this session stands in the store.
    async fn elections(&self) -> Vec<ElectionName>;
}
