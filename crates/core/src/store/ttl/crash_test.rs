//! Every step of acquire, renew and release may be the last one of a process, may be lost, or may come late.

use super::support_test::{Fault, Rig, TTL, ms, secs};
use crate::name::{CandidateId, RequestId};
use crate::store::ttl_store::TtlStore;
use crate::store::{
    Acquisition, Action, Answer, Answered, ControlRequest, ErrorKind, Lease, LeaseStore, Next, Pause,
    RecordState, Release, Released, Renew, Renewal, TermEnd,
};
use crate::token::FencingToken;

/// Place, counter, token.
const STEPS_OF_ACQUIRE: usize = 3;

const UNKNOWN: [Fault; 3] = [Fault::Lost, Fault::Unanswered, Fault::Late];

/// A rig on which one term has been, so that steps replace what is there.
async fn used(fresh: bool) -> Rig {
    let rig = Rig::new();
    if !fresh {
        let lease = rig.lead("z").await;
        rig.release(&rig.ending(&lease)).await;
    }
    rig
}

#[tokio::test]
async fn a_bid_that_breaks_off_anywhere_is_resolved_by_repeating_it_without_waiting() {
    for fresh in [true, false] {
        for step in 0..STEPS_OF_ACQUIRE {
            for fault in UNKNOWN {
                let rig = used(fresh).await;
                let bid = rig.bid("a");
                rig.store.fail(step, fault);
                let error = rig.leases.acquire(&rig.election, &bid).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Timeout);
                rig.clock.advance(secs(10));
                let again = rig.again(&bid);
                let lease = rig.elsewhere().acquired(&again).await;
                let what = format!("fresh {fresh}, step {step}, {fault:?}");
                assert_eq!(lease.token, FencingToken(if fresh { 1 } else { 2 }), "{what}");
                let placed = step > 0 || fault == Fault::Unanswered;
                let applied = if placed { bid.attempt } else { again.attempt };
                assert_eq!(lease.attempt, applied, "{what}");
                let left = rig.read().await.time_left.unwrap();
                let expected = if placed { secs(20) } else { TTL };
                assert!(left >= expected && left <= expected + ms(1), "{what}: {left:?}");
                rig.store.deliver().await;
                assert_eq!(rig.read().await.lease_of(bid.id), Some(lease.clone()), "{what}: late");
                rig.renewed(&lease).await;
            }
        }
    }
}

#[tokio::test]
async fn a_bid_that_broke_off_blocks_for_its_ttl_at_most_and_others_see_a_whole_holder() {
    for step in 0..STEPS_OF_ACQUIRE {
        for fault in [Fault::Lost, Fault::Unanswered] {
            let rig = Rig::new();
            let bid = rig.bid("a");
            rig.store.fail(step, fault);
            rig.leases.acquire(&rig.election, &bid).await.unwrap_err();
            rig.clock.advance(secs(10));
            if step == 0 && fault == Fault::Lost {
                rig.lead("b").await;
                continue;
            }
            let before = rig.read().await;
            assert_eq!((before.state.clone(), before.time_left), (RecordState::Held, Some(secs(20))));
            let whole = step == 2 && fault == Fault::Unanswered;
            assert_eq!(before.leader().is_some(), whole, "without token nobody leads");
            assert_eq!(before.lease_of(bid.id).is_some(), whole);
            let seen = rig.elsewhere().refused(&rig.bid("b")).await;
            assert_eq!(seen.leader().unwrap().bid, bid.id, "{step} {fault:?}");
            assert_eq!(seen.token, FencingToken(1));
            assert!(seen.opens_in.unwrap() <= secs(20) + ms(1));
            rig.clock.advance(secs(20) + ms(1));
            let lease = rig.lead("b").await;
            assert_eq!(lease.token, FencingToken(2));
            assert_eq!(lease.previous.unwrap().bid, bid.id, "it may have led");
            rig.refused(&rig.again(&bid)).await;
        }
    }
}

