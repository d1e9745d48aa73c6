//! A26: an operator's request reaches the term that it names and no other, once, and lengthens nothing; a pause keeps
//! newcomers out, not the holder, and ends by itself.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::store::{
    Action, Answer, Answered, ControlRequest, Lease, Pause, RecordState, Renewal, Requested,
};
use tenure_core::{ElectionName, FencingToken, RequestId};

use super::a19_successor::opens_after;
use super::cx::{Candidate, Checked, Cx};

pub(super) async fn check(cx: Arc<Cx>) -> Checked {
    if cx.candidate("operator").await.operator().is_none() {
        return Err("the store has no operator");
    }
    where_it_goes(&cx).await;
    answered_once(&cx).await;
    not_in_a_later_term(&cx).await;
    runs_out(&cx).await;
    pause(&cx).await;
    Ok(())
}

fn resign(cx: &Cx, token: FencingToken) -> ControlRequest {
    ControlRequest {
        id: RequestId::new(&cx.random),
        token,
        by: "operator".to_owned(),
        action: Action::Resign,
        expires_in: cx.ttl() * 3,
    }
}

async fn ask(cx: &Cx, operator: &Candidate, election: &ElectionName, request: &ControlRequest) -> Requested {
    let Some(operator) = operator.operator() else {
        panic!("one handle has an operator, the other has none");
    };
    match operator.request(election, cx.attempt(), request.clone()).await {
        Ok(requested) => requested,
        Err(error) => panic!("request: {error}"),
    }
}

/// Renews and tells which request came along.
async fn brought(holder: &Candidate, lease: &Lease, answer: Option<Answered>) -> (Lease, Option<RequestId>) {
    let mut renewal = holder.renewal(lease);
    renewal.answer = answer;
    match holder.try_renew(&renewal).await {
        Ok(Renewal::Renewed(lease, request)) => (lease, request.map(|request| request.id)),
        other => panic!("{} should renew {:?} but: {other:?}", holder.id, lease.election),
    }
}

async fn where_it_goes(cx: &Arc<Cx>) {
    let election = cx.election("asked");
    let (first, operator) = (cx.candidate("first").await, cx.candidate("operator").await);
    let early = resign(cx, FencingToken(1));
    assert_eq!(ask(cx, &operator, &election, &early).await, Requested::NoHolder);

    let lease = first.win(&election).await;
    for token in [FencingToken(lease.token.0 + 1), FencingToken(lease.token.0 - 1)] {
        let wrong = resign(cx, token);
        assert_eq!(ask(cx, &operator, &election, &wrong).await, Requested::WrongTerm(lease.token));
    }
    let before = operator.record(&election).await;
    assert_eq!(before.request, None, "a request for another term stands in the record");

    cx.sleep(cx.ttl() / 4).await;
    let request = resign(cx, lease.token);
    for _ in 0..2 {
        let requested = ask(cx, &operator, &election, &request).await;
        assert_eq!(requested, Requested::Accepted(lease.token));
    }
    let after = operator.record(&election).await;
    assert_eq!(after.request.as_ref().map(|r| r.id), Some(request.id), "it waits in the record");
    let passed = cx.ttl() / 4 - cx.ttl() / 50;
    assert!(
        after.time_left <= before.time_left.map(|left| left.saturating_sub(passed)),
        "a request lengthened the lease: {:?}, then {:?}",
        before.time_left,
        after.time_left
    );
    let other = resign(cx, lease.token);
    assert_eq!(ask(cx, &operator, &election, &other).await, Requested::Busy(request.id));
}

