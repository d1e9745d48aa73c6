//! Terms that are given to somebody.

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::plan::{Plan, pick};

pub(super) const FLAPPING_FAILBACK: Scenario = Scenario {
    name: "flapping_failback",
    story: "a preferred candidate gets every term and gives every term back",
    about: &[fault::HANDOFF, fault::WORK_FAILED, "flapping", "takeover"],
    plan: |dice| {
        let mut plan = Plan { candidates: 3, resign_on_failure: true, ..Plan::plain(dice) };
        plan.work.fails = 300;
        plan
    },
    script: |world| {
        Box::pin(async move {
            let Some(preferred) = world.processes().into_iter().next() else { return };
            with_each_leader(&world, (2, 30), async |leader| {
                if leader.who == preferred.who {
                    leader.resign();
                } else {
                    leader.hand_off(&preferred);
                }
            })
            .await;
        })
    },
};

pub(super) const STALLED_HANDOFF: Scenario = Scenario {
    name: "stalled_handoff",
    story: "the successor dies during the handoff, and nobody leads",
    about: &[fault::HANDOFF, fault::SUCCESSOR_DIED, "takeover"],
    plan: |dice| Plan { candidates: 4, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (30, 120), async |leader| {
                let Some(successor) = world.follower() else { return };
                leader.hand_off(&successor);
                world.sleep_percent(0, 10).await;
                match pick(world.dice(), 4) {
                    0 => {
                        successor.crash();
                        world.fault(successor.who, fault::SUCCESSOR_DIED);
                        world.start();
                    }
                    1 => successor.pause(world.percent(50, 200)),
                    2 => successor.link.cut_for(world.percent(50, 200)),
                    _ => {}
                }
            })
            .await;
        })
    },
};
