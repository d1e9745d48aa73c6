//! Known mistakes, and which invariant finds each of them.

use tenure_core::flaw::Flaw;

use crate::server::Kind;
use crate::wrong::Wrong;

/// A mistake, where it is made, and who must find it.
#[derive(Debug)]
pub struct FlawCase {
    /// Its name.
    pub name: &'static str,
    /// A mistake in the elector or an adaptor.
    pub core: Option<Flaw>,
    /// A mistake in a store or in the resource.
    pub wrong: Option<Wrong>,
    /// The store that can have the mistake, where it is not every one.
    pub kind: Option<Kind>,
    /// The scenario in which it shows.
    pub scenario: &'static str,
    /// The invariant that finds it.
    pub invariant: &'static str,
}

const fn elector(
    name: &'static str,
    flaw: Flaw,
    scenario: &'static str,
    invariant: &'static str,
) -> FlawCase {
    FlawCase { name, core: Some(flaw), wrong: None, kind: None, scenario, invariant }
}

const fn store(
    name: &'static str,
    wrong: Wrong,
    scenario: &'static str,
    invariant: &'static str,
) -> FlawCase {
    FlawCase { name, core: None, wrong: Some(wrong), kind: Some(Kind::Ledger), scenario, invariant }
}

/// A bid that a wrong store grants although it must not, and an elector that does not notice.
const OLD_TOKEN_LED: FlawCase = FlawCase {
    core: Some(Flaw::OldTokenLed),
    ..store("old_token_led", Wrong::IgnoresFloor, "evicted_lease", "tokens_in_order")
};

/// A conditional write that does not look at its condition; only stores of bytes have those.
const TAKEOVER_WITHOUT_CAS: FlawCase = FlawCase {
    kind: Some(Kind::VersionedWithoutAge),
    ..store("takeover_without_cas", Wrong::IgnoresCondition, "takeover_without_cas", "one_leader")
};

/// An observer that counts from its own send; only observers time records.
const OBSERVER_ANCHORED_AT_SEND: FlawCase = FlawCase {
    kind: Some(Kind::VersionedWithoutAge),
    ..elector(
        "observer_anchored_at_send",
        Flaw::ObserverAnchoredAtSend,
        "late_acquire_after_term",
        "one_leader",
    )
};

/// A mistake of a store that only one scenario has.
const fn model(
    name: &'static str,
    wrong: Wrong,
    scenario: &'static str,
    invariant: &'static str,
) -> FlawCase {
    FlawCase { name, core: None, wrong: Some(wrong), kind: None, scenario, invariant }
}

