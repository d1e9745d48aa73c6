//! Processes and machines that stand still.

use std::time::Duration;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::plan::{Plan, pick};
use crate::server::Kind;
use crate::trace::Verb;

pub(super) const PAUSED_PAST_TTL: Scenario = Scenario {
    name: "paused_past_ttl",
    story: "SIGSTOP, a garbage collection or a suspend: the leader's code runs on after its lease",
    about: &[
        fault::PAUSED_PAST_TTL,
        fault::SUSPENDED,
        fault::PAUSED_BEFORE_ACT,
        fault::PAUSED_BEFORE_SEND,
        "takeover",
    ],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.work.pause_before_act = 20;
        plan.work.pause_up_to = plan.ttl * 2;
        plan.weather.pause_before_send = 20;
        plan.weather.pause_at_reply = 20;
        plan.weather.pause_up_to = plan.ttl * 2;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 150), async |leader| {
                let d = world.percent(20, 300);
                if pick(world.dice(), 3) == 0 { leader.suspend(d) } else { leader.pause(d) }
            })
            .await;
        })
    },
};

pub(super) const CAMPAIGN_AFTER_OWN_EXPIRY: Scenario = Scenario {
    name: "campaign_after_own_expiry",
    story: "a candidate hears that it was elected after its own lease has expired in the queue",
    about: &[fault::LATE_WIN, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather.only = Some(Verb::Acquire);
        plan.weather.reply = (Duration::from_millis(1), plan.ttl * 3 / 2);
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 150), async |leader| leader.resign()).await;
        })
    },
};

pub(super) const STOPPED_IN_CRITICAL_SECTION: Scenario = Scenario {
    name: "stopped_in_critical_section",
    story: "a frozen follower inside a shared lock stops everybody",
    about: &[fault::STOPPED_INSIDE, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        let kinds = [Kind::VersionedWithAge, Kind::VersionedWithoutAge, Kind::Ttl];
        plan.kind = kinds[pick(dice, 3)];
        plan.candidates = 4;
        plan.weather.pause_before_send = 30;
        plan.weather.pause_up_to = plan.ttl * 3;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (100, 200), async |leader| leader.resign()).await;
        })
    },
};
