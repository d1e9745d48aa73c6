//! Many who want the same thing at once.

use std::time::Duration;

use tenure_core::store::Action;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::network::Weather;
use crate::plan::{Plan, pick};
use crate::server::Kind;
use crate::trace::Verb;
use crate::world::Birth;

pub(super) const TAKEOVER_WITHOUT_CAS: Scenario = Scenario {
    name: "takeover_without_cas",
    story: "renewal or takeover is not conditional: two winners",
    about: &[fault::CRASH, "takeover", "bid refused"],
    plan: |dice| {
        let kinds = [Kind::VersionedWithAge, Kind::VersionedWithoutAge, Kind::Ttl];
        let mut plan = Plan { kind: kinds[pick(dice, 3)], candidates: 5, ..Plan::plain(dice) };
        plan.weather.request = (Duration::from_millis(1), Duration::from_millis(150));
        plan.weather.reply = plan.weather.request;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 150), async |leader| {
                if pick(world.dice(), 2) == 0 {
                    leader.crash();
                    world.start();
                } else {
                    leader.resign();
                }
            })
            .await;
        })
    },
};

pub(super) const OWN_TTL_FOR_THEIR_LEASE: Scenario = Scenario {
    name: "own_ttl_for_their_lease",
    story: "a follower judges another's lease by its own, shorter ttl",
    about: &[fault::OTHER_TTL, fault::PARTITION, "takeover"],
    plan: |dice| Plan { candidates: 1, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            for _ in 0..3 {
                let ttl = (world.ttl() / 4 + world.percent(0, 40)).max(Duration::from_millis(600));
                world.start_as(&Birth { ttl: Some(ttl), ..Birth::default() });
            }
            with_each_leader(&world, (50, 200), async |leader| match pick(world.dice(), 3) {
                0 => leader.link.cut_for(world.percent(50, 200)),
                1 => leader.resign(),
                _ => leader.pause(world.percent(20, 150)),
            })
            .await;
        })
    },
};

pub(super) const ANNOUNCED_BEFORE_COMMIT: Scenario = Scenario {
    name: "announced_before_commit",
    story: "the callback runs before the write has succeeded",
    about: &[fault::REQUEST_LOST, fault::ERROR, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.weather = Weather {
            only: Some(Verb::Acquire),
            lose_request: 300,
            error: 200,
            late: 100,
            late_up_to: plan.ttl,
            ..Weather::calm()
        };
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 100), async |leader| leader.resign()).await;
        })
    },
};

pub(super) const HERD: Scenario = Scenario {
    name: "herd",
    story: "a thousand followers wake at once",
    about: &["takeover", "bid refused"],
    plan: |dice| Plan { candidates: 0, ttls: 4, ..Plan::deciding(dice) },
    script: |world| {
        Box::pin(async move {
            for _ in 0..1000 {
                world.start();
            }
            with_each_leader(&world, (50, 100), async |leader| match pick(world.dice(), 2) {
                0 => leader.crash(),
                _ => leader.resign(),
            })
            .await;
        })
    },
};

pub(super) const SAME_ETAG_TWICE: Scenario = Scenario {
    name: "same_etag_twice",
    story: "revisions are content hashes: what is written and taken back has the same revision again",
    about: &[fault::ELECTION_PAUSED, fault::REQUEST, "takeover"],
    plan: |dice| {
        let mut plan = Plan { kind: Kind::HashRevisions, ..Plan::plain(dice) };
        plan.weather.late = 100;
        plan.weather.late_up_to = plan.ttl;
        plan.weather.lose_reply = 50;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 80), async |leader| match pick(world.dice(), 3) {
                0 => {
                    world.pause_election(world.percent(50, 100)).await;
                    world.resume_election().await;
                }
                1 => {
                    let Some(leadership) = leader.leadership() else { return };
                    let token = leadership.token();
                    drop(leadership);
                    world.fault(crate::trace::Who::WORLD, fault::REQUEST);
                    world.request(token, Action::Resign).await;
                }
                _ => leader.pause(world.percent(50, 200)),
            })
            .await;
        })
    },
};

pub(super) const TWO_GATEWAYS_TWO_CLOCKS: Scenario = Scenario {
    name: "two_gateways_two_clocks",
    story: "a record's age is the difference of two gateways' clocks, and a live lease looks as if it had ended",
    about: &[fault::LOOKED_OLDER, fault::CRASH, "takeover"],
    plan: |dice| {
        let mut plan = Plan { kind: Kind::Gateways, ..Plan::plain(dice) };
        // Stamps are whole seconds: nobody uses them for short leases.
        plan.ttl *= 10;
        plan.work.act_every = plan.ttl / 8;
        plan.gateway_skew = plan.ttl * 9 / 10;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 100), async |leader| match pick(world.dice(), 5) {
                0 => {
                    leader.crash();
                    world.start();
                }
                1 => leader.link.cut_for(world.percent(50, 200)),
                2 => leader.pause(world.percent(50, 200)),
                3 => world.pause_election(world.percent(5, 50)).await,
                // Somebody new has watched nothing, and has to go by the stamps.
                _ if world.processes().len() < 12 => drop(world.start()),
                _ => leader.resign(),
            })
            .await;
        })
    },
};
