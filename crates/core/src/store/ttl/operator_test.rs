//! Requests, pauses, lists and watches.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};

use super::support_test::{Rig, TTL, ms, secs};
use crate::name::{ElectionName, RequestId};
use crate::store::{
    Action, Answer, Answered, Change, ControlRequest, LeaseStore, Operator, Pause, RecordState, Release,
    Released, Renew, Renewal, Requested,
};
use crate::token::FencingToken;

fn resign(rig: &Rig, token: u64, expires_in: Duration) -> ControlRequest {
    ControlRequest {
        id: RequestId::new(&rig.random),
        token: FencingToken(token),
        by: "op".into(),
        action: Action::Resign,
        expires_in,
    }
}

async fn ask(rig: &Rig, request: &ControlRequest) -> Requested {
    rig.leases.request(&rig.election, rig.attempt(), request.clone()).await.unwrap()
}

async fn pause(rig: &Rig, ends_in: Duration) {
    let pause = Pause { by: "op".into(), ends_in };
    rig.leases.pause(&rig.election, rig.attempt(), pause).await.unwrap();
}

#[tokio::test]
async fn a_request_reaches_the_term_that_it_names_and_lengthens_nothing() {
    let rig = Rig::new();
    assert_eq!(ask(&rig, &resign(&rig, 1, TTL)).await, Requested::NoHolder);
    let lease = rig.lead("a").await;
    rig.clock.advance(secs(10));
    let wrong = ask(&rig, &resign(&rig, 7, TTL)).await;
    assert_eq!(wrong, Requested::WrongTerm(FencingToken(1)));
    let request = resign(&rig, 1, secs(15));
    assert_eq!(ask(&rig, &request).await, Requested::Accepted(FencingToken(1)));
    assert_eq!(ask(&rig, &request).await, Requested::Accepted(FencingToken(1)));
    let second = ask(&rig, &resign(&rig, 1, TTL)).await;
    assert_eq!(second, Requested::Busy(request.id));
    assert_eq!(rig.read().await.time_left, Some(secs(20)));
    rig.clock.advance(secs(5));
    for holder in [&rig, &rig.elsewhere()] {
        let renewal = Renew { lease: rig.read().await.lease_of(lease.bid).unwrap(), ..rig.renewal(&lease) };
        let Renewal::Renewed(_, Some(found)) = holder.renew(&renewal).await.unwrap() else {
            panic!("the request did not come along")
        };
        assert_eq!((found.id, found.expires_in), (request.id, secs(10)));
    }
    rig.clock.advance(secs(10));
    assert_eq!(rig.read().await.request, None, "it ends by itself");
}

#[tokio::test]
async fn a_request_is_answered_once_by_a_renewal_or_a_release() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let first = resign(&rig, 1, TTL);
    ask(&rig, &first).await;
    let answer = Answered { id: first.id, answer: Answer::Refused("busy".into()) };
    let renewal = Renew { answer: Some(answer.clone()), ..rig.renewal(&lease) };
    let Renewal::Renewed(lease, None) = rig.renew(&renewal).await.unwrap() else {
        panic!("the request still stands")
    };
    let seen = rig.read().await;
    assert_eq!((seen.request, seen.answer), (None, Some(answer)));
    assert_eq!(ask(&rig, &first).await, Requested::Accepted(FencingToken(1)));
    assert_eq!(rig.read().await.request, None, "not a second time");
    let second = resign(&rig, 1, TTL);
    assert_eq!(ask(&rig, &second).await, Requested::Accepted(FencingToken(1)));
    let done = Answered { id: second.id, answer: Answer::Done };
    let release = Release { answer: Some(done.clone()), ..rig.ending(&lease) };
    assert_eq!(rig.release(&release).await, Released::Released);
    assert_eq!(rig.read().await.answer, Some(done));
}

/// The steps of a release: the lease's entry, then the record.
const STEPS_OF_RELEASE: usize = 2;

