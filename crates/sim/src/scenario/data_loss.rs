//! Stores that forget. Two may lead for a while; the fence must hold, and tokens must rise.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::ledger::Pages;
use crate::plan::Plan;
use crate::server::Server;
use crate::trace::Who;
use crate::world::World;

/// Cuts everybody off for a while, as a store that is away does.
fn outage(world: &World, d: Duration) {
    for process in world.processes() {
        process.link.cut_for(d);
    }
}

/// Lets somebody new come right after the loss: those who were there wait until the lease that they saw has run out.
async fn newcomer(world: &World) {
    world.sleep_percent(0, 20).await;
    if world.processes().len() < 12 {
        world.start();
    }
}

/// Lets another server take over, with the disk `pages` and a clock that is `behind`.
fn fail_over(world: &World, pages: Pages, behind: Duration) {
    let Some(ledger) = world.ledger(0) else { return };
    let clock =
        if behind.is_zero() { world.server_clock().clone() } else { world.server_clock_behind(behind) };
    let server = world.add_server(Server::Ledger(ledger.promote(pages, clock)));
    world.net().route.store(server, Ordering::Relaxed);
    for process in world.processes() {
        process.link.set_route(server);
    }
    world.fault(Who::WORLD, fault::FAILOVER);
}

pub(super) const FAILOVER_LOSES_LEASE: Scenario = Scenario {
    name: "failover_loses_lease",
    story: "a replica without the lease is promoted: two leaders, and the token is back to 1",
    about: &[fault::FAILOVER, "takeover"],
    plan: |dice| Plan::losing(dice, 1.0),
    script: |world| {
        Box::pin(async move {
            // Before the first leader: the replica knows of nobody.
            world.sleep_percent(50, 400).await;
            outage(&world, world.percent(0, 30));
            fail_over(&world, Pages::new(), Duration::ZERO);
            newcomer(&world).await;
            world.sleep(world.time_for_faults()).await;
        })
    },
};

pub(super) const STUCK_STORE_WAKES: Scenario = Scenario {
    name: "stuck_store_wakes",
    story: "a store revives old state late",
    about: &[fault::OLD_STATE, "takeover"],
    plan: |dice| Plan::losing(dice, 1.0),
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 120), async |leader| {
                let Some(ledger) = world.ledger(0) else { return };
                let old = ledger.copy();
                leader.resign();
                world.sleep_percent(5, 150).await;
                ledger.put_back(old);
                world.fault(Who::WORLD, fault::OLD_STATE);
            })
            .await;
        })
    },
};

pub(super) const STORE_RESTARTED_EMPTY: Scenario = Scenario {
    name: "store_restarted_empty",
    story: "a store is restarted without its data while a holder has seconds of permission left",
    about: &[fault::DATA_LOST, fault::PARTITION, "takeover"],
    plan: |dice| Plan::losing(dice, 1.0),
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 250), async |_| {
                let Some(ledger) = world.ledger(0) else { return };
                outage(&world, world.percent(0, 30));
                ledger.put_back(Pages::new());
                world.fault(Who::WORLD, fault::DATA_LOST);
                newcomer(&world).await;
            })
            .await;
        })
    },
};

pub(super) const EVICTED_LEASE: Scenario = Scenario {
    name: "evicted_lease",
    story: "a cache throws the lease away, silently",
    about: &[fault::EVICTED, "takeover"],
    plan: |dice| Plan::losing(dice, 1.0),
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 150), async |_| {
                let Some(ledger) = world.ledger(0) else { return };
                ledger.put_back(Pages::new());
                world.fault(Who::WORLD, fault::EVICTED);
                newcomer(&world).await;
            })
            .await;
        })
    },
};

pub(super) const RENEWALS_NOT_REPLICATED: Scenario = Scenario {
    name: "renewals_not_replicated",
    story: "the promoted replica has the lease, but not its last renewals: it ends early",
    about: &[fault::FAILOVER, "takeover"],
    plan: |dice| Plan::losing(dice, 1.0),
    script: |world| {
        Box::pin(async move {
            world.sleep_percent(50, 300).await;
            let Some(ledger) = world.ledger(0) else { return };
            let replica = ledger.copy();
            world.sleep_percent(20, 110).await;
            outage(&world, world.percent(0, 60));
            fail_over(&world, replica, Duration::ZERO);
            newcomer(&world).await;
            world.sleep(world.time_for_faults()).await;
        })
    },
};

pub(super) const OLD_MASTER_WITH_LEADER: Scenario = Scenario {
    name: "old_master_with_leader",
    story: "a master is cut off together with the leader and renews for ever, while the new master elects",
    about: &[fault::FAILOVER, "takeover"],
    // The two sides are apart for up to 2 ttl, and the leader hears of it with its next renewal after that.
    plan: |dice| Plan::losing(dice, 3.0),
    script: |world| {
        Box::pin(async move {
            world.sleep_percent(50, 300).await;
            let Some(leader) = world.leader_within(world.ttl() * 2).await else { return };
            let Some(ledger) = world.ledger(0) else { return };
            fail_over(&world, ledger.copy(), Duration::ZERO);
            leader.link.set_route(0);
            world.sleep_percent(100, 200).await;
            leader.link.set_route(1);
            world.sleep(world.time_for_faults()).await;
        })
    },
};

pub(super) const SKEWED_FAILOVER_TOKEN: Scenario = Scenario {
    name: "skewed_failover_token",
    story: "the new master's clock is behind: its tokens would be below those of the lost term",
    about: &[fault::FAILOVER, "takeover"],
    plan: |dice| Plan::losing(dice, 1.5),
    script: |world| {
        Box::pin(async move {
            world.sleep_percent(50, 300).await;
            // Within the skew that the store's guarantees name, if it stays away for longer than that.
            let behind = world.dice().up_to(Duration::from_secs(1));
            outage(&world, behind + world.percent(5, 30));
            fail_over(&world, Pages::new(), behind);
            newcomer(&world).await;
            world.sleep(world.time_for_faults()).await;
        })
    },
};
