//! Elections on storage of one's own, with a clock of one's own.
//!
//! `cargo run -p tenure --example own_storage`

mod failure;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tenure::store::ttl_store::{Entry, TtlStore};
use tenure::store::{ExpiryClock, Guarantees, StoreError, TokenOrder, Wake};
use tenure::{Clock, Elections, ManualClock, Moment};

use failure::Failure;

/// Whatever can do four things can hold elections: get, insert if absent, swap if equal, delete if equal.
struct Shelf {
    clock: ManualClock,
    things: Mutex<BTreeMap<String, (Vec<u8>, Moment)>>,
}

impl Shelf {
    /// Does something with the one value at `key`, unless its time is over.
    fn at<T>(&self, key: &str, act: impl FnOnce(&mut Option<(Vec<u8>, Moment)>) -> T) -> T {
        let mut things = self.things.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        let mut value = things.remove(key).filter(|(_, until)| !until.has_passed(now));
        let answer = act(&mut value);
        if let Some(value) = value {
            things.insert(key.to_owned(), value);
        }
        answer
    }

    fn until(&self, ttl: Option<Duration>) -> Moment {
        ttl.map_or(Moment::FAR, |ttl| self.clock.now().plus(ttl))
    }
}

#[async_trait]
impl TtlStore for Shelf {
    async fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let now = self.clock.now();
        Ok(self.at(key, |value| {
            let (value, until) = value.clone()?;
            let time_left = (until != Moment::FAR).then(|| until.time_until(now));
            Some(Entry { value, time_left })
        }))
    }

    async fn insert_if_absent(
        &self,
        key: &str,
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let until = self.until(ttl);
        Ok(self.at(key, |value| {
            let absent = value.is_none();
            value.get_or_insert((new, until));
            absent
        }))
    }

    async fn compare_and_swap(
        &self,
        key: &str,
        expected: &[u8],
        new: Vec<u8>,
        ttl: Option<Duration>,
    ) -> Result<bool, StoreError> {
        let until = self.until(ttl);
        Ok(self.at(key, |value| {
            let equal = value.as_ref().is_some_and(|(present, _)| present == expected);
            if equal {
                *value = Some((new, until));
            }
            equal
        }))
    }

    async fn compare_and_delete(&self, key: &str, expected: &[u8]) -> Result<bool, StoreError> {
        Ok(self.at(key, |value| {
            let equal = value.as_ref().is_some_and(|(present, _)| present == expected);
            if equal {
                *value = None;
            }
            equal
        }))
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "shelf",
            scope: "this process".into(),
            linearizable: true,
            survives_restart: false,
            survives_failover: None,
            clock: ExpiryClock::Machine,
            tokens: TokenOrder::Strict,
            min_ttl: Duration::from_millis(1),
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Look(Duration::from_secs(1)),
            assumptions: vec!["everything ends with the process"],
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let clock = ManualClock::new();
    let shelf = Shelf { clock: clock.clone(), things: Mutex::default() };
    let elections = Elections::over(shelf, Arc::new(clock.clone()));
    let leadership = elections.try_lead("parcel").await?.ok_or("taken")?;
    println!("term {}: leading: {}", leadership.token(), leadership.is_leader());
    // Half a minute passes without anything running: permission is gone at that very moment.
    clock.advance(Duration::from_secs(30));
    println!("half a minute later, leading: {}", leadership.is_leader());
    Ok(())
}
