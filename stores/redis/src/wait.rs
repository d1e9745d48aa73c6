//! What counts only when enough replicas have it.
//!
//! A server answers before its replicas have what was written; if one of them takes its place then, the write is lost. `WAIT`
//! tells how many replicas have it. It counts what *its own* connection wrote, so that a script and its `WAIT` go over one
//! connection; and it holds up whatever comes behind it on that connection, so that it is one which nothing else uses.
//!
//! Calls are not sent together with a `WAIT` each: a thousand of them would wait for the replicas one after the other. Each
//! sends its script, and then shares the next `WAIT` with all others whose scripts were answered before it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::Value;
use tenure_core::BidId;
use tenure_core::clock::Moment;
use tenure_core::store::ErrorKind;

use crate::error::Trouble;
use crate::link::{Link, Links, Request, within};
use crate::script;

/// The part of a call's time for which the server waits for its replicas. A call that comes while another one's replicas
/// are waited for waits for those and then for its own: both fit with room for the rest.
const REPLICAS: u32 = 4;

/// Below this many bids nobody looks for what may be forgotten.
const FEW: usize = 64;

/// The connection for what must be replicated.
#[derive(Debug)]
pub(crate) struct Writes {
    links: Links,
    /// So many must have it; zero: nobody waits.
    replicas: u32,
}

/// Whether as many replicas have something as must.
pub(crate) type Replicated = Result<(), Trouble>;

/// What was answered, and whether it counts.
pub(crate) struct Written {
    values: Vec<Value>,
    replicated: Replicated,
}

impl Writes {
    pub(crate) fn new(links: Links, replicas: u32) -> Self {
        Self { links, replicas }
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    /// Sends a request as [`Links::send`] does, and waits for the replicas if it wrote anything, all within `limit`.
    pub(crate) async fn send(
        &self,
        request: Request<'_>,
        again: bool,
        limit: Duration,
    ) -> Result<Written, Trouble> {
        if self.replicas == 0 {
            let values = self.links.send(request, again, limit).await?;
            return Ok(Written { values, replicated: Ok(()) });
        }
        let (clock, begun) = (self.links.clock(), self.links.clock().now());
        let (values, link) = self.links.send_over(request, again, limit / 2).await?;
        let replicated = match values.iter().any(script::says_written) {
            true => {
                let left = limit.saturating_sub(clock.now().time_since(begun));
                within(clock, left, self.replicated(&link, limit)).await
            }
            false => Ok(()),
        };
        Ok(Written { values, replicated })
    }

    async fn replicated(&self, link: &Link, limit: Duration) -> Replicated {
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas).arg((limit / REPLICAS).as_millis().max(1));
        let ask = async || {
            let answer = self.links.send_by(link, Request::One(&wait), limit / 2).await?.pop();
            let replicas: u32 = redis::from_redis_value(crate::store::outcome(answer)?)
                .map_err(|error| Trouble::Reply(error.to_string()))?;
            Ok(replicas)
        };
        let replicas = link.waits.share(ask).await.map_err(|trouble| match trouble {
            // Whatever it is, something was written before: it must not look as if nothing had been.
            Trouble::Server(error) => {
                Trouble::Unfit(ErrorKind::Unavailable, format!("did not wait for its replicas: {error}"))
            }
            other => other,
        })?;
        match replicas >= self.replicas {
            true => Ok(()),
            false => Err(Trouble::TooFew { replicas, of: self.replicas }),
        }
    }
}

impl Written {
    /// Returns each answer, and what says that something was written only if it counts.
    pub(crate) fn each(self) -> impl Iterator<Item = Result<Value, Trouble>> {
        let replicated = self.replicated;
        self.values.into_iter().map(move |value| match &replicated {
            Err(trouble) if script::says_written(&value) => Err(trouble.clone()),
            _ => crate::store::outcome(Some(value)),
        })
    }

    /// Returns the only answer and, apart from it, whether it counts.
    pub(crate) fn one(mut self) -> (Result<Value, Trouble>, Replicated) {
        (crate::store::outcome(self.values.pop()), self.replicated)
    }
}

/// What the replicas were last found to have, on one connection.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    asked: AtomicU64,
    last: tokio::sync::Mutex<Last>,
}

