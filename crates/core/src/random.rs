//! Randomness as a component: one seed decides everything that is drawn in a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Draws ids and jitter.
///
/// A generator from one seed always draws the same sequence, which is what makes a simulation repeatable.
/// Not for secrets.
#[derive(Debug)]
pub struct Random {
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Asked for every draw: the state of a generator would be copied with a cloned process or machine, and both copies
    /// would draw the same ids from then on.
    Kernel,
    /// Two independent sequences, so that an id has 128 random bits and not 64 stretched ones.
    Seed { high: AtomicU64, low: AtomicU64 },
}

/// The odd constant of the SplitMix64 sequence (2^64 divided by the golden ratio).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Draws from the operating system, each time.
    #[must_use]
    pub fn from_os() -> Self {
        Self { source: Source::Kernel }
    }

    /// Starts from a seed: the same seed draws the same sequence.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let source = Source::Seed { high: AtomicU64::new(mix(seed)), low: AtomicU64::new(mix(seed ^ STEP)) };
        Self { source }
    }

    /// Draws 64 bits.
    ///
    /// # Panics
    /// Never on Linux since 3.17: the kernel answers such small requests whole.
    pub fn next_u64(&self) -> u64 {
        match &self.source {
            Source::Kernel => u64::from_ne_bytes(kernel_bytes()),
            Source::Seed { low, .. } => step(low),
        }
    }

    /// Draws 128 bits, for ids that must not meet those of any other process.
    ///
    /// # Panics
    /// As [`next_u64`](Self::next_u64).
    pub fn next_u128(&self) -> u128 {
        match &self.source {
            Source::Kernel => u128::from_ne_bytes(kernel_bytes()),
            Source::Seed { high, low } => (u128::from(step(high)) << 64) | u128::from(step(low)),
        }
    }

    /// Draws a number below `bound` (0 for a bound of 0).
    pub fn below(&self, bound: u64) -> u64 {
        // Multiply-shift: a bias of bound / 2^64, far below what jitter or a simulation could notice.
        u64::try_from((u128::from(self.next_u64()) * u128::from(bound)) >> 64).unwrap_or(0)
    }

    /// Draws a duration from zero up to `limit`.
    pub fn up_to(&self, limit: Duration) -> Duration {
        Duration::from_nanos(self.below(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[allow(clippy::disallowed_methods)] // This is the component that the ban points to.
fn kernel_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("the kernel gives no random bytes: {e}"),
        }
    }
    bytes
}

fn step(state: &AtomicU64) -> u64 {
    mix(state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_draws_one_sequence() {
        let (a, b, c) = (Random::from_seed(7), Random::from_seed(7), Random::from_seed(8));
        let draw = |r: &Random| (0..32).map(|_| r.next_u128()).collect::<Vec<_>>();
        let (a, b, c) = (draw(&a), draw(&b), draw(&c));
        assert_eq!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn bounds_hold() {
        let r = Random::from_os();
        assert_eq!(r.below(0), 0);
        assert!((0..1000).all(|_| r.below(10) < 10));
        assert!((0..10).all(|wanted| (0..1000).any(|_| r.below(10) == wanted)));
        assert_eq!(r.up_to(Duration::ZERO), Duration::ZERO);
    }
}
