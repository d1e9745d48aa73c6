//! One server.

use tenure_core::{Clock, SystemClock};
use tenure_testkit::proxy::Fault;
use tenure_testkit::servers::redis::Data;

use crate::arena::{Arena, TTL, rounds};
use crate::deployment::{ByWays, Deployment, Memory, OneServer, Promise};
use crate::faults;
use crate::judge::Complaint;

macro_rules! stands {
    ($($fault:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $fault() {
                faults::$fault(OneServer::start(Memory::Keeps).await).await;
            }
        )*
    };
}

stands! {
    kill
    stop
    black_hole
    lost_answers_to_renewals
    lost_answers_to_bids
    lost_answers_to_releases
    late_delivery
    late_bids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_with_data() {
    let mut arena = Arena::open(OneServer::start(Memory::Keeps).await).await;
    for _ in 0..rounds() {
        let leader = arena.leader().await;
        arena.deployment.server.restart(Data::Kept).await;
        arena.stays(&leader).await;
    }
    arena.assert_promise().await;
}

/// The server forgets everything while its leader cannot hear of it.
async fn restart_without_data(arena: &mut Arena<OneServer>) {
    for _ in 0..rounds() {
        let old = arena.leader().await;
        arena.deployment.way(old.seat).inject(&Fault::BlackHole);
        let restarted = SystemClock.now().boot();
        arena.deployment.server.restart(Data::Lost).await;
        let new = arena.leader_after(&old).await;
        if arena.deployment.promise() == Promise::Exclusion {
            assert!(new.from >= restarted + TTL, "led before what was forgotten had ended");
        }
        arena.deployment.way(old.seat).clear().await;
        arena.hears(old.seat).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_without_data_keeps_everybody_out_until_the_old_lease_has_ended() {
    let mut arena = Arena::open(OneServer::start(Memory::Forgets).await).await;
    restart_without_data(&mut arena).await;
    arena.assert_promise().await;
}

/// The broken variant: candidates are told that the server keeps its data. Two lead, which the judge must see, and the fence
/// refuses the older one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_without_data_that_is_denied_makes_two_leaders_and_the_fence_holds() {
    let mut arena = Arena::open(OneServer::start(Memory::Denies).await).await;
    restart_without_data(&mut arena).await;
    let verdict = arena.verdict().await;
    let overlaps = |complaint: &Complaint| matches!(complaint, Complaint::Overlap { .. });
    assert!(!verdict.complaints.is_empty(), "the judge saw nothing");
    assert!(verdict.complaints.iter().all(overlaps), "{verdict:#?}");
    assert!(verdict.refused > 0, "the fence refused nothing");
}
