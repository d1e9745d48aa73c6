//! What a store promises, so that users, `doctor` and the elector can judge it.

use std::time::Duration;

use serde::Serialize;

/// Whose clock ends a lease, and what a step of that clock does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpiryClock {
    /// The boot clock of the one machine that all candidates run on; wall-clock steps do nothing.
    Machine,
    /// The store's own clock; the text says what a step of it does.
    Store(&'static str),
    /// No clock of the store tells: each observer times an unchanged record on its own clock, from his first look,
    /// for ttl × (1 + drift).
    ///
    /// A holder's death is then noticed up to that long after whoever follows began to look, and how long ago a term
    /// ended with success may not be known.
    Observer,
}

/// How far the order of fencing tokens is promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenOrder {
    /// Every term's token is above all tokens before it.
    Strict,
    /// As strict, unless the store lost data and its servers' clocks differ by more than this.
    StrictWithin(Duration),
    /// Tokens can repeat or go back, for example after the store lost its data.
    None,
}

/// How followers learn that something changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wake {
    /// The store tells them.
    Push,
    /// They look again after this long.
    Look(Duration),
}

/// What a store promises and what it takes for granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guarantees {
    /// The store's short name, such as `memory` or `file`.
    pub store: &'static str,
    /// Who can take part, and where the leases live. Two stores of one name and scope count as the same store.
    pub scope: String,
    /// Each answer reflects all writes that were answered before it.
    pub linearizable: bool,
    /// Leases and tokens are kept over a restart of the store.
    pub survives_restart: bool,
    /// Leases and tokens are kept when another server takes over; `None` where there is no other server.
    pub survives_failover: Option<bool>,
    /// Whose clock ends a lease.
    pub clock: ExpiryClock,
    /// How far the order of tokens is promised.
    pub tokens: TokenOrder,
    /// The shortest ttl that the store honours.
    pub min_ttl: Duration,
    /// Ttls are rounded up to a multiple of this.
    pub ttl_grain: Duration,
    /// How followers wake.
    pub wake: Wake,
    /// What must hold for the above, in plain words.
    pub assumptions: Vec<&'static str>,
}
