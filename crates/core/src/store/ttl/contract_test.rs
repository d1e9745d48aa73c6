//! What the contract asks of every store, on this adaptor.

use super::support_test::{Rig, TTL, ms, secs};
use crate::name::{CandidateId, ElectionName};
use crate::store::ttl_store::TtlStore;
use crate::store::{
    Acquisition, ErrorKind, Lease, LeaseStore, Next, RecordState, Release, Released, Renew, Renewal, TermEnd,
};
use crate::token::FencingToken;

#[tokio::test]
async fn a_lease_excludes_others_until_it_ends_by_the_stores_clock_and_not_before() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    assert_eq!((lease.token, lease.renew_count), (FencingToken(1), 0));
    rig.clock.advance(secs(10));
    let seen = rig.elsewhere().refused(&rig.bid("b")).await;
    assert_eq!(seen.state, RecordState::Held);
    assert_eq!(seen.leader().unwrap().candidate, lease.candidate);
    assert_eq!(seen.leader().unwrap().metadata["address"], "a");
    assert_eq!((seen.time_left, seen.opens_in), (Some(secs(20)), Some(secs(20))));
    assert_eq!(seen.lease_of(lease.bid), Some(lease.clone()));
    rig.clock.advance(secs(20) - ms(1));
    rig.refused(&rig.bid("b")).await;
    rig.clock.advance(ms(1));
    let free = rig.read().await;
    assert_eq!((free.state.clone(), free.time_left), (RecordState::Free, None));
    assert_eq!(free.holder.unwrap().candidate.as_str(), "a", "the last one is still shown");
    let next = rig.lead("b").await;
    assert_eq!(next.token, FencingToken(2));
    let previous = next.previous.unwrap();
    assert_eq!((previous.bid, previous.end), (lease.bid, Some(TermEnd::Expired)));
    assert!(rig.is_lost(&lease).await);
}

#[tokio::test]
async fn a_repeated_bid_answers_its_term_names_its_first_attempt_and_extends_nothing() {
    let rig = Rig::new();
    let bid = rig.bid("a");
    let lease = rig.acquired(&bid).await;
    rig.clock.advance(secs(10));
    assert_eq!(rig.elsewhere().acquired(&rig.again(&bid)).await, lease);
    assert_eq!(lease.attempt, bid.attempt);
    assert_eq!(rig.read().await.time_left, Some(secs(20)));
    rig.refused(&rig.bid("a")).await;
    rig.clock.advance(secs(20));
    assert_eq!(rig.refused(&rig.again(&bid)).await.state, RecordState::Free);
    let other = rig.lead("b").await;
    rig.release(&rig.ending(&other)).await;
    rig.refused(&rig.again(&bid)).await;
}

#[tokio::test]
async fn a_released_bid_is_never_granted_again() {
    let rig = Rig::new();
    let bid = rig.bid("a");
    let lease = rig.acquired(&bid).await;
    assert_eq!(rig.release(&rig.ending(&lease)).await, Released::Released);
    rig.refused(&bid).await;
    rig.clock.advance(TTL);
    rig.refused(&rig.again(&bid)).await;
    assert_eq!(rig.lead("a").await.token, FencingToken(2));
}

#[tokio::test]
async fn a_bid_supersedes_exactly_the_bid_in_the_record() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let mut bid = rig.bid("a2");
    bid.supersedes = Some(rig.bid("x").id);
    rig.refused(&bid).await;
    bid.supersedes = Some(lease.bid);
    let taken = rig.acquired(&bid).await;
    assert_eq!(taken.token, FencingToken(2));
    assert_eq!(taken.previous.unwrap().end, Some(TermEnd::Superseded));
    assert!(rig.is_lost(&lease).await);
    assert_eq!(rig.release(&rig.ending(&lease)).await, Released::NotHeld);
}

#[tokio::test]
async fn a_renewal_extends_and_counts_and_the_total_outlives_release_and_expiry() {
    let rig = Rig::new();
    let mut lease = rig.lead("a").await;
    for count in 1..=3 {
        rig.clock.advance(secs(10));
        lease = rig.renewed(&lease).await;
        assert_eq!((lease.renew_count, lease.token), (count, FencingToken(1)));
        assert_eq!(rig.read().await.time_left, Some(TTL));
    }
    rig.release(&rig.ending(&lease)).await;
    let lease = rig.lead("b").await;
    assert_eq!((lease.renew_count, lease.renew_total), (0, 3));
    rig.renewed(&lease).await;
    rig.clock.advance(TTL);
    assert_eq!(rig.lead("c").await.renew_total, 4);
}

#[tokio::test]
async fn a_renewal_needs_one_swap_of_the_lease_and_no_read_before_it() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    rig.store.count();
    let lease = rig.renewed(&lease).await;
    assert_eq!(rig.store.count(), (1, 2), "the read is for an operator's request");
    rig.elsewhere().renewed(&lease).await;
    assert_eq!(rig.store.count(), (3, 2));
}

