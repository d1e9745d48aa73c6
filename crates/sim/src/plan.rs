//! What a run is made of, drawn from its seed.

use std::time::Duration;

use tenure_core::Random;

use crate::network::Weather;
use crate::server::Kind;

/// How the work of leaders behaves. Chances are in thousandths, per term or per act.
#[derive(Clone, Copy, Debug)]
pub struct WorkPlan {
    /// Acts are this far apart, on average.
    pub act_every: Duration,
    /// A term's work ignores its end until it is killed.
    pub stubborn: u64,
    /// A term's work cannot be killed and goes on for up to `linger` after its end.
    pub unkillable: u64,
    /// See `unkillable`.
    pub linger: Duration,
    /// A term's work fails at once.
    pub fails: u64,
    /// The process is paused between question and act, for up to `pause_up_to`.
    pub pause_before_act: u64,
    /// See `pause_before_act`.
    pub pause_up_to: Duration,
    /// `on_term_end` takes up to this long.
    pub end_takes: Duration,
}

/// How wrong the clocks of machines run.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Machines were started up to this long before each other.
    pub offset: Duration,
    /// The boot clock runs up to this many parts in a million too fast or too slow.
    pub boot_ppm: u64,
    /// The same for the raw clock.
    pub raw_ppm: u64,
    /// The same for the server's clock.
    pub server_ppm: u64,
}

/// Everything that is fixed before a run begins.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Which store.
    pub kind: Kind,
    /// The lease length that candidates ask for.
    pub ttl: Duration,
    /// How many candidates start.
    pub candidates: usize,
    /// How long things may go wrong, in ttls.
    pub ttls: u32,
    /// The network of every candidate at first.
    pub weather: Weather,
    /// The work.
    pub work: WorkPlan,
    /// The clocks.
    pub clocks: Clocks,
    /// Never two leaders by true time.
    pub exclusion: bool,
    /// Tokens rise.
    pub tokens: bool,
    /// Where exclusion is not promised: the longest overlap, in ttls.
    pub overlap_ttls: f64,
    /// Candidates resign when their work fails.
    pub resign_on_failure: bool,
    /// How many machines the store has, where a majority of them decides.
    pub machines: usize,
    /// How far apart the clocks of two gateways are at most.
    pub gateway_skew: Duration,
}

impl Plan {
    /// Draws a plain run: a shipped store, a few candidates, a good network, clocks as most machines have them.
    #[must_use]
    pub fn plain(dice: &Random) -> Self {
        let kinds = [Kind::Memory, Kind::VersionedWithAge, Kind::VersionedWithoutAge, Kind::Ttl];
        let ttl = Duration::from_millis(2000 + dice.below(6000));
        let kind = kinds[pick(dice, kinds.len())];
        Self {
            kind,
            ttl,
            candidates: 2 + pick(dice, 3),
            ttls: 10,
            weather: Weather::calm(),
            work: WorkPlan {
                act_every: ttl / 8,
                stubborn: 100,
                unkillable: 0,
                linger: Duration::ZERO,
                fails: 0,
                pause_before_act: 0,
                pause_up_to: Duration::ZERO,
                end_takes: Duration::from_millis(20),
            },
            clocks: Clocks {
                offset: Duration::from_secs(1_000_000),
                boot_ppm: 500,
                raw_ppm: 100,
                server_ppm: 500,
            },
            exclusion: true,
            tokens: true,
            overlap_ttls: 0.0,
            resign_on_failure: false,
            machines: 1,
            gateway_skew: Duration::ZERO,
        }
    }

    /// Draws a plain run on a server that decides by itself.
    #[must_use]
    pub fn deciding(dice: &Random) -> Self {
        Self { kind: Kind::Memory, ..Self::plain(dice) }
    }

    /// Draws a run on a server that loses data: two may lead for up to `overlap_ttls`, and only the fence protects.
    #[must_use]
    pub fn losing(dice: &Random, overlap_ttls: f64) -> Self {
        Self { kind: Kind::Ledger, exclusion: false, overlap_ttls, ..Self::plain(dice) }
    }
}

/// Draws a clock rate within `limit` parts in a million, to either side.
pub(crate) fn spread(random: &Random, limit: u64) -> i64 {
    let drawn = random.below(2 * limit + 1);
    i64::try_from(drawn).unwrap_or(0) - i64::try_from(limit).unwrap_or(0)
}

/// Draws an index below `bound`.
#[must_use]
pub fn pick(dice: &Random, bound: usize) -> usize {
    usize::try_from(dice.below(bound as u64)).unwrap_or(0)
}

/// Draws from an independent sequence: the same seed and label always draw the same.
#[must_use]
pub fn derive(seed: u64, label: &str) -> u64 {
    let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
    for byte in label.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    Random::from_seed(hash).next_u64()
}
