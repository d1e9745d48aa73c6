//! Settings: what users give, what follows from it, and the rules that it must keep.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Moment;
use crate::store::Guarantees;

/// A named set of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Ttl 2 s: for a fast takeover after a crash, on a store that is close by. Costs two renewals a second.
    Fast,
    /// Ttl 30 s: for most services.
    #[default]
    Balanced,
    /// Ttl 60 s: rides out a store that is away for half a minute.
    Stable,
    /// Ttl 15 min: for stores that are paid by the request.
    ObjectStorage,
}

/// What to do when work does not stop in time although the store answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnOverrun {
    /// Keep the lease, without permission, until the work has ended: nobody else leads beside it.
    #[default]
    Hold,
    /// Let the lease expire: somebody else leads although the old work still runs.
    Expire,
}

/// What to do when `on_elected` fails or panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnElectedFailure {
    /// Report it and lead on.
    #[default]
    Keep,
    /// Report it and resign, so that another candidate tries.
    Resign,
}

/// How an elector keeps time.
///
/// Only the ttl must be thought about; what is not given follows from it.
///
/// ```
/// use std::time::Duration;
/// use tenure_core::elector::Settings;
///
/// let settings = Settings::ttl(Duration::from_secs(10)).drain_timeout(Duration::from_secs(1));
/// ```
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Settings {
    ttl: Option<Duration>,
    renew_interval: Option<Duration>,
    retry_interval: Option<Duration>,
    drain_timeout: Option<Duration>,
    call_timeout: Option<Duration>,
    drift: Option<f64>,
    latency: Option<Duration>,
    on_overrun: OnOverrun,
    on_elected_failure: OnElectedFailure,
}

impl Settings {
    /// Begins with the lease length (default 30 s): how long the others wait after the leader vanished without a word.
    ///
    /// Too small: a slow answer of the store or a busy machine costs the term. Too large: nobody leads for that long
    /// after a crash (on stores that cannot see the crash itself). 500 ms to 24 h.
    #[must_use]
    pub fn ttl(ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..Self::default() }
    }

    /// Begins with a named set.
    #[must_use]
    pub fn profile(profile: Profile) -> Self {
        let s = Duration::from_secs;
        let ms = Duration::from_millis;
        let (ttl, renew, retry, drain) = match profile {
            Profile::Fast => (s(2), ms(500), ms(250), ms(500)),
            Profile::Balanced => (s(30), s(10), s(5), s(5)),
            Profile::Stable => (s(60), s(20), s(10), s(10)),
            Profile::ObjectStorage => (s(900), s(300), s(60), s(30)),
        };
        Self::ttl(ttl).renew_interval(renew).retry_interval(retry).drain_timeout(drain)
    }

    /// Sets how often the leader renews (default ttl/3).
    ///
    /// Too small: needless requests. Too large: fewer tries before the deadline; at least two must fit.
    #[must_use]
    pub fn renew_interval(mut self, interval: Duration) -> Self {
        self.renew_interval = Some(interval);
        self
    }

    /// Sets how often a follower looks where the store cannot wake it, and how long the elector waits after an error
    /// (default ttl/6).
    ///
    /// Too small: needless requests. Too large: a slower takeover on such stores.
    #[must_use]
    pub fn retry_interval(mut self, interval: Duration) -> Self {
        self.retry_interval = Some(interval);
        self
    }

    /// Sets how long work may take to stop (default: at most 5 s, less for a short ttl).
    ///
    /// Too small: work is killed that would have ended by itself. Too large: it is taken off the time in which the
    /// leader may lead without an answer of the store.
    #[must_use]
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = Some(timeout);
        self
    }

    /// Sets the limit of one attempt (default half a renew interval, at most 5 s).
    ///
    /// Too small: slow answers count as failures. Too large: a dead connection is noticed late.
    #[must_use]
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = Some(timeout);
        self
    }

    /// Sets by how much clocks may run too fast or too slow, as a fraction (default 0.1, the kernel's limit for slewing).
    ///
    /// Too small: two can lead while a clock is being slewed. Too large: shorter terms of trust.
    #[must_use]
    pub fn drift(mut self, drift: f64) -> Self {
        self.drift = Some(drift);
        self
    }

    /// Sets what waking up, killing and reaping may cost (default 100 ms).
    ///
    /// Too small: on a busy machine work may end after the lease. Too large: shorter terms of trust, and a higher
    /// lowest ttl (five times this).
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    /// Sets what happens when work does not stop in time although the store answers.
    #[must_use]
    pub fn on_overrun(mut self, on_overrun: OnOverrun) -> Self {
        self.on_overrun = on_overrun;
        self
    }

    /// Sets what happens when `on_elected` fails or panics.
    #[must_use]
    pub fn on_elected_failure(mut self, policy: OnElectedFailure) -> Self {
        self.on_elected_failure = policy;
        self
    }

    /// Works out what was not given and checks every rule, also those of the store.
    ///
    /// # Errors
    /// Lists every broken rule, each with its numbers.
    pub fn resolve(&self, guarantees: &Guarantees) -> Result<Timing, InvalidSettings> {
        let ttl = self.ttl.unwrap_or(Duration::from_secs(30));
        let latency = self.latency.unwrap_or(Duration::from_millis(100));
        let drift = self.drift.unwrap_or(0.1);
        let mut broken = Vec::new();
        if !(0.0..0.5).contains(&drift) {
            broken.push(format!("drift is {drift}: it must be at least 0 and below 0.5"));
        }
        let drift_permille = permille(drift);
        let renew_interval = self.renew_interval.unwrap_or(ttl / 3);
        let trusted = shrink(ttl, drift_permille).saturating_sub(latency);
        let derived_drain = trusted.saturating_sub(renew_interval.saturating_mul(2)).saturating_mul(4) / 5;
        let timing = Timing {
            ttl,
            renew_interval,
            retry_interval: self.retry_interval.unwrap_or(ttl / 6),
            drain_timeout: self.drain_timeout.unwrap_or(derived_drain.min(Duration::from_secs(5))),
            call_timeout: self.call_timeout.unwrap_or((renew_interval / 2).min(Duration::from_secs(5))),
            drift_permille,
            latency,
            on_overrun: self.on_overrun,
            on_elected_failure: self.on_elected_failure,
        };
        timing.check(guarantees, self.drain_timeout.is_some(), &mut broken);
        if broken.is_empty() { Ok(timing) } else { Err(InvalidSettings { broken }) }
    }
}

