//! Leases that hang on a session or on a connection.

use std::time::Duration;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::model::queue;
use crate::network::Weather;
use crate::plan::{Plan, pick};
use crate::server::Kind;
use crate::trace::Who;

pub(super) const HALF_OPEN_SESSION: Scenario = Scenario {
    name: "half_open_session",
    story: "a server frees the lease of a session, and its client, whose connection is half open, never hears",
    about: &[fault::SESSION_FREED, fault::PARTITION, "takeover"],
    plan: |dice| {
        let mut plan = Plan { kind: Kind::Queue, ..Plan::plain(dice) };
        plan.weather.hang_for_ever = 800;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (30, 150), async |leader| {
                let Some(server) = world.sessions() else { return };
                leader.link.cut_for(world.percent(120, 300));
                // By the server's clock, which may be a little slow.
                world.sleep(world.ttl() * 11 / 10).await;
                let freed = !queue::line(&server, &world.net().election).contains(&leader.name);
                if freed && leader.link.is_cut() {
                    world.fault(leader.who, fault::SESSION_FREED);
                }
            })
            .await;
        })
    },
};

pub(super) const SESSION_ALIVE_KEY_GONE: Scenario = Scenario {
    name: "session_alive_key_gone",
    story: "a leader's key is removed, its session lives on, and it goes on keeping that alive",
    about: &[fault::KEY_REMOVED, "takeover"],
    // Whoever removes a key by hand makes two leaders, until the old one looks at its key again.
    plan: |dice| Plan { kind: Kind::Queue, exclusion: false, overlap_ttls: 1.0, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (30, 150), async |leader| {
                let Some(server) = world.sessions() else { return };
                if pick(world.dice(), 2) == 0 {
                    // The watch would tell it at once.
                    leader.link.cut_for(world.percent(10, 60));
                }
                if queue::delete_leaders_entry(&server, &world.net().election) {
                    world.fault(Who::WORLD, fault::KEY_REMOVED);
                    world.net().look(0);
                }
            })
            .await;
        })
    },
};

pub(super) const GHOST_KEY_SHARED_LEASE: Scenario = Scenario {
    name: "ghost_key_shared_lease",
    story: "a key without a campaign becomes the first one, on a session that other elections keep alive for ever",
    about: &[fault::GHOST_KEY, fault::REPLY_LOST, "takeover"],
    plan: |dice| {
        let mut plan = Plan { kind: Kind::Queue, candidates: 3, ..Plan::plain(dice) };
        plan.weather = Weather { lose_reply: 60, lose_request: 20, late: 20, ..plan.weather };
        plan.weather.late_up_to = plan.ttl;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 80), async |leader| {
                // Its elector ends, its process does not.
                if let Some(follower) = world.follower()
                    && world.processes().len() < 12
                {
                    follower.stop();
                    world.start();
                }
                world.sleep_percent(0, 20).await;
                leader.resign();
            })
            .await;
        })
    },
};

pub(super) const HANDOFF_OUT_OF_ORDER: Scenario = Scenario {
    name: "handoff_out_of_order",
    story: "a successor that is not next in the queue leads at once, and so does the one that is next",
    about: &[fault::OUT_OF_ORDER, fault::HANDOFF, "takeover"],
    plan: |dice| Plan { kind: Kind::Queue, candidates: 4, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (30, 100), async |leader| {
                let Some(server) = world.sessions() else { return };
                let line = queue::line(&server, &world.net().election);
                let named = |name| world.processes().into_iter().find(|process| process.name == name);
                let Some(last) = line.last().cloned().and_then(named) else { return };
                if last.who == leader.who {
                    return;
                }
                let next = line.get(1).cloned().and_then(named).filter(|next| next.who != last.who);
                match pick(world.dice(), 4) {
                    0 => next.into_iter().for_each(|next| next.pause(world.percent(10, 150))),
                    1 => last.pause(world.percent(10, 150)),
                    _ => {}
                }
                leader.hand_off(&last);
            })
            .await;
        })
    },
};

pub(super) const POOLED_CONNECTION: Scenario = Scenario {
    name: "pooled_connection",
    story: "a pooler hands the connection whose session has the lock to somebody else",
    about: &[fault::HANDED_ON, "takeover"],
    plan: |dice| {
        let mut plan = Plan { kind: Kind::Pool, candidates: 4, ..Plan::plain(dice) };
        plan.weather.request = (Duration::from_millis(1), Duration::from_millis(50));
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 150), async |leader| match pick(world.dice(), 4) {
                0 => leader.resign(),
                1 => leader.link.cut_for(world.percent(50, 200)),
                2 => {
                    leader.crash();
                    world.start();
                }
                _ => leader.pause(world.percent(50, 200)),
            })
            .await;
        })
    },
};