#[tokio::test]
async fn the_same_renewal_attempt_extends_nothing_and_an_unanswered_one_is_found() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let first = rig.renewal(&lease);
    rig.renew(&first).await.unwrap();
    rig.clock.advance(secs(10));
    let Renewal::Renewed(again, _) = rig.renew(&first).await.unwrap() else { panic!("lost") };
    assert_eq!((again.attempt, again.renew_count), (first.attempt, 1));
    assert_eq!(rig.read().await.time_left, Some(secs(20)));
    let second = Renew { open: vec![first.attempt], ..rig.renewal(&lease) };
    let Renewal::Renewed(second, _) = rig.renew(&second).await.unwrap() else { panic!("lost") };
    assert_eq!(second.renew_count, 2);
    let late = rig.renew(&first).await.unwrap();
    let Renewal::Lost(Some(record)) = late else { panic!("{late:?}") };
    assert_eq!(record.leader().unwrap().attempt, second.attempt, "only overtaken");
}

#[tokio::test]
async fn of_two_holders_of_one_bid_at_most_one_goes_on() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let clone = rig.elsewhere();
    clone.renewed(&lease).await;
    assert!(rig.is_lost(&lease).await);
}

#[tokio::test]
async fn only_the_very_release_frees_and_repeating_it_says_so_again() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let stranger =
        Release { lease: rig.elsewhere().read().await.lease_of(lease.bid).unwrap(), ..rig.ending(&lease) };
    let wrong_token =
        Release { lease: Lease { token: FencingToken(9), ..lease.clone() }, ..stranger.clone() };
    assert_eq!(rig.release(&wrong_token).await, Released::NotHeld);
    let release = rig.ending(&lease);
    assert_eq!(rig.release(&release).await, Released::Released);
    assert_eq!(rig.elsewhere().release(&release).await, Released::Released);
    assert_eq!(rig.release(&rig.ending(&lease)).await, Released::NotHeld);
    let seen = rig.read().await;
    assert_eq!((seen.state, seen.token), (RecordState::Free, FencingToken(1)));
    assert_eq!(seen.last_terms[0].end, Some(TermEnd::Released));
    rig.clock.advance(TTL);
    assert_eq!(rig.release(&release).await, Released::Released);
    let next = rig.lead("b").await;
    assert_eq!(rig.release(&release).await, Released::NotHeld);
    rig.renewed(&next).await;
}

#[tokio::test]
async fn a_token_is_above_the_floor_and_a_floor_above_the_record_makes_the_previous_term_unknown() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    rig.release(&rig.ending(&lease)).await;
    let mut bid = rig.bid("b");
    bid.floor = FencingToken(41);
    let lease = rig.acquired(&bid).await;
    assert_eq!((lease.token, lease.previous.clone()), (FencingToken(42), None));
    rig.release(&rig.ending(&lease)).await;
    assert_eq!(rig.lead("c").await.token, FencingToken(43));
}

#[tokio::test]
async fn a_successor_has_the_election_at_once_and_the_others_when_the_window_is_over() {
    for window in [secs(5), secs(90)] {
        let rig = Rig::new();
        let lease = rig.lead("a").await;
        let candidate = CandidateId::new("s").unwrap();
        let release =
            Release { next: Next::Successor { candidate: candidate.clone(), window }, ..rig.ending(&lease) };
        rig.release(&release).await;
        let seen = rig.refused(&rig.bid("b")).await;
        let successor = Some(candidate);
        assert_eq!(seen.state, RecordState::Reserved { successor });
        assert_eq!(seen.opens_in, Some(window));
        rig.clock.advance(window - ms(1));
        rig.refused(&rig.bid("b")).await;
        let lease = rig.lead("s").await;
        assert_eq!(lease.token, FencingToken(2));
        rig.release(&Release { next: release.next, ..rig.ending(&lease) }).await;
        rig.clock.advance(window);
        assert_eq!(rig.lead("b").await.token, FencingToken(3));
    }
}

