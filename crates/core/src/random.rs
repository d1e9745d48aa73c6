//! Randomness as a component: one seed decides everything that is drawn in a process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Draws ids and jitter.
///
/// A generator from one seed always draws the same sequence, which is what makes a simulation repeatable.
/// Not for secrets.
#[derive(Debug)]
pub struct Random {
    // Two independent sequences, so that an id has 128 random bits and not 64 stretched ones.
    high: AtomicU64,
    low: AtomicU64,
}

/// The odd constant of the SplitMix64 sequence (2^64 divided by the golden ratio).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// Starts from entropy of the operating system.
    ///
    /// # Panics
    /// Never on Linux since 3.17: the kernel answers such small requests whole.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // This is the component that the ban points to.
    pub fn from_os() -> Self {
        let mut bytes = [0u8; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => panic!("the kernel gives no random bytes: {e}"),
            }
        }
        let half = |i: usize| {
            u64::from_ne_bytes([
                bytes[i],
                bytes[i + 1],
                bytes[i + 2],
                bytes[i + 3],
                bytes[i + 4],
                bytes[i + 5],
                bytes[i + 6],
                bytes[i + 7],
            ])
        };
        Self { high: AtomicU64::new(half(0)), low: AtomicU64::new(half(8)) }
    }

    /// Starts from a seed: the same seed draws the same sequence.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        Self { high: AtomicU64::new(mix(seed)), low: AtomicU64::new(mix(seed ^ STEP)) }
    }

    /// Draws 64 bits.
    pub fn next_u64(&self) -> u64 {
        mix(self.low.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }

    /// Draws 128 bits, for ids that must not meet those of any other process.
    pub fn next_u128(&self) -> u128 {
        let high = mix(self.high.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP));
        (u128::from(high) << 64) | u128::from(self.next_u64())
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