#[tokio::test]
async fn late_steps_of_a_bid_that_was_given_up_change_nothing_of_a_later_term() {
    for step in 0..STEPS_OF_ACQUIRE {
        for ended in [false, true] {
            let rig = Rig::new();
            let bid = rig.bid("a");
            rig.store.fail(step, Fault::Late);
            rig.leases.acquire(&rig.election, &bid).await.unwrap_err();
            rig.clock.advance(TTL);
            let lease = rig.lead("b").await;
            if ended {
                rig.release(&rig.ending(&lease)).await;
            }
            let before = rig.read().await;
            rig.store.deliver().await;
            assert_eq!(rig.read().await, before, "step {step}, ended {ended}");
            if !ended {
                rig.renewed(&lease).await;
            }
        }
    }
}

#[tokio::test]
async fn a_late_place_of_a_spent_bid_is_taken_away_by_whoever_comes() {
    let rig = Rig::new();
    let bid = rig.bid("a");
    rig.store.fail(0, Fault::Late);
    rig.leases.acquire(&rig.election, &bid).await.unwrap_err();
    let lease = rig.acquired(&rig.again(&bid)).await;
    rig.release(&rig.ending(&lease)).await;
    // The release stands where the place was; once it has ended, the late insert finds nothing there.
    rig.clock.advance(TTL);
    rig.store.deliver().await;
    assert_eq!(rig.read().await.state, RecordState::Held);
    let next = rig.lead("b").await;
    assert_eq!(next.token, FencingToken(2), "without waiting for a ghost");
    rig.refused(&rig.again(&bid)).await;
}

#[tokio::test]
async fn a_late_place_after_the_term_expired_does_not_revive_its_token() {
    let rig = Rig::new();
    let bid = rig.bid("a");
    rig.store.fail(0, Fault::Late);
    rig.leases.acquire(&rig.election, &bid).await.unwrap_err();
    let lease = rig.acquired(&rig.again(&bid)).await;
    rig.clock.advance(TTL);
    rig.store.deliver().await;
    assert!(rig.is_lost(&lease).await);
    assert_eq!(rig.read().await.lease_of(bid.id), None);
    rig.refused(&rig.again(&bid)).await;
    assert_eq!(rig.lead("b").await.token, FencingToken(2));
}

#[tokio::test]
async fn nobody_leads_with_a_token_below_one_that_was_granted_meanwhile() {
    // A sleeps before each of its steps in turn; its lease ends; B leads, and may have ended; A wakes up.
    for step in 1..STEPS_OF_ACQUIRE {
        for ended in [false, true] {
            let rig = Rig::new();
            let (reached, go) = rig.store.hold(step);
            let (sleeper, bid) = (rig.elsewhere(), rig.bid("a"));
            let id = bid.id;
            let call = tokio::spawn(async move { sleeper.acquire(&bid).await });
            reached.await.unwrap();
            rig.clock.advance(TTL);
            let b = rig.lead("b").await;
            let drawn_before = u64::try_from(step).unwrap() - 1;
            assert_eq!(b.token, FencingToken(drawn_before + 1));
            if ended {
                rig.release(&rig.ending(&b)).await;
            }
            go.send(()).unwrap();
            match call.await.unwrap() {
                Acquisition::Refused(_) => assert!(!ended || step == 2),
                // It lost nothing but time, and won with its bid afresh after B had ended.
                Acquisition::Acquired(lease) => {
                    assert!(ended && step == 1);
                    assert!(lease.token > b.token);
                }
            }
            if !ended {
                assert_eq!(rig.read().await.lease_of(id), None);
                rig.renewed(&b).await;
            }
        }
    }
}

