//! Names that are used twice, and processes that are copied.

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::ledger::Wrong;
use crate::plan::{Plan, pick};
use crate::world::Birth;

pub(super) const RESTART_SAME_IDENTITY: Scenario = Scenario {
    name: "restart_same_identity",
    story: "a restarted process finds its own name and leads without renewing",
    about: &[fault::RESTART, fault::CRASH, "takeover"],
    plan: Plan::plain,
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 150), async |leader| {
                leader.crash();
                world.sleep_percent(0, 20).await;
                let twin_of = Some(leader);
                let again = world.start_as(&Birth { twin_of, ..Birth::default() });
                world.fault(again.who, fault::RESTART);
            })
            .await;
        })
    },
};

pub(super) const TWO_WITH_ONE_IDENTITY: Scenario = Scenario {
    name: "two_with_one_identity",
    story: "two processes with one name both renew one record",
    about: &[fault::SAME_NAME, "takeover"],
    plan: |dice| Plan { candidates: 2, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            for original in world.processes() {
                let twin = world.start_as(&Birth { twin_of: Some(original), ..Birth::default() });
                world.fault(twin.who, fault::SAME_NAME);
            }
            with_each_leader(&world, (30, 120), async |leader| match pick(world.dice(), 3) {
                0 => leader.pause(world.percent(20, 200)),
                1 => leader.link.cut_for(world.percent(20, 200)),
                _ => leader.resign(),
            })
            .await;
        })
    },
};

pub(super) const CLONED_PROCESS: Scenario = Scenario {
    name: "cloned_process",
    story: "a snapshot is restored twice: both renew one bid",
    about: &[fault::CLONED, "clone noticed"],
    // Until the next renewal both lead one term with one token: neither clocks nor the fence can tell them apart.
    plan: |dice| Plan { exclusion: false, tokens: false, overlap_ttls: 1.0, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            if world.wrong() == Some(Wrong::ClonesDrawAlike) {
                // Copied before the first bid, randomness and all.
                let twin_of = world.processes().into_iter().next();
                let clone = world.start_as(&Birth { twin_of, ..Birth::default() });
                world.fault(clone.who, fault::CLONED);
                return;
            }
            with_each_leader(&world, (50, 150), async |leader| {
                if world.processes().len() > 8 {
                    return;
                }
                let Some(record) = world.record() else { return };
                let Some(holder) = record.leader().filter(|holder| holder.candidate == leader.name) else {
                    return;
                };
                let birth = Birth { clone_of: Some(holder.bid), twin_of: Some(leader), ..Birth::default() };
                let clone = world.start_as(&birth);
                world.fault(clone.who, fault::CLONED);
            })
            .await;
        })
    },
};