async fn answered_once(cx: &Arc<Cx>) {
    let election = cx.election("answered");
    let (first, operator) = (cx.candidate("first").await, cx.candidate("operator").await);
    let lease = first.win(&election).await;
    let request = resign(cx, lease.token);
    let requested = ask(cx, &operator, &election, &request).await;
    assert_eq!(requested, Requested::Accepted(lease.token));

    let (lease, came) = brought(&first, &lease, None).await;
    assert_eq!(came, Some(request.id), "the renewal brings it");
    let reconnected = cx.candidate("first").await;
    let (lease, came) = brought(&reconnected, &lease, None).await;
    assert_eq!(came, Some(request.id), "it survives the holder's reconnect");

    let refused = Answer::Refused("not now".to_owned());
    let answer = |id: RequestId, answer: &Answer| Some(Answered { id, answer: answer.clone() });
    let stranger = RequestId::new(&cx.random);
    let (lease, came) = brought(&reconnected, &lease, answer(stranger, &Answer::Done)).await;
    assert_eq!(came, Some(request.id), "an answer to something else answers nothing");
    let (lease, came) = brought(&reconnected, &lease, answer(request.id, &refused)).await;
    assert_eq!(came, None, "answered, it is gone");
    let (lease, came) = brought(&reconnected, &lease, answer(request.id, &Answer::Done)).await;
    assert_eq!(came, None, "answered, it does not come back");
    let record = operator.record(&election).await;
    assert_eq!(record.request, None, "answered, it is gone from the record");
    assert_eq!(record.answer, answer(request.id, &refused), "the first answer stands");

    // The operator did not hear that it was accepted, and asks again.
    let requested = ask(cx, &operator, &election, &request).await;
    assert_eq!(requested, Requested::Accepted(lease.token));
    let (_, came) = brought(&reconnected, &lease, None).await;
    assert_eq!(came, None, "an answered request is not delivered again");
}

async fn not_in_a_later_term(cx: &Arc<Cx>) {
    let election = cx.election("later");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let lease = first.win(&election).await;
    let request = resign(cx, lease.token);
    ask(cx, &second, &election, &request).await;
    first.release(&lease).await;
    assert_eq!(ask(cx, &second, &election, &request).await, Requested::NoHolder);

    let lease = second.win(&election).await;
    let (lease, came) = brought(&second, &lease, None).await;
    assert_eq!(came, None, "a later term was brought a request that is not for it");
    assert_eq!(ask(cx, &first, &election, &request).await, Requested::WrongTerm(lease.token));
}

async fn runs_out(cx: &Arc<Cx>) {
    let election = cx.election("runs-out");
    let (first, operator) = (cx.candidate("first").await, cx.candidate("operator").await);
    let lease = first.win_lasting(&election).await;
    let mut request = resign(cx, lease.token);
    request.expires_in = cx.ttl() / 2;
    let requested = ask(cx, &operator, &election, &request).await;
    assert_eq!(requested, Requested::Accepted(lease.token));
    // Whoever times it himself begins with the first look.
    operator.record(&election).await;
    let (lease, came) = brought(&first, &lease, None).await;
    assert_eq!(came, Some(request.id));
    cx.sleep(cx.ttl() * 3 / 4).await;
    let (_, came) = brought(&first, &lease, None).await;
    assert_eq!(came, None, "a request outlived its time");
}

async fn pause(cx: &Arc<Cx>) {
    let election = cx.election("paused");
    let (first, second) = (cx.candidate("first").await, cx.candidate("second").await);
    let lease = first.win(&election).await;
    let Some(operator) = second.operator() else {
        panic!("one handle has an operator, the other has none");
    };
    let before = second.record(&election).await.time_left;
    cx.sleep(cx.ttl() / 4).await;
    let pause = Pause { by: "operator".to_owned(), ends_in: cx.ttl() };
    let begun = cx.now();
    let paused = operator.pause(&election, cx.attempt(), pause).await;
    assert!(paused.is_ok(), "pause: {paused:?}");
    let record = second.record(&election).await;
    assert_eq!(record.state, RecordState::Held, "a pause ended a running term");
    let shown = record.pause.as_ref().map(|pause| pause.by.as_str());
    assert_eq!(shown, Some("operator"), "the record tells who paused");
    let passed: Duration = cx.ttl() / 4 - cx.ttl() / 50;
    assert!(
        record.time_left <= before.map(|left| left.saturating_sub(passed)),
        "a pause lengthened the lease: {before:?}, then {:?}",
        record.time_left
    );

    let lease = first.renew(&lease).await;
    first.release(&lease).await;
    let state = second.refused(&election).await.state;
    assert_eq!(state, RecordState::Paused, "a newcomer in a pause");
    opens_after(cx, &election, &second, cx.ttl(), begun).await;
}