#[derive(Debug)]
struct Last {
    /// The how manieth question it answers.
    number: u64,
    replicas: Result<u32, Trouble>,
}

impl Default for Last {
    fn default() -> Self {
        Self { number: 0, replicas: Ok(0) }
    }
}

impl Waits {
    /// Returns how many replicas have all that was answered before this was called; asks, unless somebody did so since. A
    /// question without an answer is not asked once more by each who waits for it.
    async fn share(&self, ask: impl AsyncFnOnce() -> Result<u32, Trouble>) -> Result<u32, Trouble> {
        let before = self.asked.load(Ordering::Acquire);
        // One question at a time: the others would only stand behind it.
        let mut last = self.last.lock().await;
        if last.number <= before {
            let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
            *last = Last { number, replicas: ask().await };
        }
        last.replicas.clone()
    }
}

/// What became of bids that the server granted: each one is handed out or given back, never both.
///
/// Several attempts of one bid may be under way, and the replicas may be in time for one and too late for another. The one
/// that gives the lease back would end the term that the other one has begun.
#[derive(Debug, Default)]
pub(crate) struct Fates(Mutex<Settled>);

#[derive(Debug, Default)]
struct Settled {
    fates: BTreeMap<BidId, (Fate, Moment)>,
    /// The size at which it is swept next: twice what the last sweep left, so that sweeping costs each entry little.
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Somebody was told that it has won.
    Granted,
    /// A release was sent for it, which may come late.
    GivenBack,
}

impl Fates {
    /// Decides about a bid, once; it is remembered until `until` at least.
    pub(crate) fn settle(&self, bid: BidId, replicated: bool, now: Moment, until: Moment) -> Fate {
        let mut settled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if settled.fates.len() >= settled.sweep_at {
            settled.fates.retain(|_, (_, until)| !until.has_passed(now));
            settled.sweep_at = settled.fates.len().saturating_mul(2).max(FEW);
        }
        let fate = if replicated { Fate::Granted } else { Fate::GivenBack };
        settled.fates.entry(bid).or_insert((fate, until)).0
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tenure_core::{Clock, Random, SystemClock};

    use super::*;

    #[tokio::test]
    async fn a_question_is_shared_by_those_who_wrote_before_it() {
        let waits = Waits::default();
        let asked = Cell::new(0);
        let ask = async || {
            asked.set(asked.get() + 1);
            tokio::task::yield_now().await;
            Ok(asked.get())
        };
        // The first one asks. The others come while it is under way: they need a later one, and share it.
        let answers = tokio::join!(waits.share(ask), waits.share(ask), waits.share(ask));
        assert_eq!((answers.0.unwrap(), answers.1.unwrap(), answers.2.unwrap()), (1, 2, 2));
        assert_eq!(waits.share(ask).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_question_without_an_answer_is_shared_as_well() {
        let waits = Waits::default();
        let asked = Cell::new(0);
        let ask = async || {
            asked.set(asked.get() + 1);
            tokio::task::yield_now().await;
            Err(Trouble::NoAnswer(Duration::from_secs(1)))
        };
        let answers = tokio::join!(waits.share(ask), waits.share(ask), waits.share(ask), waits.share(ask));
        assert!(answers.0.is_err() && answers.1.is_err() && answers.2.is_err() && answers.3.is_err());
        assert_eq!(asked.get(), 2, "the first one's, and one that the others share");
    }

    #[test]
    fn a_bid_is_handed_out_or_given_back() {
        let (fates, random, now) = (Fates::default(), Random::from_seed(1), SystemClock.now());
        let until = now.plus(Duration::from_secs(9));
        let (one, other) = (BidId::new(&random), BidId::new(&random));
        assert_eq!(fates.settle(one, false, now, until), Fate::GivenBack);
        assert_eq!(fates.settle(one, true, now, until), Fate::GivenBack);
        assert_eq!(fates.settle(other, true, now, until), Fate::Granted);
        assert_eq!(fates.settle(other, false, now, until), Fate::Granted);
        let later = until.plus(Duration::from_secs(1));
        for _ in 0..FEW {
            fates.settle(BidId::new(&random), true, later, later);
        }
        assert_eq!(fates.settle(one, true, later, later), Fate::Granted, "long over, and forgotten");
    }
}
