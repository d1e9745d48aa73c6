//! The elector's behaviours, in virtual time on the memory store.

#![allow(clippy::unwrap_used)] // A test that cannot go on fails.

mod b01_elected_and_stopped;
mod b02_stop_releases;
mod b03_takeover_after_a_crash;
mod b04_renewal_errors;
mod b05_lost;
mod b06_callbacks;
mod b07_counters;
mod b08_one_shot;
mod b09_many_elections;
mod b10_stable_identity;
mod b12_settings;
mod b13_health;
mod b14_events;
mod b15_work_cancelled;
mod b16_one_way_latch;
mod b17_suspend;
mod b18_draining_is_renewed;
mod b19_lost_has_no_grace;
mod b20_no_term_beside_old_work;
mod b21_acquired_too_late;
mod b22_old_tokens;
mod b23_hung_attempts;
mod b24_flapping;
mod b25_second_elector;
mod commands;
mod edges;
mod late_answer_of_the_bid_that_leads;
mod world;
