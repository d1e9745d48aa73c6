//! The fixtures of Valkey work. `scripts/test` leaves this out, and says so, where Valkey cannot be had.

#![allow(clippy::unwrap_used)] // The helpers are test code, too.

mod servers;
mod talk;

use tenure_testkit::servers::redis::Flavour;

tests_of! { Flavour::Valkey,
    one: a_started_server_answers options_take_effect a_restart_keeps_the_data_or_loses_it
        a_killed_server_finds_what_it_had_appended a_frozen_server_answers_when_it_goes_on a_dropped_server_is_gone
        independent_servers_share_nothing;
    tls: tls_lets_in_who_is_known tls_can_ask_for_a_certificate;
    sentinel: sentinels_promote_a_replica_when_the_master_dies;
    cluster: a_cluster_promotes_a_replica_when_a_master_dies a_slot_of_a_cluster_can_be_moved;
}
