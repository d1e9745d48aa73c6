//! What can happen to a leader and to its way, on any deployment.
//!
//! Each is tried round after round with the same candidates, and shows that it happened and what came of it; in the end
//! everything is judged.

use tenure_core::store::TermEnd;
use tenure_core::{Clock, SystemClock};
use tenure_testkit::proxy::{Fault, Requests, Then};
use tenure_testkit::resp;

use crate::arena::{Arena, TTL, after, rounds};
use crate::deployment::{ByWays, Deployment, SEATS};

/// The requests of a verb of the store: calls of the script that name it.
fn verb(verb: &str) -> Requests {
    let argument = format!("\r\n{verb}\r\n").into_bytes();
    Requests::matching(move |request| {
        let is_call = resp::command(request).is_some_and(|command| command == "EVALSHA");
        is_call && request.windows(argument.len()).any(|window| window == argument)
    })
}

/// What becomes of the connection on which something was lost: in turn.
fn then(round: usize) -> Then {
    if round.is_multiple_of(2) { Then::Silence } else { Then::Cut }
}

/// The leader is killed: somebody else leads.
pub async fn kill(deployment: impl Deployment) {
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        let old = arena.leader().await;
        arena.kill(old.seat);
        let new = arena.leader_after(&old).await;
        assert_ne!(new.seat, old.seat);
        arena.replace(old.seat).await;
    }
    arena.assert_promise().await;
}

/// The leader is stopped for two ttls: when it goes on somebody else leads, and it must not act.
pub async fn stop(deployment: impl Deployment) {
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        let old = arena.leader().await;
        let stopped = SystemClock.now();
        arena.stop(old.seat).await;
        let new = arena.leader_after(&old).await;
        assert_ne!(new.seat, old.seat);
        after(stopped, TTL * 2).await;
        arena.go_on(old.seat).await;
        arena.stays(&new).await;
    }
    arena.assert_promise().await;
}

/// Nothing passes between the leader and the servers: it must stop by itself.
pub async fn black_hole(deployment: impl ByWays) {
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        let old = arena.leader().await;
        let lost = arena.deployment.way(old.seat).counts().requests_lost;
        arena.deployment.way(old.seat).inject(&Fault::BlackHole);
        let new = arena.leader_after(&old).await;
        assert_ne!(new.seat, old.seat);
        assert!(arena.deployment.way(old.seat).counts().requests_lost > lost, "nothing was lost");
        arena.deployment.way(old.seat).clear().await;
        arena.hears(old.seat).await;
        arena.stays(&new).await;
    }
    arena.assert_promise().await;
}

/// A renewal is applied and its answer lost: the leader finds out, and goes on.
pub async fn lost_answers_to_renewals(deployment: impl ByWays) {
    let mut arena = Arena::open(deployment).await;
    for round in 0..rounds() {
        let leader = arena.leader().await;
        let seat = leader.seat;
        let lost = arena.deployment.way(seat).counts().replies_lost;
        let fault = Fault::LoseAnswers(verb("renew").next(1), then(round));
        arena.deployment.way(seat).inject(&fault);
        arena
            .until("an answer is lost", |arena| {
                (arena.deployment.way(seat).counts().replies_lost > lost).then_some(())
            })
            .await;
        arena.stays(&leader).await;
        arena.deployment.way(seat).clear().await;
    }
    arena.assert_promise().await;
}

/// The bids that follow the death of a leader are applied and their answers lost: who has won finds out, and opens no second
/// term.
pub async fn lost_answers_to_bids(deployment: impl ByWays) {
    let mut arena = Arena::open(deployment).await;
    for round in 0..rounds() {
        let old = arena.leader().await;
        let others = || (0..SEATS).filter(|seat| *seat != old.seat);
        let lost = |arena: &Arena<_>| -> u64 {
            others().map(|seat| ByWays::way(&arena.deployment, seat).counts().replies_lost).sum()
        };
        let before = lost(&arena);
        for seat in others() {
            let fault = Fault::LoseAnswers(verb("acquire").next(1), then(round));
            arena.deployment.way(seat).inject(&fault);
        }
        arena.kill(old.seat);
        let new = arena.leader_after(&old).await;
        assert!(lost(&arena) > before, "no answer was lost");
        let record = arena.record().await;
        let last = record.last_terms.last().map(|term| (term.token, term.end));
        assert_eq!(last, Some((old.token, Some(TermEnd::Expired))), "a term in between: {record:?}");
        for seat in others() {
            arena.deployment.way(seat).clear().await;
        }
        arena.stays(&new).await;
        arena.replace(old.seat).await;
    }
    arena.assert_promise().await;
}

/// A leader gives its lease back and does not hear the answer: the next one leads at once, and the repeated release takes
/// nothing from it.
pub async fn lost_answers_to_releases(deployment: impl ByWays) {
    let mut arena = Arena::open(deployment).await;
    for round in 0..rounds() {
        let old = arena.leader().await;
        let lost = arena.deployment.way(old.seat).counts().replies_lost;
        let fault = Fault::LoseAnswers(verb("release").next(1), then(round));
        arena.deployment.way(old.seat).inject(&fault);
        arena.ask_to_resign(&old).await;
        let new = arena.leader_after(&old).await;
        assert!(arena.deployment.way(old.seat).counts().replies_lost > lost, "no answer was lost");
        let record = arena.record().await;
        let last = record.last_terms.last().map(|term| (term.token, term.end));
        assert_eq!(last, Some((old.token, Some(TermEnd::Released))));
        arena.deployment.way(old.seat).clear().await;
        arena.stays(&new).await;
    }
    arena.assert_promise().await;
}

/// All that the leader sends is held back, and delivered when somebody else leads: it changes nothing.
pub async fn late_delivery(deployment: impl ByWays) {
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        let old = arena.leader().await;
        let fault = Fault::HoldBack(Requests::commands(&["EVALSHA"]));
        arena.deployment.way(old.seat).inject(&fault);
        let new = arena.leader_after(&old).await;
        assert_ne!(new.seat, old.seat);
        let delivered = arena.deployment.way(old.seat).deliver_late().await;
        assert!(delivered > 0, "nothing was held back");
        arena.stays(&new).await;
        arena.deployment.way(old.seat).clear().await;
        arena.hears(old.seat).await;
    }
    arena.assert_promise().await;
}

/// The bids that follow the death of a leader are held back for a ttl: whoever wins by one that is so old must not lead by
/// it, since by its own count that lease is over.
pub async fn late_bids(deployment: impl ByWays) {
    let mut arena = Arena::open(deployment).await;
    for _ in 0..rounds() {
        let old = arena.leader().await;
        let others = || (0..SEATS).filter(|seat| *seat != old.seat);
        let held = |arena: &Arena<_>, seat| ByWays::way(&arena.deployment, seat).counts().requests_held;
        let before: Vec<_> = (0..SEATS).map(|seat| held(&arena, seat)).collect();
        for seat in others() {
            arena.deployment.way(seat).inject(&Fault::HoldBack(verb("acquire")));
        }
        arena.kill(old.seat);
        let all_held = |arena: &Arena<_>| others().all(|seat| held(arena, seat) > before[seat]);
        arena.until("all bids are held back", |arena| all_held(arena).then_some(())).await;
        after(SystemClock.now(), TTL).await;
        for seat in others() {
            assert!(arena.deployment.way(seat).deliver_late().await > 0, "nothing was held back");
            arena.deployment.way(seat).clear().await;
        }
        let new = arena.leader_after(&old).await;
        arena.stays(&new).await;
        arena.replace(old.seat).await;
    }
    arena.assert_promise().await;
}
