//! Ends of terms, of electors and of calls.

use std::sync::Arc;
use std::time::Duration;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::plan::{Plan, pick};
use crate::process::Process;
use crate::server::Kind;
use crate::work::Work;
use crate::world::{Birth, World};

pub(super) const RELEASED_BEFORE_STOPPED: Scenario = Scenario {
    name: "released_before_stopped",
    story: "the record is freed while workers still run",
    about: &[fault::STUBBORN_WORK, "overrun", fault::RESIGN, fault::HANDOFF, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.work.stubborn = 300;
        plan.work.unkillable = 300;
        plan.work.linger = plan.ttl * 3 / 2;
        plan.work.end_takes = plan.ttl / 20;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 120), async |leader| match pick(world.dice(), 3) {
                0 => leader.resign(),
                1 => {
                    leader.stop();
                    world.start();
                }
                _ => {
                    if let Some(to) = world.follower() {
                        leader.hand_off(&to);
                    }
                }
            })
            .await;
        })
    },
};

pub(super) const OVERLAPPING_CALLBACKS: Scenario = Scenario {
    name: "overlapping_callbacks",
    story: "became(N+1) runs together with became(N)",
    about: &[fault::STUBBORN_WORK, "overrun", "term"],
    plan: |dice| {
        let mut plan = Plan { candidates: 1, ..Plan::plain(dice) };
        plan.work.unkillable = 600;
        plan.work.linger = plan.ttl * 2;
        plan.work.end_takes = plan.ttl / 10;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (5, 60), async |leader| match pick(world.dice(), 2) {
                0 => leader.link.cut_for(world.percent(20, 150)),
                _ => leader.resign(),
            })
            .await;
        })
    },
};

/// Slow messages, so that a bid can be met under way; a bid of many steps has to end in the same time.
fn slow_down(plan: &mut Plan) {
    let up_to = Duration::from_millis(if plan.kind == Kind::Ttl { 25 } else { 100 });
    plan.weather.request = (Duration::from_millis(1), up_to);
    plan.weather.reply = plan.weather.request;
}

/// After a bid was given up in good weather, its lease must not stay: nobody would renew or release it.
async fn expect_no_orphan(world: &World, process: &Arc<Process>, what: &'static str) {
    world.sleep(process.timing.call_timeout * 2 + Duration::from_millis(200)).await;
    let orphan = world
        .record()
        .and_then(|record| record.leader().cloned())
        .is_some_and(|holder| holder.candidate == process.name);
    if orphan {
        world.unexpected(what);
    }
}

pub(super) const STOP_DURING_ACQUIRE: Scenario = Scenario {
    name: "stop_during_acquire",
    story: "a stop races with a bid under way, and the lease is orphaned for a ttl",
    about: &[fault::STOP_IN_BID],
    plan: |dice| {
        let mut plan = Plan { candidates: 0, ..Plan::plain(dice) };
        slow_down(&mut plan);
        plan
    },
    script: |world| {
        Box::pin(async move {
            while !world.is_over() {
                let process = world.start();
                world.sleep(world.dice().up_to(Duration::from_millis(200))).await;
                if !process.leads() {
                    world.fault(process.who, fault::STOP_IN_BID);
                }
                // An error would mean that the task was lost: the check below sees what it left.
                drop(process.stop().await);
                expect_no_orphan(&world, &process, "a stop left a lease behind").await;
            }
        })
    },
};

pub(super) const DROPPED_CALL: Scenario = Scenario {
    name: "dropped_call",
    story: "a future is dropped in mid-flight and leaves an orphan lease",
    about: &[fault::CALL_DROPPED, "term"],
    plan: |dice| {
        let mut plan = Plan { candidates: 0, ..Plan::plain(dice) };
        slow_down(&mut plan);
        plan
    },
    script: |world| {
        Box::pin(async move {
            while !world.is_over() {
                let process = world.make(&Birth::default());
                let lead = process.elections.lead_within(process.election.clone(), world.percent(10, 100));
                let leadership = tokio::select! {
                    biased;
                    led = lead => led.ok().flatten(),
                    () = world.sleep(world.dice().up_to(Duration::from_millis(250))) => {
                        world.fault(process.who, fault::CALL_DROPPED);
                        None
                    }
                };
                if let Some(leadership) = leadership {
                    let work = Work::begin(&world, &process, leadership);
                    tokio::select! {
                        biased;
                        _ = work.run() => {}
                        () = world.sleep_percent(10, 100) => {}
                    }
                }
                expect_no_orphan(&world, &process, "a dropped call left a lease behind").await;
                process.retire();
            }
        })
    },
};
