//! Writes and answers that arrive in a later term.

use std::time::Duration;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::network::Weather;
use crate::plan::{Plan, pick};
use crate::process::Process;
use crate::server::Kind;
use crate::trace::Verb;
use crate::world::World;
use std::sync::Arc;
use tenure_core::Random;

fn late(dice: &Random, verb: Verb) -> Plan {
    // Both decide by conditions alone, one in the server and one in each process, in several steps.
    let kind = if pick(dice, 2) == 0 { Kind::Memory } else { Kind::Ttl };
    let mut plan = Plan { kind, ..Plan::plain(dice) };
    plan.weather = Weather {
        only: Some(verb),
        late: 400,
        late_up_to: plan.ttl * 3,
        duplicate: 300,
        lose_reply: 100,
        ..Weather::calm()
    };
    plan
}

/// Ends a term in one of the ways in which something of it can still be under way.
fn end_somehow(world: &World, leader: &Arc<Process>) {
    match pick(world.dice(), 4) {
        0 => leader.pause(world.percent(20, 150)),
        1 => leader.link.cut_for(world.percent(20, 150)),
        2 => {
            leader.stop();
            world.start();
        }
        _ => leader.resign(),
    }
}

pub(super) const STALE_REPLY_NEW_TERM: Scenario = Scenario {
    name: "stale_reply_new_term",
    story: "the slow answer to a renewal of term N ends term N+1",
    about: &[fault::STALE_ANSWER, "takeover"],
    plan: |dice| {
        let mut plan = Plan { candidates: 2, ..Plan::plain(dice) };
        plan.weather.only = Some(Verb::Renew);
        plan.weather.reply = (Duration::from_millis(1), plan.ttl * 3 / 2);
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 80), async |leader| leader.resign()).await;
        })
    },
};

pub(super) const LATE_ACQUIRE_AFTER_TERM: Scenario = Scenario {
    name: "late_acquire_after_term",
    story: "a bid that was held back lands after its term, or in another one's",
    about: &[fault::LATE, fault::DUPLICATE, fault::LATE_WRITE, "takeover"],
    plan: |dice| late(dice, Verb::Acquire),
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (10, 80), async |leader| end_somehow(&world, &leader)).await;
        })
    },
};

pub(super) const LATE_RELEASE_NEW_TERM: Scenario = Scenario {
    name: "late_release_new_term",
    story: "a release that was held back lands in a new term of the same candidate, or of another",
    about: &[fault::LATE, fault::DUPLICATE, fault::LATE_WRITE, "takeover"],
    plan: |dice| Plan { candidates: 2, ..late(dice, Verb::Release) },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (10, 80), async |leader| end_somehow(&world, &leader)).await;
        })
    },
};

pub(super) const LATE_RENEW_AFTER_GIVING_UP: Scenario = Scenario {
    name: "late_renew_after_giving_up",
    story: "a renewal that was held back lands after its leader gave up",
    about: &[fault::LATE, fault::DUPLICATE, fault::LATE_WRITE, "takeover"],
    plan: |dice| late(dice, Verb::Renew),
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (10, 80), async |leader| end_somehow(&world, &leader)).await;
        })
    },
};