#[tokio::test]
async fn a_request_that_is_written_while_the_term_ends_is_either_answered_for_good_or_not_accepted() {
    for step in 0..STEPS_OF_RELEASE {
        let rig = Rig::new();
        let lease = rig.lead("a").await;
        let first = resign(&rig, 1, TTL);
        ask(&rig, &first).await;
        let refused = Answered { id: first.id, answer: Answer::Refused("busy".into()) };
        rig.renew(&Renew { answer: Some(refused), ..rig.renewal(&lease) }).await.unwrap();
        let lease = rig.read().await.lease_of(lease.bid).unwrap();
        // The request has found the holder and is about to be written.
        let (asks, written) = rig.store.hold(0);
        let (operator, request) = (rig.elsewhere(), resign(&rig, 1, TTL));
        let second = request.id;
        let asked = tokio::spawn(async move { ask(&operator, &request).await });
        asks.await.unwrap();
        // The release is stopped before this step.
        let (reached, go) = rig.store.hold(step);
        let (holder, ending) = (rig.elsewhere(), rig.ending(&lease));
        let released = tokio::spawn(async move { holder.release(&ending).await });
        reached.await.unwrap();
        written.send(()).unwrap();
        let asked = asked.await.unwrap();
        let before = rig.read().await.answer.unwrap().id;
        go.send(()).unwrap();
        assert_eq!(released.await.unwrap(), Released::Released);
        let after = rig.read().await.answer.unwrap().id;
        rig.clock.advance(TTL);
        let at_last = rig.read().await.answer.unwrap().id;
        let (told, stays) = match step {
            0 => (Requested::Accepted(FencingToken(1)), second),
            _ => (Requested::NoHolder, first.id),
        };
        assert_eq!((asked, before, after, at_last), (told, first.id, stays, stays), "step {step}");
    }
}

#[tokio::test]
async fn a_request_that_ends_its_term_at_once_was_accepted() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let (reached, go) = rig.store.hold_answer(0);
    let (operator, request) = (rig.elsewhere(), resign(&rig, 1, TTL));
    let id = request.id;
    let asked = tokio::spawn(async move { ask(&operator, &request).await });
    reached.await.unwrap();
    let done = Answered { id, answer: Answer::Done };
    assert_eq!(
        rig.release(&Release { answer: Some(done.clone()), ..rig.ending(&lease) }).await,
        Released::Released
    );
    go.send(()).unwrap();
    assert_eq!(asked.await.unwrap(), Requested::Accepted(FencingToken(1)));
    assert_eq!(rig.read().await.answer, Some(done));
}

#[tokio::test]
async fn a_request_does_not_reach_a_later_term() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    ask(&rig, &resign(&rig, 1, secs(3600))).await;
    rig.release(&rig.ending(&lease)).await;
    let lease = rig.lead("b").await;
    let Renewal::Renewed(_, None) = rig.renew(&rig.renewal(&lease)).await.unwrap() else {
        panic!("a request for token 1 came to token 2")
    };
    assert_eq!(rig.read().await.request, None);
    let request = resign(&rig, 2, TTL);
    assert_eq!(ask(&rig, &request).await, Requested::Accepted(FencingToken(2)));
}

#[tokio::test]
async fn asking_a_dead_leader_again_and_again_does_not_keep_its_lease_alive() {
    let rig = Rig::new();
    rig.lead("a").await;
    for _ in 0..3 {
        rig.clock.advance(secs(10) - ms(1));
        ask(&rig, &resign(&rig, 1, secs(1))).await;
    }
    rig.clock.advance(ms(3));
    rig.lead("b").await;
}

#[tokio::test]
async fn a_pause_refuses_bids_but_not_renewals_and_ends_by_itself() {
    let rig = Rig::new();
    pause(&rig, secs(60)).await;
    let seen = rig.refused(&rig.bid("a")).await;
    assert_eq!((seen.state, seen.opens_in), (RecordState::Paused, Some(secs(60))));
    rig.clock.advance(secs(60));
    let lease = rig.lead("a").await;
    pause(&rig, secs(100)).await;
    let lease = rig.renewed(&lease).await;
    rig.release(&rig.ending(&lease)).await;
    pause(&rig, secs(200)).await;
    let seen = rig.refused(&rig.bid("b")).await;
    assert_eq!((seen.state, seen.opens_in), (RecordState::Paused, Some(secs(200))));
    rig.clock.advance(secs(199));
    rig.refused(&rig.bid("b")).await;
    rig.leases.resume(&rig.election, rig.attempt()).await.unwrap();
    rig.leases.resume(&rig.election, rig.attempt()).await.unwrap();
    assert_eq!(rig.lead("b").await.token, FencingToken(2));
}