/// Every flaw.
pub const ALL: &[FlawCase] = &[
    elector("flag_instead_of_clock", Flaw::FlagInsteadOfClock, "paused_past_ttl", "one_leader"),
    TAKEOVER_WITHOUT_CAS,
    OBSERVER_ANCHORED_AT_SEND,
    store("own_ttl_for_theirs", Wrong::OwnTtlForTheirs, "own_ttl_for_their_lease", "one_leader"),
    elector("lost_given_grace", Flaw::LostGivenGrace, "force_release", "no_old_work"),
    store("ignores_nonce", Wrong::IgnoresNonce, "cloned_process", "overlap_bounded"),
    FlawCase {
        kind: None,
        ..store("clones_draw_alike", Wrong::ClonesDrawAlike, "cloned_process", "overlap_bounded")
    },
    FlawCase { kind: None, ..store("no_fence", Wrong::NoFence, "guest_clock_stands_still", "fenced_writes") },
    store("forgets_tokens", Wrong::ForgetsTokens, "stop_during_acquire", "tokens_in_order"),
    store("ignores_floor", Wrong::IgnoresFloor, "evicted_lease", "tokens_in_order"),
    OLD_TOKEN_LED,
    elector(
        "reply_anchored_deadline",
        Flaw::ReplyAnchoredDeadline,
        "reply_anchored_deadline",
        "deadline_within_trust",
    ),
    elector(
        "retry_anchored_deadline",
        Flaw::RetryAnchoredDeadline,
        "retry_anchored_deadline",
        "deadline_within_trust",
    ),
    elector(
        "late_acquire_led_on",
        Flaw::LateAcquireLedOn,
        "campaign_after_own_expiry",
        "deadline_within_trust",
    ),
    elector(
        "permission_without_latch",
        Flaw::PermissionWithoutLatch,
        "late_renew_after_giving_up",
        "permission_once",
    ),
    elector(
        "release_before_drain",
        Flaw::ReleaseBeforeDrain,
        "released_before_stopped",
        "release_after_drain",
    ),
    elector(
        "late_answer_releases",
        Flaw::LateAnswerReleases,
        "retry_anchored_deadline",
        "release_after_drain",
    ),
    elector("renewal_storm", Flaw::RenewalStorm, "black_holed_store", "few_calls"),
    elector("ghost_led", Flaw::GhostLed, "hang_on_release", "spent_bid"),
    store("grants_spent_bids", Wrong::GrantsSpentBids, "late_acquire_after_term", "spent_bid"),
    store("request_renews", Wrong::RequestRenews, "request_keeps_dead_leader", "living_holder"),
    store(
        "request_to_any_term",
        Wrong::RequestToAnyTerm,
        "stale_request_next_term",
        "requests_answered_once",
    ),
    FlawCase {
        kind: None,
        ..store("locks_outside", Wrong::LocksOutside, "stopped_in_critical_section", "nobody_blocks")
    },
    elector("merged_events", Flaw::MergedEvents, "released_before_stopped", "events_in_order"),
    elector("stands_beside_overrun", Flaw::StandsBesideOverrun, "overlapping_callbacks", "callbacks_apart"),
    store(
        "answers_before_commit",
        Wrong::AnswersBeforeCommit,
        "announced_before_commit",
        "elected_after_grant",
    ),
    store("ignores_reservation", Wrong::IgnoresReservation, "stalled_handoff", "handoff_resolves"),
    store("reserves_for_ever", Wrong::ReservesForEver, "stalled_handoff", "handoff_resolves"),
    elector("gives_up_on_error", Flaw::GivesUpOnError, "announced_before_commit", "heals"),
    model("trusts_open_session", Wrong::TrustsOpenSession, "half_open_session", "one_leader"),
    model("lock_of_connection", Wrong::LockOfConnection, "pooled_connection", "one_leader"),
    elector("identity_without_proof", Flaw::IdentityWithoutProof, "cloned_state_dir", "one_leader"),
    model("token_of_each_machine", Wrong::TokenOfEachMachine, "redlock_token_majorities", "tokens_in_order"),
    model("half_is_enough", Wrong::HalfIsEnough, "redlock_split_votes", "one_leader"),
    model("keeps_lost_votes", Wrong::KeepsLostVotes, "redlock_split_votes", "expectations"),
    model("trusts_two_clocks", Wrong::TrustsTwoClocks, "two_gateways_two_clocks", "one_leader"),
    elector("same_bytes_twice", Flaw::SameBytesTwice, "same_etag_twice", "one_leader"),
    model("leaves_ghosts", Wrong::LeavesGhosts, "ghost_key_shared_lease", "heals"),
    model("renew_is_keep_alive", Wrong::RenewIsKeepAlive, "session_alive_key_gone", "overlap_bounded"),
    model("jumps_the_queue", Wrong::JumpsTheQueue, "handoff_out_of_order", "one_leader"),
    elector("stop_forgets_bids", Flaw::StopForgetsBids, "stop_during_acquire", "expectations"),
];

impl FlawCase {
    /// Returns the same circumstances without the mistake.
    #[must_use]
    pub fn without_mistake(&self) -> Self {
        Self { core: None, wrong: None, ..*self }
    }
}

/// Finds a flaw by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static FlawCase> {
    ALL.iter().find(|flaw| flaw.name == name)
}
