//! What goes wrong: the mistakes and misfortunes of others, replayed. One name per scenario, as BEHAVIOURS C has them.

mod anchors;
mod clocks;
mod data_loss;
mod ends;
mod everything;
mod handoff;
mod identity;
mod late;
mod losses;
mod majorities;
mod operators;
mod pauses;
mod sessions;
mod takeover;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tenure_core::Random;

use crate::plan::Plan;
use crate::process::Process;
use crate::world::World;

/// A scenario's course; it ends with the time for faults at the latest.
pub type Script = Pin<Box<dyn Future<Output = ()>>>;

/// One scenario.
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What went wrong elsewhere, or what is tried here.
    pub story: &'static str,
    /// What it is about: over a batch of seeds each of these must have happened.
    pub about: &'static [&'static str],
    /// Draws what a run is made of.
    pub plan: fn(&Random) -> Plan,
    /// Makes things go wrong.
    pub script: fn(World) -> Script,
}

/// Every scenario.
pub const ALL: &[&Scenario] = &[
    &losses::BLACK_HOLED_STORE,
    &pauses::PAUSED_PAST_TTL,
    &losses::ONE_ERROR_LEADERLESS,
    &losses::LOST_ACQUIRE_REPLY,
    &losses::LOST_RENEW_REPLY,
    &identity::RESTART_SAME_IDENTITY,
    &identity::TWO_WITH_ONE_IDENTITY,
    &ends::RELEASED_BEFORE_STOPPED,
    &losses::HANG_ON_RELEASE,
    &anchors::REPLY_ANCHORED_DEADLINE,
    &clocks::WALL_CLOCK_STEP,
    &clocks::SKEWED_WRITER_CLOCK,
    &takeover::TAKEOVER_WITHOUT_CAS,
    &takeover::OWN_TTL_FOR_THEIR_LEASE,
    &late::STALE_REPLY_NEW_TERM,
    &ends::OVERLAPPING_CALLBACKS,
    &ends::STOP_DURING_ACQUIRE,
    &takeover::ANNOUNCED_BEFORE_COMMIT,
    &pauses::CAMPAIGN_AFTER_OWN_EXPIRY,
    &data_loss::FAILOVER_LOSES_LEASE,
    &data_loss::STUCK_STORE_WAKES,
    &sessions::HALF_OPEN_SESSION,
    &sessions::POOLED_CONNECTION,
    &takeover::HERD,
    &handoff::FLAPPING_FAILBACK,
    &handoff::STALLED_HANDOFF,
    &anchors::RETRY_ANCHORED_DEADLINE,
    &late::LATE_ACQUIRE_AFTER_TERM,
    &late::LATE_RELEASE_NEW_TERM,
    &late::LATE_RENEW_AFTER_GIVING_UP,
    &ends::DROPPED_CALL,
    &identity::CLONED_PROCESS,
    &identity::CLONED_STATE_DIR,
    &pauses::STOPPED_IN_CRITICAL_SECTION,
    &clocks::SLEWED_CLOCK,
    &clocks::STORE_CLOCK_STEP,
    &clocks::GUEST_CLOCK_STANDS_STILL,
    &data_loss::STORE_RESTARTED_EMPTY,
    &data_loss::EVICTED_LEASE,
    &data_loss::RENEWALS_NOT_REPLICATED,
    &data_loss::OLD_MASTER_WITH_LEADER,
    &data_loss::SKEWED_FAILOVER_TOKEN,
    &majorities::REDLOCK_TOKEN_MAJORITIES,
    &majorities::REDLOCK_SPLIT_VOTES,
    &takeover::TWO_GATEWAYS_TWO_CLOCKS,
    &takeover::SAME_ETAG_TWICE,
    &operators::REQUEST_KEEPS_DEAD_LEADER,
    &operators::STALE_REQUEST_NEXT_TERM,
    &operators::FORGOTTEN_PAUSE,
    &sessions::GHOST_KEY_SHARED_LEASE,
    &sessions::SESSION_ALIVE_KEY_GONE,
    &sessions::HANDOFF_OUT_OF_ORDER,
    &operators::FORCE_RELEASE,
    &everything::SEQUENCE_OF_ALL,
];

/// Finds a scenario by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().find(|scenario| scenario.name == name).copied()
}

/// Waits a while, finds the leader and does something to it, again and again.
async fn with_each_leader(world: &World, percent: (u32, u32), mut act: impl AsyncFnMut(Arc<Process>)) {
    while !world.is_over() {
        world.sleep_percent(percent.0, percent.1).await;
        if let Some(leader) = world.leader_within(world.ttl() * 2).await {
            act(leader).await;
        }
    }
}
