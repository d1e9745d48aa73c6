//! Small traces for the invariants' own tests.

use std::time::Duration;

use tenure_core::{Attempt, BidId, FencingToken, Moment, Random, RequestId};

use crate::trace::{Entry, Promises, State, Stored, Trace, Verb, What, Who};

pub(super) const T1: FencingToken = FencingToken(1);
pub(super) const T2: FencingToken = FencingToken(2);

/// Makes a trace of `(milliseconds, process, what)`; ttl 1 s, everything promised.
pub(super) fn trace(entries: Vec<(u64, u16, What)>) -> Trace {
    let entry = |(ms, who, what)| Entry { at: Duration::from_millis(ms), who: Who(who), what };
    let promises = Promises {
        exclusion: true,
        tokens: true,
        overlap_ttls: 1.0,
        longest_call: Duration::from_millis(500),
        ttl: Duration::from_secs(1),
    };
    Trace { entries: entries.into_iter().map(entry).collect(), promises }
}

/// The same without the promise of exclusion.
pub(super) fn unpromised(entries: Vec<(u64, u16, What)>) -> Trace {
    let mut trace = trace(entries);
    trace.promises.exclusion = false;
    trace
}

pub(super) fn elected(token: FencingToken) -> What {
    What::Elected { token, deadline: None }
}

pub(super) fn asked(token: FencingToken, answer: bool) -> What {
    What::Asked { token, answer, deadline: None }
}

pub(super) fn acted(token: FencingToken, draining: bool) -> What {
    What::Acted { token, overtaken: false, draining, accepted: true }
}

pub(super) fn bid(seed: u64) -> BidId {
    BidId::new(&Random::from_seed(seed))
}

pub(super) fn attempt(seed: u64) -> Attempt {
    Attempt::new(&Random::from_seed(1000 + seed))
}

pub(super) fn request(seed: u64) -> RequestId {
    RequestId::new(&Random::from_seed(2000 + seed))
}

pub(super) fn moment(ms: u64) -> Moment {
    Moment::new(Duration::from_millis(ms), Duration::from_millis(ms))
}

pub(super) fn sent(verb: Verb, b: u64, a: u64, ms: u64, token: FencingToken) -> What {
    What::Sent { verb, bid: bid(b), attempt: attempt(a), moment: moment(ms), token }
}

pub(super) fn held(b: u64, a: u64, token: FencingToken) -> What {
    What::Stored(stored(b, a, token))
}

pub(super) fn stored(b: u64, a: u64, token: FencingToken) -> Stored {
    Stored {
        server: 0,
        state: State::Held,
        token,
        holder: Some((bid(b), attempt(a))),
        left: Some(Duration::from_secs(1)),
        request: None,
        answered: None,
    }
}

pub(super) fn started() -> What {
    What::Started {
        trust: Duration::from_millis(700),
        ttl: Duration::from_secs(1),
        latency: Duration::from_millis(100),
        named: Who(0),
    }
}
