//! Clocks that are wrong, jump, or stop.

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::plan::{Plan, pick};
use crate::server::Kind;
use crate::trace::Who;

pub(super) const WALL_CLOCK_STEP: Scenario = Scenario {
    name: "wall_clock_step",
    story: "a wall clock jumps by an hour: two leaders",
    about: &[fault::WALL_STEP, "takeover"],
    plan: Plan::plain,
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (20, 80), async |leader| {
                let seconds = i64::try_from(world.dice().below(7200)).unwrap_or(0) - 3600;
                for process in world.processes() {
                    if pick(world.dice(), 2) == 0 {
                        process.machine().step_wall(seconds);
                        world.fault(process.who, fault::WALL_STEP);
                    }
                }
                world.server_clock().step_wall(-seconds);
                if pick(world.dice(), 3) == 0 {
                    leader.crash();
                    world.start();
                }
            })
            .await;
        })
    },
};

pub(super) const SKEWED_WRITER_CLOCK: Scenario = Scenario {
    name: "skewed_writer_clock",
    story: "expiry is judged with the wrong machine's clock",
    about: &[fault::WALL_STEP, fault::CRASH, "takeover"],
    plan: |dice| {
        let kinds = [Kind::VersionedWithAge, Kind::VersionedWithoutAge];
        Plan { kind: kinds[pick(dice, 2)], ..Plan::plain(dice) }
    },
    script: |world| {
        Box::pin(async move {
            let hour = 3600;
            for process in world.processes() {
                let hours = i64::try_from(world.dice().below(48)).unwrap_or(0) - 24;
                process.machine().step_wall(hours * hour);
                world.fault(process.who, fault::WALL_STEP);
            }
            with_each_leader(&world, (50, 200), async |leader| {
                leader.crash();
                world.sleep_percent(0, 50).await;
                let next = world.start();
                next.machine().step_wall(24 * hour);
            })
            .await;
        })
    },
};

pub(super) const SLEWED_CLOCK: Scenario = Scenario {
    name: "slewed_clock",
    story: "time daemons run clocks a tenth too fast or too slow for minutes",
    about: &[fault::SLEWED, fault::PARTITION, "takeover"],
    plan: |dice| {
        let mut plan = Plan::plain(dice);
        plan.clocks.boot_ppm = 100_000;
        plan.clocks.server_ppm = 100_000;
        plan
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 150), async |leader| {
                let boot = i64::try_from(world.dice().below(200_001)).unwrap_or(0) - 100_000;
                leader.machine().set_rates(boot, 0);
                world.fault(leader.who, fault::SLEWED);
                if pick(world.dice(), 2) == 0 {
                    leader.link.cut_for(world.percent(100, 200));
                }
            })
            .await;
        })
    },
};

pub(super) const STORE_CLOCK_STEP: Scenario = Scenario {
    name: "store_clock_step",
    story: "the store's own clock jumps ahead and frees every lease at once",
    about: &[fault::STORE_CLOCK_STEP, "takeover"],
    plan: |dice| {
        let kind = if pick(dice, 2) == 0 { Kind::Memory } else { Kind::Ttl };
        Plan { kind, ..Plan::losing(dice, 1.0) }
    },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 250), async |_| {
                world.server_clock().jump_boot(world.percent(20, 300));
                world.fault(Who::WORLD, fault::STORE_CLOCK_STEP);
            })
            .await;
        })
    },
};

pub(super) const GUEST_CLOCK_STANDS_STILL: Scenario = Scenario {
    name: "guest_clock_stands_still",
    story: "a hypervisor pause stops the guest's own clocks: no clock can see it, only the fence protects",
    about: &[fault::CLOCK_STOOD_STILL, "takeover", "write fenced off"],
    // The pause is up to 3 ttl, and what was left of the permission is left after it.
    plan: |dice| Plan { exclusion: false, overlap_ttls: 4.0, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            with_each_leader(&world, (50, 250), async |leader| {
                if world.processes().iter().filter(|process| process.leads()).count() > 1 {
                    // One pause is one overlap: a second one for the same leader would lengthen it.
                    return;
                }
                let d = world.percent(100, 300).min(world.time_for_faults());
                world.fault(leader.who, fault::CLOCK_STOOD_STILL);
                // Else a watch would tell the leader, the moment it wakes up.
                leader.link.cut_for(d + world.ttl() / 2);
                leader.machine().set_rates(-1_000_000, -1_000_000);
                leader.pause(d);
                world.sleep(d).await;
                leader.machine().set_rates(0, 0);
            })
            .await;
        })
    },
};