/// Settings that break rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSettings {
    broken: Vec<String>,
}

impl InvalidSettings {
    /// Returns one sentence for each broken rule.
    #[must_use]
    pub fn broken_rules(&self) -> &[String] {
        &self.broken
    }
}

impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "these settings do not work: {}", self.broken.join("; "))
    }
}

impl std::error::Error for InvalidSettings {}

/// Settings that were worked out and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Lease length.
    pub ttl: Duration,
    /// The leader's cadence.
    pub renew_interval: Duration,
    /// A follower's fallback cadence, and the wait after an error.
    pub retry_interval: Duration,
    /// How long work may take to stop.
    pub drain_timeout: Duration,
    /// The limit of one attempt.
    pub call_timeout: Duration,
    /// By how much clocks may be off, in thousandths.
    pub drift_permille: u32,
    /// What waking up, killing and reaping may cost.
    pub latency: Duration,
    /// What to do when work does not stop in time.
    pub on_overrun: OnOverrun,
    /// What to do when `on_elected` fails.
    pub on_elected_failure: OnElectedFailure,
}

/// The longest lease and the longest wait of a follower; longer ones are a mistake in the unit.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Timing {
    fn check(&self, guarantees: &Guarantees, drain_given: bool, broken: &mut Vec<String>) {
        let lowest = self.latency.saturating_mul(5).max(guarantees.min_ttl);
        if self.ttl < lowest {
            let why = if lowest == guarantees.min_ttl { guarantees.store } else { "five times the latency" };
            broken.push(format!("ttl is {:?}: the shortest here is {lowest:?} ({why})", self.ttl));
        }
        if self.ttl > LONGEST {
            broken.push(format!("ttl is {:?}: the longest is 24 h", self.ttl));
        }
        if self.renew_interval.is_zero() {
            broken.push("renew_interval is 0: it must be positive".into());
        }
        if self.retry_interval.is_zero() {
            broken.push("retry_interval is 0: it must be positive".into());
        }
        if self.retry_interval > LONGEST {
            broken.push(format!("retry_interval is {:?}: the longest is 24 h", self.retry_interval));
        }
        if self.call_timeout.is_zero() || self.call_timeout >= self.renew_interval {
            broken.push(format!(
                "call_timeout is {:?}: it must be positive and below renew_interval ({:?})",
                self.call_timeout, self.renew_interval
            ));
        }
        let trusted = shrink(self.ttl, self.drift_permille).saturating_sub(self.latency);
        let two = self.renew_interval.saturating_mul(2);
        let room = trusted.saturating_sub(self.drain_timeout);
        if two > room || (!drain_given && two >= trusted) {
            broken.push(format!(
                "2 × renew_interval is {two:?}: at most {room:?} are left for it \
                 (ttl {:?} less drift {} %, latency {:?} and drain_timeout {:?}); shorten renew_interval or \
                 drain_timeout, or lengthen ttl",
                self.ttl,
                f64::from(self.drift_permille) / 10.0,
                self.latency,
                self.drain_timeout
            ));
        } else if self.drain_timeout.is_zero() {
            broken.push("drain_timeout is 0: work needs some time to stop".into());
        }
    }

    /// When all work must have ended, for a lease that was asked for at `sent`: trust starts at the send.
    #[must_use]
    pub fn must_stop(&self, sent: Moment, granted: Duration) -> Moment {
        // Asked or granted, the smaller counts: the store may have rounded either way.
        let ttl = shrink(self.ttl.min(granted), self.drift_permille);
        sent.plus(ttl.saturating_sub(self.latency))
    }

    /// When permission ends and work is told to stop.
    #[must_use]
    pub fn deadline(&self, sent: Moment, granted: Duration) -> Moment {
        self.must_stop(sent, granted).minus(self.drain_timeout)
    }

    /// When the store must have freed a lease that was last asked for at `sent`, whatever its clock did.
    #[must_use]
    pub fn surely_over(&self, sent: Moment, granted: Duration) -> Moment {
        let ttl = self.ttl.max(granted);
        sent.plus(ttl.saturating_mul(1000 + self.drift_permille) / 1000)
    }

    /// How long to wait for one attempt with `left` to go: there is always time for a second one.
    #[must_use]
    pub fn attempt_timeout(&self, left: Duration) -> Duration {
        // Below a few milliseconds a further attempt could not be answered anyway.
        self.call_timeout.min(left / 2).max(Duration::from_millis(5))
    }
}

fn shrink(ttl: Duration, drift_permille: u32) -> Duration {
    ttl.saturating_mul(1000 - drift_permille.min(1000)) / 1000
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped to 0..=500 first.
fn permille(drift: f64) -> u32 {
    // Rounded up: a smaller drift than asked for would be less safe.
    if drift.is_nan() { 0 } else { (drift.clamp(0.0, 0.5) * 1000.0).ceil() as u32 }
}

#[cfg(test)]
#[path = "settings_test.rs"]
mod tests;
