//! Messages that do not arrive, and stores that do not answer.

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::network::Weather;
use crate::plan::{Plan, pick};
use crate::trace::Verb;

pub(super) const BLACK_HOLED_STORE: Scenario = Scenario {
    name: "black_holed_store",
    story: "the leader's connection is silently dropped; its flag stays true long after a follower took over",
    about: &[fault::PARTITION, fault::REQUEST_LOST, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather.hang_for_ever = if pick(dice, 2) == 0 { 500 } else { 1000 };
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 200), async |leader| {
                let d = world.percent(50, 300);
                if pick(world.dice(), 3) == 0 {
                    world.processes().iter().for_each(|process| process.link.cut_for(d));
                } else {
                    leader.link.cut_for(d);
                }
            })
            .await;
        })
    },
};

pub(super) const ONE_ERROR_LEADERLESS: Scenario = Scenario {
    name: "one_error_leaderless",
    story: "one renewal error drops the lease's id, and the own record blocks everybody for a ttl",
    about: &[fault::ERROR],
    plan: Plan::plain,
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 100), async |leader| {
                let Some(before) = leader.leadership().map(|leadership| leadership.token()) else { return };
                let failing = Weather { error: 1000, only: Some(Verb::Renew), ..Weather::calm() };
                leader.link.set_weather(failing);
                // Shorter than the wait before the next try: one error at most.
                world.sleep(leader.timing.retry_interval * 9 / 10).await;
                leader.link.set_weather(Weather::calm());
                world.sleep_percent(50, 60).await;
                let after = leader.leadership().map(|leadership| leadership.token());
                if after != Some(before) || !leader.leads() {
                    world.unexpected("one renewal error has cost a term");
                }
            })
            .await;
        })
    },
};

pub(super) const LOST_ACQUIRE_REPLY: Scenario = Scenario {
    name: "lost_acquire_reply",
    story: "the answer to a winning bid is lost, and the winner waits out its own ghost",
    about: &[fault::REPLY_LOST, fault::FOUND_BY_RETRY],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather = Weather {
            only: Some(Verb::Acquire),
            lose_reply: 400,
            late_up_to: plan.ttl,
            hang_for_ever: 100,
            ..Weather::calm()
        };
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 150), async |leader| leader.resign()).await;
        })
    },
};

pub(super) const LOST_RENEW_REPLY: Scenario = Scenario {
    name: "lost_renew_reply",
    story: "the answer to a renewal is lost, and the compare mark is out of step for ever",
    about: &[fault::REPLY_LOST],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather = Weather {
            only: Some(Verb::Renew),
            lose_reply: 400,
            lose_request: 100,
            late_up_to: plan.ttl,
            hang_for_ever: 100,
            ..Weather::calm()
        };
        plan
    },
    script: |world| Box::pin(async move { world.sleep(world.time_for_faults()).await }),
};

pub(super) const HANG_ON_RELEASE: Scenario = Scenario {
    name: "hang_on_release",
    story: "the release hangs, and the old leader goes on meanwhile",
    about: &[fault::REQUEST_LOST, fault::REPLY_LOST, fault::RESIGN, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather = Weather {
            only: Some(Verb::Release),
            lose_request: 500,
            lose_reply: 300,
            late: 300,
            late_up_to: plan.ttl * 2,
            hang_for_ever: 500,
            ..Weather::calm()
        };
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (30, 150), async |leader| {
                if pick(world.dice(), 4) == 0 {
                    leader.stop();
                    world.start();
                } else {
                    leader.resign();
                }
            })
            .await;
        })
    },
};