#[tokio::test]
async fn a_counter_that_was_drawn_too_late_makes_tokens_jump_and_nothing_else() {
    let rig = Rig::new();
    // A sleeps before the counter; its lease ends; B has the place and sleeps before the counter, too.
    let (a_reached, a_go) = rig.store.hold(1);
    let (a, bid) = (rig.elsewhere(), rig.bid("a"));
    let a_call = tokio::spawn(async move { a.acquire(&bid).await });
    a_reached.await.unwrap();
    rig.clock.advance(TTL);
    let (b_reached, b_go) = rig.store.hold(1);
    let (b, bid) = (rig.elsewhere(), rig.bid("b"));
    let b_call = tokio::spawn(async move { b.acquired(&bid).await });
    b_reached.await.unwrap();
    a_go.send(()).unwrap();
    let refused = a_call.await.unwrap();
    assert!(matches!(refused, Acquisition::Refused(_)));
    b_go.send(()).unwrap();
    // A drew 1, and then completed B's lease on its way, or was refused: B has more than 1 in either case.
    let lease = b_call.await.unwrap();
    assert_eq!(lease.token, FencingToken(2));
    rig.renewed(&lease).await;
}

#[tokio::test]
async fn a_bid_that_may_not_draw_gives_its_place_back() {
    for step in 1..STEPS_OF_ACQUIRE {
        let rig = Rig::new();
        rig.store.fail(step, Fault::Denied);
        let error = rig.leases.acquire(&rig.election, &rig.bid("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        rig.lead("b").await;
    }
}

#[tokio::test]
async fn a_superseding_bid_that_breaks_off_still_says_how_the_old_term_ended() {
    for step in 1..STEPS_OF_ACQUIRE {
        let rig = Rig::new();
        let old = rig.lead("a").await;
        let mut bid = rig.bid("a2");
        bid.supersedes = Some(old.bid);
        rig.store.fail(step, Fault::Lost);
        rig.leases.acquire(&rig.election, &bid).await.unwrap_err();
        assert!(rig.is_lost(&old).await);
        let seen = rig.refused(&rig.bid("b")).await;
        assert_eq!(seen.leader().unwrap().bid, bid.id);
        assert_eq!(seen.last_terms[0].end, Some(TermEnd::Superseded));
        assert_eq!(rig.acquired(&rig.again(&bid)).await.token, FencingToken(2));
    }
}

/// The swap of the lease, the note of the success, the record.
const STEPS_OF_RELEASE: usize = 3;

fn ending(rig: &Rig, lease: &Lease) -> Release {
    Release {
        next: Next::Successor { candidate: CandidateId::new("s").unwrap(), window: secs(60) },
        succeeded: true,
        ..rig.ending(lease)
    }
}

#[tokio::test]
async fn a_release_that_breaks_off_anywhere_is_resolved_by_repeating_it() {
    for step in 0..STEPS_OF_RELEASE {
        for fault in UNKNOWN {
            let rig = Rig::new();
            let lease = rig.lead("a").await;
            let release = ending(&rig, &lease);
            rig.store.fail(step, fault);
            let error = rig.leases.release(&release).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Timeout);
            rig.clock.advance(secs(5));
            let what = format!("step {step}, {fault:?}");
            assert_eq!(rig.elsewhere().release(&release).await, Released::Released, "{what}");
            let seen = rig.read().await;
            let successor = Some(CandidateId::new("s").unwrap());
            assert_eq!(seen.state, RecordState::Reserved { successor }, "{what}");
            assert_eq!(seen.last_terms.last().unwrap().end, Some(TermEnd::Succeeded));
            assert!(seen.last_success.unwrap() <= secs(5), "{what}");
            rig.store.deliver().await;
            assert_eq!(rig.read().await, seen, "{what}: late");
            assert!(rig.is_lost(&lease).await);
            rig.refused(&rig.bid("b")).await;
            rig.lead("s").await;
        }
    }
}

#[tokio::test]
async fn a_release_that_broke_off_holds_nobody_up_and_is_recorded_by_the_next() {
    for step in 0..STEPS_OF_RELEASE {
        for fault in [Fault::Lost, Fault::Unanswered] {
            let rig = Rig::new();
            let bid = rig.bid("a");
            let lease = rig.acquired(&bid).await;
            let release = ending(&rig, &lease);
            rig.store.fail(step, fault);
            rig.leases.release(&release).await.unwrap_err();
            rig.refused(&rig.bid("b")).await;
            if step == 0 && fault == Fault::Lost {
                let held = rig.read().await.lease_of(lease.bid);
                assert_eq!(held, Some(lease), "nothing has happened");
                continue;
            }
            rig.refused(&rig.again(&bid)).await;
            let next = rig.lead("s").await;
            assert_eq!(next.token, FencingToken(2));
            assert_eq!(next.previous.clone().unwrap().end, Some(TermEnd::Succeeded));
            assert!(rig.read().await.last_success.is_some());
            assert_eq!(rig.release(&release).await, Released::NotHeld);
            rig.renewed(&next).await;
        }
    }
}

#[tokio::test]
async fn a_release_that_nobody_recorded_keeps_its_window_and_spends_its_bid() {
    let rig = Rig::new();
    let bid = rig.bid("a");
    let lease = rig.acquired(&bid).await;
    let release = Release { next: Next::CoolDown(secs(100)), ..rig.ending(&lease) };
    rig.store.fail(1, Fault::Lost);
    rig.leases.release(&release).await.unwrap_err();
    rig.clock.advance(secs(100) - ms(1));
    let seen = rig.read().await;
    assert_eq!(seen.state, RecordState::Reserved { successor: None });
    assert_eq!(seen.opens_in, Some(ms(1)));
    rig.clock.advance(ms(1));
    rig.refused(&rig.again(&bid)).await;
    assert_eq!(rig.lead("b").await.token, FencingToken(2));
}

#[tokio::test]
async fn late_writes_of_a_release_change_nothing_of_a_later_term() {
    for step in 0..STEPS_OF_RELEASE {
        let rig = Rig::new();
        let lease = rig.lead("a").await;
        rig.store.fail(step, Fault::Late);
        rig.leases.release(&ending(&rig, &lease)).await.unwrap_err();
        rig.clock.advance(secs(60));
        let next = rig.lead("b").await;
        let mut before = rig.read().await;
        rig.store.deliver().await;
        let mut after = rig.read().await;
        if step == 1 {
            // The note of a success that had happened: about the old term, and only if nobody noted it before.
            (before.last_success, after.last_success) = (None, None);
        }
        assert_eq!(before, after, "step {step}");
        rig.renewed(&next).await;
    }
}

#[tokio::test]
async fn whoever_records_a_release_late_does_not_make_its_success_look_new() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let ending = |lease: &Lease| Release { succeeded: true, ..rig.ending(lease) };
    rig.store.fail(1, Fault::Lost);
    rig.leases.release(&ending(&lease)).await.unwrap_err();
    // One bidder is about to note the success, and sleeps; another one does it, leads and succeeds.
    let (reached, go) = rig.store.hold(0);
    let (sleeper, bid) = (rig.elsewhere(), rig.bid("b"));
    let call = tokio::spawn(async move { sleeper.acquired(&bid).await });
    reached.await.unwrap();
    let next = rig.lead("c").await;
    rig.release(&ending(&next)).await;
    rig.clock.advance(secs(10));
    go.send(()).unwrap();
    assert_eq!(call.await.unwrap().token, FencingToken(3));
    assert_eq!(rig.read().await.last_success, Some(secs(10)));
}