#[tokio::test]
async fn a_cool_down_refuses_everybody_until_it_is_over() {
    for cool_down in [secs(2), secs(3600)] {
        let rig = Rig::new();
        let lease = rig.lead("a").await;
        let release = Release { next: Next::CoolDown(cool_down), succeeded: true, ..rig.ending(&lease) };
        rig.release(&release).await;
        rig.clock.advance(cool_down - ms(1));
        let seen = rig.refused(&rig.bid("a")).await;
        assert_eq!(seen.state, RecordState::Reserved { successor: None });
        assert_eq!(seen.opens_in, Some(ms(1)));
        rig.clock.advance(ms(1));
        assert_eq!(rig.read().await.state, RecordState::Free);
        rig.lead("a").await;
        let seen = rig.read().await;
        assert_eq!(seen.last_success, Some(cool_down));
        assert_eq!(seen.last_terms[0].end, Some(TermEnd::Succeeded));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_32_concurrent_bids_exactly_one_wins_and_the_others_see_it() {
    for _ in 0..20 {
        let rig = Rig::new();
        let bids: Vec<_> = (0..32).map(|n| rig.bid(&format!("c{n}"))).collect();
        let calls = bids.into_iter().map(|bid| {
            let rig = rig.elsewhere();
            tokio::spawn(async move { rig.acquire(&bid).await })
        });
        let mut winners = Vec::new();
        let mut seen = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            match call.await.unwrap() {
                Acquisition::Acquired(lease) => winners.push(lease),
                Acquisition::Refused(record) => seen.push(record),
            }
        }
        assert_eq!((winners.len(), seen.len()), (1, 31));
        for record in seen {
            assert_eq!(record.lease_of(winners[0].bid).as_ref(), Some(&winners[0]));
        }
    }
}

#[tokio::test]
async fn what_is_not_ours_is_corrupt_for_bids_and_lost_for_the_holder_and_is_left_alone() {
    let rig = Rig::new();
    let (lease_key, record_key) = (rig.keys().lease, rig.keys().record);
    for key in [lease_key, record_key] {
        for damage in ["garbage", "", r#"{"format":99,"election":"billing"}"#] {
            let rig = Rig::new();
            let lease = rig.lead("a").await;
            rig.store.memory.overwrite(&key, Some(damage.into()));
            for error in [
                rig.leases.acquire(&rig.election, &rig.bid("b")).await.unwrap_err(),
                rig.leases.read(&rig.election).await.unwrap_err(),
            ] {
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains("billing"), "{error}");
            }
            let renewal = rig.renewal(&lease);
            assert_eq!(rig.renew(&renewal).await.unwrap(), Renewal::Lost(None));
            assert_eq!(rig.release(&rig.ending(&lease)).await, Released::NotHeld);
            let kept = TtlStore::get(&rig.store, &key).await.unwrap();
            assert_eq!(kept.unwrap().value, damage.as_bytes());
        }
    }
}

#[tokio::test]
async fn a_truncated_entry_and_one_of_another_election_are_corrupt() {
    let rig = Rig::new();
    rig.lead("a").await;
    let other = Rig { election: ElectionName::new("other").unwrap(), ..rig.clone() };
    other.lead("a").await;
    let get = async |key: &str| {
        let entry = rig.store.get(key).await;
        entry.unwrap().unwrap().value
    };
    let mut torn = get(&rig.keys().lease).await;
    torn.truncate(torn.len() / 2);
    for value in [torn, get(&other.keys().lease).await] {
        rig.store.memory.overwrite(&rig.keys().lease, Some(value));
        let error = rig.leases.read(&rig.election).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

#[tokio::test]
async fn a_lease_that_was_deleted_or_replaced_by_hand_is_lost() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    rig.store.memory.overwrite(&rig.keys().lease, None);
    assert!(rig.is_lost(&lease).await);
    let b = rig.lead("b").await;
    assert_eq!(b.token, FencingToken(2));
    let old = serde_json::to_string(&rig.read().await.token).unwrap();
    let entry = rig.store.get(&rig.keys().lease).await;
    let text = String::from_utf8(entry.unwrap().unwrap().value).unwrap();
    let forged = text.replace(&format!("\"token\":{old}"), "\"token\":1");
    assert_ne!(forged, text);
    rig.store.memory.overwrite(&rig.keys().lease, Some(forged.into()));
    assert!(rig.is_lost(&b).await);
    let seen = rig.refused(&rig.bid("c")).await;
    assert_eq!((seen.state.clone(), seen.leader()), (RecordState::Held, None));
    assert_eq!(seen.opens_in, Some(TTL));
    rig.clock.advance(TTL);
    assert_eq!(rig.lead("c").await.token, FencingToken(3));
}

#[tokio::test]
async fn a_record_that_was_lost_under_a_live_lease_is_written_again_and_tokens_go_on() {
    let rig = Rig::new();
    let mut bid = rig.bid("a");
    bid.floor = FencingToken(10);
    let lease = rig.acquired(&bid).await;
    rig.store.memory.overwrite(&rig.keys().record, None);
    rig.refused(&rig.bid("b")).await;
    let lease = rig.renewed(&lease).await;
    rig.release(&rig.ending(&lease)).await;
    assert_eq!(rig.lead("b").await.token, FencingToken(12));
}

#[tokio::test]
async fn each_of_many_renewals_is_answered_in_its_place() {
    let rig = Rig::new();
    let mut renewals = Vec::new();
    for n in 0..300 {
        let rig = Rig { election: ElectionName::new(format!("e{n}")).unwrap(), ..rig.clone() };
        let lease = rig.lead("a").await;
        match n % 100 {
            7 => rig.store.memory.overwrite(&rig.keys().lease, None),
            8 => rig.store.memory.overwrite(&rig.keys().lease, Some(b"?".to_vec())),
            _ => {}
        }
        renewals.push(rig.renewal(&lease));
    }
    let answers = rig.leases.renew(&renewals).await;
    assert_eq!(answers.len(), 300);
    for (n, (answer, renewal)) in answers.into_iter().zip(&renewals).enumerate() {
        match answer.unwrap() {
            Renewal::Renewed(lease, _) => {
                assert_eq!(lease.election, renewal.lease.election);
                assert!(n % 100 != 7 && n % 100 != 8);
            }
            Renewal::Lost(_) => assert!(n % 100 == 7 || n % 100 == 8, "{n}"),
        }
    }
}
