//! Operators' requests, pauses and mistakes.

use tenure_core::store::{Action, Requested};

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::ledger::Pages;
use crate::plan::{Plan, pick};
use crate::trace::Who;

pub(super) const REQUEST_KEEPS_DEAD_LEADER: Scenario = Scenario {
    name: "request_keeps_dead_leader",
    story: "requests to a dead leader are writes, and keep its lease alive for ever",
    about: &[fault::REQUEST_TO_DEAD, fault::CRASH, "takeover"],
    plan: Plan::plain,
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (30, 120), async |leader| {
                let Some(leadership) = leader.leadership() else { return };
                let token = leadership.token();
                drop(leadership);
                leader.crash();
                world.start();
                let crashed = world.now();
                loop {
                    world.sleep_percent(10, 30).await;
                    world.request(token, Action::Resign).await;
                    world.fault(Who::WORLD, fault::REQUEST_TO_DEAD);
                    if world.leader().is_some() || world.is_over() {
                        return;
                    }
                    // The observer's stretch, the clocks' drift, and a slow answer.
                    if world.now() > crashed + world.ttl() * 3 / 2 {
                        world.unexpected("requests have kept a dead leader's lease alive");
                        return;
                    }
                }
            })
            .await;
        })
    },
};

pub(super) const STALE_REQUEST_NEXT_TERM: Scenario = Scenario {
    name: "stale_request_next_term",
    story: "a request for term 5 hits terms 6, 7, 8 …: nobody leads",
    about: &[fault::STALE_REQUEST, fault::REQUEST, "takeover"],
    plan: Plan::plain,
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 100), async |leader| {
                let Some(leadership) = leader.leadership() else { return };
                let token = leadership.token();
                drop(leadership);
                let follower = world.follower().map(|follower| follower.name.clone());
                let action = match (pick(world.dice(), 2), follower) {
                    (0, Some(to)) => Action::HandOff { to },
                    _ => Action::Resign,
                };
                match pick(world.dice(), 3) {
                    0 => leader.resign(),
                    1 => leader.pause(world.percent(50, 150)),
                    _ => {}
                }
                world.sleep_percent(0, 100).await;
                match world.request(token, action).await {
                    Some(Requested::Accepted(_)) => world.fault(Who::WORLD, fault::REQUEST),
                    Some(Requested::WrongTerm(_)) => world.fault(Who::WORLD, fault::STALE_REQUEST),
                    _ => {}
                }
            })
            .await;
        })
    },
};

pub(super) const FORGOTTEN_PAUSE: Scenario = Scenario {
    name: "forgotten_pause",
    story: "an election is paused and never resumed: leaderless for ever",
    about: &[fault::ELECTION_PAUSED, fault::CRASH, "takeover"],
    plan: Plan::plain,
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 150), async |leader| {
                let d = world.percent(50, 250).min(world.time_for_faults());
                world.pause_election(d).await;
                let until = world.now() + d;
                leader.crash();
                world.start();
                if world.leader_within(d.mul_f64(0.85)).await.is_some() {
                    world.unexpected("somebody was elected in a paused election");
                }
                world.sleep(until.saturating_sub(world.now())).await;
                if !world.is_over()
                    && world.leader_within(world.ttl() * 2).await.is_none()
                    && !world.is_over()
                {
                    world.unexpected("nobody was elected after a pause");
                }
            })
            .await;
        })
    },
};

pub(super) const FORCE_RELEASE: Scenario = Scenario {
    name: "force_release",
    story: "an operator makes two leaders by command",
    about: &[fault::FORCED, "takeover"],
    plan: |dice| Plan::losing(dice, 1.0),
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 200), async |_| {
                if let Some(ledger) = world.ledger(0) {
                    ledger.put_back(Pages::new());
                    world.fault(Who::WORLD, fault::FORCED);
                    world.sleep_percent(0, 20).await;
                    if world.processes().len() < 12 {
                        world.start();
                    }
                }
            })
            .await;
        })
    },
};
