//! Names that are used twice, and processes that are copied.

use std::collections::BTreeMap;
use std::io;

use super::{Scenario, with_each_leader};
use crate::fault;
use crate::home::Home;
use crate::plan::{Plan, pick};
use crate::trace::Who;
use crate::world::Birth;
use crate::wrong::Wrong;

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

pub(super) const CLONED_STATE_DIR: Scenario = Scenario {
    name: "cloned_state_dir",
    story: "a state directory is copied, alone or with its machine, and the copy takes the original's lease",
    about: &[fault::STATE_COPIED, fault::IDENTITY_IN_USE, fault::RESTART, "takeover"],
    plan: |dice| Plan { candidates: 1, ..Plan::plain(dice) },
    script: |world| {
        Box::pin(async move {
            let mut homes = BTreeMap::new();
            let move_in = |homes: &mut BTreeMap<Who, Home>, home: io::Result<Home>| {
                let home = home.ok();
                let process = home.as_ref().and_then(|home| world.start_at(home));
                homes.extend(process.iter().map(|process| process.who).zip(home));
                process
            };
            move_in(&mut homes, world.disks().machine(pick(world.dice(), 2) == 0));
            with_each_leader(&world, (30, 120), async |leader| {
                let Some(home) = homes.get(&leader.who).cloned() else {
                    leader.resign();
                    return;
                };
                let crowded = world.processes().len() > 10;
                let disks = world.disks();
                match pick(world.dice(), 6) {
                    what @ (0 | 1) if !crowded => {
                        if pick(world.dice(), 2) == 0 {
                            leader.pause(world.percent(10, 150));
                        }
                        world.fault(leader.who, fault::STATE_COPIED);
                        let copy =
                            if what == 0 { disks.copy_directory(&home) } else { disks.clone_machine(&home) };
                        move_in(&mut homes, copy);
                    }
                    2 | 3 => {
                        leader.crash();
                        world.sleep_percent(0, 20).await;
                        // The lease is as young as the last renewal: who waits for its end waits for longer than this.
                        let again = move_in(&mut homes, Ok(home));
                        world.fault(leader.who, fault::RESTART);
                        if again.is_some() && world.leader_within(world.ttl() / 4).await.is_none() {
                            world.unexpected("a restarted process waited for the end of its own lease");
                        }
                    }
                    4 => {
                        // Nothing on the machine outlives it, in whatever directory its state is.
                        for process in world.processes().iter().filter(|process| process.stands()) {
                            let there = homes.get(&process.who);
                            if there.is_some_and(|there| there.origin.boot_id == home.origin.boot_id) {
                                process.crash();
                            }
                        }
                        move_in(&mut homes, Ok(disks.reboot(&home)));
                        world.fault(leader.who, fault::RESTART);
                    }
                    _ => drop(move_in(&mut homes, Ok(home))),
                }
            })
            .await;
        })
    },
};