#[tokio::test]
async fn a_pause_that_is_answered_stops_a_bid_that_did_not_see_it() {
    let rig = Rig::new();
    // The bid has the place and is about to draw a token.
    let (reached, go) = rig.store.hold(1);
    let bidder = rig.elsewhere();
    let bid = rig.bid("a");
    let call = tokio::spawn(async move { bidder.refused(&bid).await });
    reached.await.unwrap();
    pause(&rig, secs(60)).await;
    go.send(()).unwrap();
    let seen = call.await.unwrap();
    assert_eq!((seen.state, seen.token), (RecordState::Paused, FencingToken(0)));
    rig.clock.advance(secs(60));
    assert_eq!(rig.lead("b").await.token, FencingToken(1));
}

#[tokio::test]
async fn a_pause_that_comes_again_is_new_to_a_bid_that_saw_its_end() {
    let rig = Rig::new();
    let (first, second) = (rig.attempt(), rig.attempt());
    let pause_with = async |attempt| {
        let pause = Pause { by: "op".into(), ends_in: secs(60) };
        rig.leases.pause(&rig.election, attempt, pause).await.unwrap();
    };
    let resume = async || rig.leases.resume(&rig.election, rig.attempt()).await.unwrap();
    pause_with(first).await;
    resume().await;
    let (reached, go) = rig.store.hold(1);
    let (bidder, bid) = (rig.elsewhere(), rig.bid("a"));
    let call = tokio::spawn(async move { bidder.refused(&bid).await });
    reached.await.unwrap();
    pause_with(second).await;
    resume().await;
    pause_with(first).await;
    go.send(()).unwrap();
    assert_eq!(call.await.unwrap().state, RecordState::Paused);
}

#[tokio::test]
async fn elections_are_listed_exactly_and_do_not_touch_each_other() {
    let rig = Rig::new();
    let longest = "x".repeat(255);
    let mut names = vec!["a", "a b", "a/b", "lease/a", "größe:*{}", &longest];
    for name in &names {
        let rig = Rig { election: ElectionName::new(name).unwrap(), ..rig.clone() };
        assert_eq!(rig.lead("a").await.token, FencingToken(1), "{name}");
    }
    names.sort_unstable();
    let listed = rig.leases.list("").await.unwrap();
    assert_eq!(listed.iter().map(ElectionName::as_str).collect::<Vec<_>>(), names);
    let listed = rig.leases.list("a").await.unwrap();
    assert_eq!(listed.len(), 3);
    assert_eq!(rig.leases.list("nothing").await.unwrap(), []);
    let unknown = ElectionName::new("unknown").unwrap();
    assert_eq!(rig.leases.read(&unknown).await.unwrap(), None);
}

#[tokio::test]
async fn a_watch_tells_release_holder_pause_and_request_and_passes_over_renewals() {
    let rig = Rig::new();
    let mut changes = rig.leases.watch(std::slice::from_ref(&rig.election)).unwrap();
    let lease = rig.lead("a").await;
    let mut leader = None;
    while leader.is_none() {
        let Some(Change::Record(record)) = changes.next().await else { panic!("no record") };
        leader = record.leader().map(|holder| holder.bid);
    }
    assert_eq!(leader, Some(lease.bid));
    let mut lease = lease;
    for _ in 0..5 {
        lease = rig.renewed(&lease).await;
    }
    ask(&rig, &resign(&rig, 1, TTL)).await;
    let Some(Change::Record(record)) = changes.next().await else { panic!("no record") };
    assert!(record.request.is_some(), "{record:?}");
    rig.release(&rig.ending(&lease)).await;
    let Some(Change::Record(record)) = changes.next().await else { panic!("no record") };
    assert_eq!(record.state, RecordState::Free);
    pause(&rig, TTL).await;
    let Some(Change::Record(record)) = changes.next().await else { panic!("no record") };
    assert_eq!(record.state, RecordState::Paused);
}

#[tokio::test]
async fn a_renewal_costs_whoever_watches_one_read() {
    let rig = Rig::new();
    let lease = rig.lead("a").await;
    let mut changes = rig.leases.watch(std::slice::from_ref(&rig.election)).unwrap();
    let lease = rig.renewed(&lease).await;
    assert!(matches!(changes.next().await, Some(Change::Record(_))), "the first look tells who leads");
    rig.renewed(&lease).await;
    rig.store.count();
    // Nothing to tell: the renewal is looked at, and the watch waits on.
    assert!(changes.next().now_or_never().is_none());
    assert_eq!(rig.store.count(), (1, 0));
}
