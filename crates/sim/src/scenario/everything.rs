//! Everything at once.

use std::time::Duration;

use tenure_core::store::Action;

use super::Scenario;
use crate::fault;
use crate::network::Weather;
use crate::plan::{Plan, pick};
use crate::world::{Birth, World};

pub(super) const SEQUENCE_OF_ALL: Scenario = Scenario {
    name: "sequence_of_all",
    story: "a random mix of all of it, on a store that keeps its promises",
    about: &[
        fault::PAUSED,
        fault::SUSPENDED,
        fault::CRASH,
        fault::PARTITION,
        fault::REQUEST_LOST,
        fault::REPLY_LOST,
        fault::LATE,
        fault::DUPLICATE,
        fault::HANDOFF,
        fault::RESIGN,
        fault::ELECTION_PAUSED,
        "overrun",
        "takeover",
    ],
    plan: |dice| {
        let mut plan = Plan { candidates: 4, ttls: 14, ..Plan::plain(dice) };
        let up_to = |limit| dice.below(limit);
        plan.weather = Weather {
            request: (Duration::from_millis(1), plan.ttl / 50),
            reply: (Duration::from_millis(1), plan.ttl / 50),
            lose_request: up_to(80),
            lose_reply: up_to(120),
            late: up_to(80),
            late_up_to: plan.ttl * 2,
            duplicate: up_to(150),
            error: up_to(60),
            pause_before_send: up_to(15),
            pause_at_reply: up_to(15),
            pause_up_to: plan.ttl * 2,
            hang_for_ever: up_to(300),
            only: None,
        };
        plan.work.stubborn = 200;
        plan.work.unkillable = 100;
        plan.work.linger = plan.ttl;
        plan.work.fails = 50;
        plan.work.pause_before_act = 10;
        plan.work.pause_up_to = plan.ttl * 2;
        plan.clocks.boot_ppm = up_to(80_000);
        plan.clocks.server_ppm = up_to(80_000);
        plan
    },
    script: |world| {
        Box::pin(async move {
            while !world.is_over() {
                world.sleep_percent(5, 60).await;
                misfortune(&world).await;
            }
        })
    },
};

async fn misfortune(world: &World) {
    let Some(victim) = world.leader().or_else(|| world.follower()) else { return };
    let d = world.percent(10, 200);
    match pick(world.dice(), 12) {
        0 => victim.pause(d),
        1 => victim.suspend(d),
        2 => victim.link.cut_for(d),
        3 => {
            victim.crash();
            world.start();
        }
        4 => {
            victim.crash();
            let again = world.start_as(&Birth { twin_of: Some(victim), ..Birth::default() });
            world.fault(again.who, fault::RESTART);
        }
        5 => victim.resign(),
        6 => {
            if let Some(to) = world.follower() {
                victim.hand_off(&to);
            }
        }
        7 => {
            victim.stop();
            world.start();
        }
        8 => world.pause_election(world.percent(10, 60)).await,
        9 => {
            if let Some(record) = world.record() {
                world.request(record.token, Action::Resign).await;
            }
        }
        10 => victim.machine().step_wall(3600),
        _ => {
            if let Some(follower) = world.follower() {
                follower.pause(d);
            }
        }
    }
}