#[tokio::test]
async fn a_release_that_may_not_be_recorded_has_happened_all_the_same() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    rig.store.fail(1, Fault::Denied);
    assert_eq!(rig.release(&rig.ending(&lease)).await, Released::Released);
    let next = rig.elsewhere().lead("b").await;
    assert_eq!(next.previous.unwrap().end, Some(TermEnd::Released));
}

#[tokio::test]
async fn a_renewal_whose_answer_was_lost_is_found_by_the_next_attempt() {
    for fault in UNKNOWN {
        let rig = Rig::new();
        let lease = rig.lead("a").await;
        let first = rig.renewal(&lease);
        rig.store.fail(0, fault);
        rig.renew(&first).await.unwrap_err();
        rig.clock.advance(secs(10));
        let second = Renew { open: vec![first.attempt], ..rig.renewal(&lease) };
        let Renewal::Renewed(renewed, _) = rig.renew(&second).await.unwrap() else { panic!("lost") };
        assert_eq!(renewed.attempt, second.attempt);
        let count = if fault == Fault::Unanswered { 2 } else { 1 };
        assert_eq!((renewed.renew_count, renewed.renew_total), (count, count));
        rig.store.deliver().await;
        assert_eq!(rig.read().await.lease_of(lease.bid), Some(renewed), "late");
    }
}

