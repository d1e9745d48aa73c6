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
    /// Ttl 60 s: rides out a store that is away for twenty seconds.
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
    /// Lists every rule that a given value breaks, each with the value, what it is held against and what to do. What
    /// follows from a bad value is not listed: nobody hears of something that he did not give.
    pub fn resolve(&self, guarantees: &Guarantees) -> Result<Timing, InvalidSettings> {
        let ttl = self.ttl.unwrap_or(Duration::from_secs(30));
        let latency = self.latency.unwrap_or(Duration::from_millis(100));
        let drift = self.drift.unwrap_or(0.1);
        let drift_permille = permille(drift);
        let renew_interval = self.renew_interval.unwrap_or(ttl / 3);
        let trusted = shrink(ttl, drift_permille).saturating_sub(latency);
        let derived_drain = trusted.saturating_sub(renew_interval.saturating_mul(2)).saturating_mul(4) / 5;
        let timing = Timing {
            ttl,
            renew_interval,
            // A ttl of a few milliseconds must not make followers look without a break.
            retry_interval: self.retry_interval.unwrap_or((ttl / 6).max(SHORTEST)),
            drain_timeout: self.drain_timeout.unwrap_or(derived_drain.min(Duration::from_secs(5))),
            call_timeout: self.call_timeout.unwrap_or((renew_interval / 2).min(Duration::from_secs(5))),
            drift_permille,
            latency,
            on_overrun: self.on_overrun,
            on_elected_failure: self.on_elected_failure,
        };
        let broken = self.broken_rules(&timing, guarantees);
        if broken.is_empty() { Ok(timing) } else { Err(InvalidSettings { broken }) }
    }

    /// Lists the rules that given values break.
    fn broken_rules(&self, timing: &Timing, guarantees: &Guarantees) -> Vec<String> {
        let mut broken = Vec::new();
        if let Some(drift) = self.drift.filter(|drift| !(0.0..0.5).contains(drift)) {
            broken.push(format!("drift is {drift}: it must be at least 0 and below 0.5; 0.1 is the default"));
        }
        broken.extend(self.broken_ttl(timing, guarantees));
        for (name, given) in
            [("renew_interval", self.renew_interval), ("retry_interval", self.retry_interval)]
        {
            if let Some(interval) = given.filter(|interval| *interval < SHORTEST) {
                broken.push(format!("{name} is {interval:?}: the shortest is {SHORTEST:?}; lengthen it"));
            }
        }
        if let Some(interval) = self.retry_interval.filter(|interval| *interval > LONGEST) {
            broken.push(format!("retry_interval is {interval:?}: the longest is 24 h; shorten it"));
        }
        if let Some(timeout) = self.call_timeout
            && (timeout.is_zero() || timeout >= timing.renew_interval)
        {
            let renew_interval = timing.renew_interval;
            broken.push(format!(
                "call_timeout is {timeout:?}: it must be positive and below renew_interval ({renew_interval:?}); \
                 set it between"
            ));
        }
        // Two renewals must fit before the deadline. Where only worked-out values break this, it is said if nothing
        // else was: something has to be.
        let given = self.renew_interval.is_some() || self.drain_timeout.is_some();
        if given || broken.is_empty() {
            broken.extend(self.broken_room(timing));
        }
        broken
    }

    fn broken_ttl(&self, timing: &Timing, guarantees: &Guarantees) -> Option<String> {
        let (ttl, latency) = (timing.ttl, timing.latency);
        let is_default = if self.ttl.is_none() { " (the default)" } else { "" };
        if ttl > LONGEST {
            return Some(format!("ttl is {ttl:?}: the longest is 24 h; shorten it"));
        }
        let lowest = latency.saturating_mul(5);
        if ttl < guarantees.min_ttl && lowest <= guarantees.min_ttl {
            let (lowest, store) = (guarantees.min_ttl, guarantees.store);
            return Some(format!(
                "ttl is {ttl:?}{is_default}: the shortest here is {lowest:?} ({store}); lengthen it"
            ));
        }
        if ttl >= lowest {
            return None;
        }
        Some(if self.ttl.is_none() {
            format!(
                "latency is {latency:?}: ttl {ttl:?}{is_default} must be at least five times that, {lowest:?}; \
                 shorten latency or lengthen ttl"
            )
        } else {
            format!(
                "ttl is {ttl:?}: the shortest here is {lowest:?} (five times the latency, {latency:?}); lengthen it"
            )
        })
    }

    /// Checks that two tries to renew and the time to stop fit into the time in which a lease is trusted.
    fn broken_room(&self, timing: &Timing) -> Option<String> {
        let Timing { ttl, latency, drain_timeout, .. } = *timing;
        let two = timing.renew_interval.saturating_mul(2);
        let drift = f64::from(timing.drift_permille) / 10.0;
        let trusted = timing.trusted();
        let room = trusted.saturating_sub(drain_timeout);
        // A time to stop that was worked out is what the rest leaves; it must leave something.
        let fits = two <= room && (self.drain_timeout.is_some() || two < trusted);
        if fits {
            let nothing = "drain_timeout is 0: work needs some time to stop; give it what it needs";
            return drain_timeout.is_zero().then(|| nothing.to_owned());
        }
        Some(if self.renew_interval.is_some() {
            let drain = match self.drain_timeout {
                Some(drain_timeout) => format!("drain_timeout {drain_timeout:?}"),
                None => "some time to stop".to_owned(),
            };
            let renew_interval = timing.renew_interval;
            format!(
                "renew_interval is {renew_interval:?}: two of them take {two:?}, and at most {room:?} are left for that \
                 (ttl {ttl:?} less drift {drift} %, latency {latency:?} and {drain}); shorten renew_interval{}, or \
                 lengthen ttl",
                if self.drain_timeout.is_some() { " or drain_timeout" } else { "" }
            )
        } else if self.drain_timeout.is_some() {
            let left = trusted.saturating_sub(two);
            format!(
                "drain_timeout is {drain_timeout:?}: at most {left:?} are left for it (ttl {ttl:?} less drift \
                 {drift} %, latency {latency:?} and 2 × renew_interval {two:?}); shorten drain_timeout or lengthen \
                 ttl"
            )
        } else {
            let (name, value) = match (self.drift, self.latency) {
                (Some(drift), _) => ("drift", drift.to_string()),
                (None, Some(latency)) => ("latency", format!("{latency:?}")),
                (None, None) => ("ttl", format!("{ttl:?}")),
            };
            format!(
                "{name} is {value}: of ttl {ttl:?} it leaves {trusted:?}, too little for 2 × renew_interval {two:?} \
                 and some time to stop; make {name} smaller or set a shorter renew_interval"
            )
        })
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

/// The shortest interval that can be given: a store asked more often than that is asked without a break.
const SHORTEST: Duration = Duration::from_millis(1);

impl Timing {
    /// How long a lease is trusted without an answer of the store, time to stop included.
    fn trusted(&self) -> Duration {
        shrink(self.ttl, self.drift_permille).saturating_sub(self.latency)
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
