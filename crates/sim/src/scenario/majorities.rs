//! Stores in which a majority of machines decides.

use std::time::Duration;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::plan::{Plan, pick};
use crate::server::Kind;
use crate::trace::Who;
use crate::world::World;

/// Takes some machines away from everybody, so that the next term needs the others.
fn take_away(world: &World, machines: &[usize], d: Duration) {
    for process in world.processes() {
        for machine in machines {
            process.link.cut_from(*machine, d);
        }
    }
    world.fault(Who::WORLD, fault::MACHINE_AWAY);
}

pub(super) const REDLOCK_TOKEN_MAJORITIES: Scenario = Scenario {
    name: "redlock_token_majorities",
    story: "two majorities, two counters: the next term's token is below the last one's",
    about: &[fault::OTHER_MAJORITY, fault::MACHINE_AWAY, fault::DATA_LOST, "takeover"],
    // Shorter than others: every call is five.
    plan: |dice| Plan { kind: Kind::Redlock, machines: 5, candidates: 3, ttls: 7, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            let mut forgot = Duration::ZERO;
            with_each_leader(&world, (20, 80), async |leader| {
                let Some(machines) = world.machines() else { return };
                // One at a time loses its memory: what a majority may lose is not promised by anybody.
                if world.now() > forgot + world.ttl() * 2 {
                    forgot = world.now();
                    machines.restart_empty(pick(world.dice(), machines.count()));
                    world.fault(Who::WORLD, fault::DATA_LOST);
                }
                if pick(world.dice(), 2) == 0 {
                    leader.crash();
                    world.start();
                } else {
                    leader.resign();
                }
                // All but one of those that gave this term: the next one needs the others.
                let mut away = machines.last_majority();
                away.remove(pick(world.dice(), away.len().max(1)));
                take_away(&world, &away, world.percent(20, 150));
            })
            .await;
        })
    },
};

pub(super) const REDLOCK_SPLIT_VOTES: Scenario = Scenario {
    name: "redlock_split_votes",
    story: "everybody gets some votes and nobody a majority, or half of them is taken for one",
    about: &[fault::VOTES_SPLIT, "takeover"],
    plan: |dice| {
        let machines = if pick(dice, 2) == 0 { 4 } else { 5 };
        let mut plan = Plan { kind: Kind::Redlock, machines, candidates: 4, ttls: 7, ..Plan::plain(dice) };
        // A bid takes four of these: slow enough to meet others, quick enough for some tries in a ttl.
        plan.weather.request = (Duration::from_millis(1), plan.ttl / 40);
        plan.weather.reply = plan.weather.request;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 100), async |leader| {
                leader.crash();
                world.start();
                // The lease has to run out; after that it is a matter of a few votes.
                let lost = world.leader_within(world.ttl() * 2).await.is_none();
                if lost && !world.is_over() {
                    world.unexpected("votes were split again and again");
                }
            })
            .await;
        })
    },
};