#[tokio::test]
async fn a_renewal_counts_although_the_record_could_not_follow() {
    for fault in UNKNOWN {
        let rig = Rig::new();
        let lease = rig.lead("a").await;
        rig.store.fail(1, fault);
        let lease = rig.renewed(&lease).await;
        assert!(!rig.store.is_pending());
        assert_eq!((lease.renew_count, rig.read().await.renew_total), (1, 1));
        rig.renewed(&lease).await;
        rig.store.deliver().await;
        rig.clock.advance(TTL);
        assert_eq!(rig.lead("b").await.renew_total, 2, "{fault:?}");
    }
}

#[tokio::test]
async fn an_answer_is_repeated_until_it_is_recorded() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let operator = rig.leases.operator().unwrap();
    let request = ControlRequest {
        id: RequestId::new(&rig.random),
        token: lease.token,
        by: "op".into(),
        action: Action::Resign,
        expires_in: TTL,
    };
    operator.request(&rig.election, rig.attempt(), request.clone()).await.unwrap();
    let answer = Answered { id: request.id, answer: Answer::Done };
    let first = Renew { answer: Some(answer.clone()), ..rig.renewal(&lease) };
    rig.store.fail(1, Fault::Lost);
    rig.renew(&first).await.unwrap_err();
    assert_eq!(rig.read().await.answer, None);
    let second = Renew { attempt: rig.attempt(), open: vec![first.attempt], ..first };
    rig.renew(&second).await.unwrap();
    assert_eq!(rig.read().await.answer, Some(answer));
}

#[tokio::test]
async fn a_late_renewal_of_an_ended_term_extends_nothing() {
    for released in [false, true] {
        let rig = Rig::new();
        let lease = rig.lead("a").await;
        rig.store.fail(0, Fault::Late);
        rig.renew(&rig.renewal(&lease)).await.unwrap_err();
        if released {
            rig.release(&rig.ending(&lease)).await;
        } else {
            rig.clock.advance(TTL);
        }
        let next = rig.lead("b").await;
        let before = rig.read().await;
        rig.store.deliver().await;
        assert_eq!(rig.read().await, before);
        rig.renewed(&next).await;
    }
}

#[tokio::test]
async fn a_pause_that_breaks_off_is_in_force_when_it_is_repeated() {
    for step in 0..2 {
        let rig = Rig::new();
        let operator = rig.leases.operator().unwrap();
        let pause = Pause { by: "op".into(), ends_in: secs(60) };
        rig.store.fail(step, Fault::Lost);
        let attempt = rig.attempt();
        operator.pause(&rig.election, attempt, pause.clone()).await.unwrap_err();
        operator.pause(&rig.election, attempt, pause).await.unwrap();
        assert_eq!(rig.refused(&rig.bid("a")).await.state, RecordState::Paused);
        assert!(rig.store.get(&rig.keys().lease).await.unwrap().is_none());
    }
}
