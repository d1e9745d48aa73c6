//! A19: whoever is named as successor gets the election at once and the others wait out the window; a cool-down and a
//! pause keep everybody out; a request for an older term does nothing.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::{Action, ControlRequest, Lease, Next, Pause, RecordState, Requested};
use tenure_core::{CandidateId, ElectionName, RequestId};

use super::cx::{Candidate, Checked, Cx, assert_unchanged};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    successor_comes(&cx).await;
    successor_stays_away(&cx).await;
    cool_down(&cx).await;
    if cx.candidate("first").await.operator().is_some() {
        pause(&cx).await;
        old_request(&cx).await;
    } else {
        cx.leave_out("pauses and requests: the store has no operator");
    }
    Ok(())
}

async fn hand_off(first: &Candidate, lease: &Lease, to: &CandidateId, window: Duration) {
    let mut release = first.release_of(lease);
    release.next = Next::Successor { candidate: to.clone(), window };
    first.release_with(&release).await;
}

async fn successor_comes(cx: &Arc<Cx>) {
    let election = cx.election("handoff");
    let (first, second, third) =
        (cx.candidate("first").await, cx.candidate("second").await, cx.candidate("third").await);
    let lease = first.win(&election).await;
    // A window that nobody waits for.
    hand_off(&first, &lease, &second.id, cx.lasting()).await;
    for outsider in [&third, &first] {
        let record = outsider.refused(&election).await;
        let reserved = RecordState::Reserved { successor: Some(second.id.clone()) };
        assert_eq!(record.state, reserved, "{} came in the window", outsider.id);
    }
    let next = second.win(&election).await;
    assert!(next.token > lease.token);
    let state = third.refused(&election).await.state;
    assert_eq!(state, RecordState::Held, "the successor took it");
}

async fn successor_stays_away(cx: &Arc<Cx>) {
    let election = cx.election("stays-away");
    let (first, third) = (cx.candidate("first").await, cx.candidate("third").await);
    let lease = first.win(&election).await;
    let begun = cx.now();
    let window = cx.ttl() / 2;
    hand_off(&first, &lease, &cx.candidate("second").await.id, window).await;
    opens_after(cx, &election, &third, window, begun).await;
}

async fn cool_down(cx: &Arc<Cx>) {
    let election = cx.election("cool-down");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let lease = first.win(&election).await;
    let mut release = first.release_of(&lease);
    release.next = Next::CoolDown(cx.ttl());
    let begun = cx.now();
    first.release_with(&release).await;
    for candidate in [&first, &second] {
        let state = candidate.refused(&election).await.state;
        let reserved = RecordState::Reserved { successor: None };
        assert_eq!(state, reserved, "{} came in the cool-down", candidate.id);
    }
    opens_after(cx, &election, &second, cx.ttl(), begun).await;
}

async fn pause(cx: &Arc<Cx>) {
    let election = cx.election("paused");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let Some(operator) = second.operator() else { return };
    let pause = Pause { by: "operator".to_owned(), ends_in: cx.ttl() * 3 };
    let paused = operator.pause(&election, cx.attempt(), pause).await;
    assert!(paused.is_ok(), "pause: {paused:?}");
    for candidate in [&first, &second] {
        let state = candidate.refused(&election).await.state;
        assert_eq!(state, RecordState::Paused, "{} came in the pause", candidate.id);
    }
    for _ in 0..2 {
        let resumed = operator.resume(&election, cx.attempt()).await;
        assert!(resumed.is_ok(), "resume, also of what is not paused: {resumed:?}");
    }
    first.win(&election).await;
}

async fn old_request(cx: &Arc<Cx>) {
    let election = cx.election("old-request");
    let first = cx.candidate("first").await;
    let Some(operator) = first.operator() else { return };
    let old = first.win(&election).await;
    first.release(&old).await;
    let lease = first.win(&election).await;
    let before = first.record(&election).await;
    let request = ControlRequest {
        id: RequestId::new(&cx.random),
        token: old.token,
        by: "operator".to_owned(),
        action: Action::Resign,
        expires_in: cx.ttl(),
    };
    match operator.request(&election, cx.attempt(), request).await {
        Ok(requested) => assert_eq!(requested, Requested::WrongTerm(lease.token)),
        Err(error) => panic!("request: {error}"),
    }
    let after = first.record(&election).await;
    assert_unchanged(cx, &before, &after, "a request for an older term");
    first.renew(&lease).await;
}

/// Bids until it is let in: not before `closed` has passed since `begun`, and soon after.
pub(super) async fn opens_after(
    cx: &Cx,
    election: &ElectionName,
    candidate: &Candidate,
    closed: Duration,
    begun: Duration,
) {
    let limit = closed + closed / 10 + candidate.store.guarantees().ttl_grain + cx.slack();
    let (_, entered) = candidate.campaign(election, limit).await;
    let waited = entered.saturating_sub(begun);
    assert!(
        waited >= closed - closed / 50,
        "{election:?} was closed for {closed:?} but opened after {waited:?}"
    );
}
