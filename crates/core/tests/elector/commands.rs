//! What leaders are told: resign with a pause, hand off, operators' requests, pause and resume.

use std::time::Duration;

use tenure_core::elector::{CommandError, ElectorState, Finish, RunError};
use tenure_core::store::{
    Action, Answer, ControlRequest, ErrorKind, LeaseRecord, Operator, Pause, RecordState, Requested, TermEnd,
};
use tenure_core::{Attempt, CandidateId, FencingToken, Random, RequestId, Settings};
use tenure_testkit::fault::{Fault, Verb};

use crate::b15_work_cancelled::held_outside;
use crate::world::{RENEW, RETRY, TICK, TTL, World, count, election, in_short, ms, mute, secs};

#[tokio::test(start_paused = true)]
async fn resigning_gives_others_the_election_and_the_leader_stands_again_after_the_pause() {
    for (pause, waits) in [(None, RETRY), (Some(secs(60)), secs(60))] {
        let world = World::new();
        let handle = world.candidate("a").elector("e").start().unwrap();
        let mut ears = world.ears(&handle);
        world.leads(&handle).await;
        world.sleep(secs(12)).await;
        handle.resign(pause).await.unwrap();
        assert!(!handle.is_leader());
        assert_eq!(world.record().await.state, RecordState::Free, "released when it returns");
        ears.term_ended().await;
        let again = ears.elected().await;
        let at = world.time_of(again.last().unwrap());
        assert!((secs(12) + waits..=secs(12) + waits + TICK).contains(&at), "{at:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_pause_begins_when_the_term_has_ended_however_long_the_work_took() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let mut ears = world.ears(&handle);
    let resigning = tokio::spawn({
        let handle = handle.clone();
        async move { handle.resign(Some(secs(3))).await }
    });
    leadership.cancelled().await;
    world.sleep(secs(20)).await;
    drop(leadership);
    resigning.await.unwrap().unwrap();
    let elected = ears.elected().await;
    assert!(world.time_of(elected.last().unwrap()) >= secs(23));
}

#[tokio::test(start_paused = true)]
async fn only_a_leader_can_resign_or_hand_off() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    let follower = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(1)).await;
    assert_eq!(follower.resign(None).await, Err(CommandError::NotLeading));
    assert_eq!(follower.handoff(world.id("c")).await, Err(CommandError::NotLeading));
    assert_eq!(leader.handoff(world.id("a")).await, Err(CommandError::OwnSuccessor(world.id("a"))));
    assert!(leader.is_leader());
    leader.stop().await;
    assert_eq!(leader.resign(None).await, Err(CommandError::Stopped));
}

#[tokio::test(start_paused = true)]
async fn a_handoff_lets_the_named_candidate_lead_at_once_and_nobody_else() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    let others: Vec<_> =
        (0..10).map(|n| world.candidate(&format!("o{n}")).elector("e").start().unwrap()).collect();
    world.sleep(secs(12)).await;
    leader.handoff(world.id("o7")).await.unwrap();
    world.leads(&others[7]).await;
    assert_eq!(world.now(), secs(12));
    assert_eq!(others[7].status().token.0, 2);
    world.sleep(secs(100)).await;
    assert!(others[7].is_leader());
    assert_eq!(others.iter().map(|other| other.status().terms).sum::<u32>(), 1);
    assert_eq!(leader.status().leader, Some(world.id("o7")), "the old leader stands by again");
}

#[tokio::test(start_paused = true)]
async fn where_nobody_is_woken_the_successor_has_time_to_look() {
    let world = World::new();
    let muted = |name: &str| world.candidate_on(mute(world.store.clone()), name, Settings::ttl(TTL));
    let leader = muted("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    let others: Vec<_> = (0..10).map(|n| muted(&format!("o{n}")).elector("e").start().unwrap()).collect();
    world.sleep(secs(12)).await;
    leader.handoff(world.id("o7")).await.unwrap();
    world.within(RETRY + TICK, "led", world.leads(&others[7])).await;
    assert_eq!(world.record().await.token.0, 2);
}

#[tokio::test(start_paused = true)]
async fn a_dead_successor_does_not_block_the_election_for_ever() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    let other = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(12)).await;
    leader.handoff(CandidateId::new("nobody").unwrap()).await.unwrap();
    assert!(matches!(world.record().await.state, RecordState::Reserved { .. }));
    world.sleep(RETRY - ms(100)).await;
    assert_eq!(
        (leader.status().state, other.status().state),
        (ElectorState::Following, ElectorState::Following)
    );
    world.sleep(ms(200)).await;
    let led = [&leader, &other].iter().filter(|handle| handle.is_leader()).count();
    assert_eq!((led, world.record().await.token.0), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_handoff_waits_for_the_work_first() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let b = world.candidate("b").elector("e").start().unwrap();
    let to = world.id("b");
    let handing = tokio::spawn(async move { handle.handoff(to).await });
    leadership.cancelled().await;
    world.sleep(secs(3)).await;
    assert_eq!(b.status().terms, 0);
    drop(leadership);
    handing.await.unwrap().unwrap();
    world.leads(&b).await;
    assert_eq!(world.now(), secs(3));
}

struct Requests {
    random: Random,
}

impl Requests {
    fn new() -> Self {
        Self { random: Random::from_seed(99) }
    }

    async fn ask(&self, world: &World, token: u64, action: Action) -> (RequestId, Requested) {
        let id = RequestId::new(&self.random);
        let (token, by) = (FencingToken(token), "operator".to_owned());
        let request = ControlRequest { id, token, by, action, expires_in: secs(60) };
        let attempt = Attempt::new(&self.random);
        (id, world.store.request(&election(), attempt, request).await.unwrap())
    }
}

fn answer_to(record: &LeaseRecord, id: RequestId) -> Option<Answer> {
    assert!(record.request.as_ref().is_none_or(|request| request.id != id), "still waiting");
    record.answer.clone().filter(|answered| answered.id == id).map(|answered| answered.answer)
}

#[tokio::test(start_paused = true)]
async fn a_request_to_resign_is_done_at_once_answered_and_told_once() {
    let world = World::new();
    let a = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&a);
    world.leads(&a).await;
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(12)).await;
    let (id, requested) = Requests::new().ask(&world, 1, Action::Resign).await;
    assert_eq!(requested, Requested::Accepted(FencingToken(1)));
    world.leads(&b).await;
    assert_eq!(world.now(), secs(12));
    assert_eq!(answer_to(&world.record().await, id), Some(Answer::Done));
    let events = ears.so_far();
    assert_eq!(in_short(&events)[..3], ["elected 1", "requested 1", "term ended 1: resigned"]);
    world.sleep(secs(100)).await;
    assert_eq!((b.status().terms, b.is_leader()), (1, true), "it does nothing in a later term");
}

#[tokio::test(start_paused = true)]
async fn a_request_to_hand_off_is_done_and_answered() {
    let world = World::new();
    let a = world.candidate("a").elector("e").start().unwrap();
    world.leads(&a).await;
    let others: Vec<_> =
        (0..5).map(|n| world.candidate(&format!("o{n}")).elector("e").start().unwrap()).collect();
    world.sleep(secs(12)).await;
    let (id, _) = Requests::new().ask(&world, 1, Action::HandOff { to: world.id("o3") }).await;
    world.leads(&others[3]).await;
    assert_eq!(world.now(), secs(12));
    assert_eq!(answer_to(&world.record().await, id), Some(Answer::Done));
}

#[tokio::test(start_paused = true)]
async fn a_request_comes_with_the_next_renewal_where_nobody_is_woken() {
    let world = World::new();
    let a = world.candidate_on(mute(world.store.clone()), "a", Settings::ttl(TTL));
    let handle = a.elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    world.sleep(secs(3)).await;
    let (id, _) = Requests::new().ask(&world, 1, Action::Resign).await;
    let ended = ears.term_ended().await;
    assert!((RENEW..=RENEW + TICK).contains(&world.time_of(ended.last().unwrap())));
    world.is_free().await;
    assert_eq!(answer_to(&world.record().await, id), Some(Answer::Done));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_done_is_refused_with_the_reason_and_the_term_goes_on() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    world.leads(&handle).await;
    world.sleep(secs(3)).await;
    let requests = Requests::new();
    for round in 0..2 {
        let (id, _) = requests.ask(&world, 1, Action::HandOff { to: world.id("a") }).await;
        world.sleep(ms(150)).await;
        let Some(Answer::Refused(why)) = answer_to(&world.record().await, id) else {
            panic!("round {round}")
        };
        assert!(why.contains("leads already"), "{why}");
    }
    assert!(handle.is_leader());
    assert_eq!(count(&ears.so_far(), "requested"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_for_another_term_does_nothing() {
    let world = World::new();
    let handle = world.candidate("a").elector("e").start().unwrap();
    world.leads(&handle).await;
    let (_, requested) = Requests::new().ask(&world, 7, Action::Resign).await;
    assert_eq!(requested, Requested::WrongTerm(FencingToken(1)));
    world.sleep(secs(100)).await;
    assert!(handle.is_leader() && handle.status().terms == 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_although_a_renewal_was_under_way_when_it_came() {
    for action in [Action::Resign, Action::HandOff { to: World::new().id("x") }] {
        let world = World::new();
        let refused = matches!(action, Action::HandOff { .. });
        let action = if refused { Action::HandOff { to: world.id("a") } } else { action };
        let a = world.candidate("a");
        let (handle, leadership) = held_outside(&world, &a).await;
        let mut ears = world.ears(&handle);
        a.faults.next(Verb::Renew, Fault::Delay(secs(2)));
        world.sleep(RENEW + secs(1)).await;
        let (id, _) = Requests::new().ask(&world, 1, action).await;
        if refused {
            world.sleep(secs(2)).await;
            assert!(matches!(answer_to(&world.record().await, id), Some(Answer::Refused(_))));
            assert!(handle.is_leader());
            assert_eq!(count(&ears.so_far(), "requested"), 1, "by the watch, and again with the renewal");
        } else {
            world.within(TICK, "told", leadership.cancelled()).await;
            // The renewal that knows nothing of it is answered before the work has ended.
            world.sleep(secs(2)).await;
            drop(leadership);
            world.is_free().await;
            assert_eq!(answer_to(&world.record().await, id), Some(Answer::Done));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_when_the_lease_is_given_back_and_not_before() {
    let world = World::new();
    let a = world.candidate("a");
    let (_handle, leadership) = held_outside(&world, &a).await;
    let (id, _) = Requests::new().ask(&world, 1, Action::Resign).await;
    leadership.cancelled().await;
    // Renewed while it drains: nothing is done yet.
    world.sleep(RENEW * 2).await;
    let record = world.record().await;
    assert_eq!((record.request.map(|request| request.id), record.answer), (Some(id), None));
    drop(leadership);
    world.is_free().await;
    assert_eq!(answer_to(&world.record().await, id), Some(Answer::Done));
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_term_is_lost_while_it_drains_is_not_said_to_be_done() {
    // Taken away by somebody else: the store says so.
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let (id, _) = Requests::new().ask(&world, 1, Action::HandOff { to: world.id("b") }).await;
    leadership.cancelled().await;
    world.take_away().await;
    world.sleep(secs(1)).await;
    drop(leadership);
    handle.stop().await;
    let answer = answer_to(&world.record().await, id);
    assert!(matches!(&answer, Some(Answer::Refused(why)) if why.contains("ended before")), "{answer:?}");

    // Run out: nobody of that term is left to answer, and the record says how it ended.
    let world = World::new();
    let a = world.candidate("a");
    let (_handle, leadership) = held_outside(&world, &a).await;
    let (id, _) = Requests::new().ask(&world, 1, Action::Resign).await;
    leadership.cancelled().await;
    a.faults.always(Verb::Renew, Fault::Before(ErrorKind::Unavailable));
    let b = world.candidate("b").elector("e").start().unwrap();
    world.leads(&b).await;
    drop(leadership);
    world.sleep(secs(60)).await;
    let record = world.record().await;
    assert_eq!(answer_to(&record, id), None);
    assert_eq!(record.last_terms.last().unwrap().end, Some(TermEnd::Expired));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_when_the_term_is_ending_is_refused() {
    let world = World::new();
    let a = world.candidate("a");
    let (handle, leadership) = held_outside(&world, &a).await;
    let stopping = tokio::spawn(async move { handle.stop().await });
    leadership.cancelled().await;
    world.sleep(secs(3)).await;
    let (id, _) = Requests::new().ask(&world, 1, Action::Resign).await;
    world.sleep(RENEW * 2).await;
    drop(leadership);
    stopping.await.unwrap();
    let answer = answer_to(&world.record().await, id);
    assert!(
        matches!(&answer, Some(Answer::Refused(why)) if why.contains("ends already: stopped")),
        "{answer:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_keeps_anybody_new_from_leading_and_leaves_the_leader_alone() {
    let world = World::new();
    let random = Random::from_seed(5);
    let pause = |ends_in| Pause { by: "operator".into(), ends_in };
    let a = world.candidate("a").elector("e").start().unwrap();
    world.leads(&a).await;
    let b = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(12)).await;
    world.store.pause(&election(), Attempt::new(&random), pause(secs(600))).await.unwrap();
    world.sleep(secs(100)).await;
    assert!(a.is_leader() && a.status().terms == 1, "a running term goes on");
    a.resign(None).await.unwrap();
    world.sleep(secs(100)).await;
    assert_eq!((a.status().terms, b.status().terms, world.record().await.state), (1, 0, RecordState::Paused));
    let before = world.now();
    world.store.resume(&election(), Attempt::new(&random)).await.unwrap();
    world.sleep(ms(1)).await;
    assert_eq!(usize::from(a.is_leader()) + usize::from(b.is_leader()), 1);
    assert!(world.now() <= before + ms(2), "woken at once");
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_pause_ends_by_itself() {
    let world = World::new();
    let random = Random::from_seed(5);
    let pause = Pause { by: "operator".into(), ends_in: secs(600) };
    world.store.pause(&election(), Attempt::new(&random), pause).await.unwrap();
    let handle = world.candidate("a").elector("e").start().unwrap();
    let mut ears = world.ears(&handle);
    let elected = ears.elected().await;
    let at = world.time_of(elected.last().unwrap());
    assert!((secs(600)..=secs(600) + ms(100)).contains(&at), "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_finishes_says_how_and_when_the_next_term_may_begin() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    let other = world.candidate("b").elector("e").start().unwrap();
    world.sleep(secs(12)).await;
    let finish = Finish { succeeded: true, cool_down: secs(4), pause: secs(60) };
    leader.finish(finish).await.unwrap();
    let record = world.record().await;
    assert_eq!(record.state, RecordState::Reserved { successor: None });
    assert_eq!((record.opens_in, record.last_success), (Some(secs(4)), Some(secs(0))));
    let term = record.last_terms.last().unwrap();
    assert_eq!((term.end, term.cool_down_ms), (Some(TermEnd::Succeeded), Some(4000)));
    world.leads(&other).await;
    assert!((secs(16)..secs(17)).contains(&world.now()), "{:?}", world.now());
    let previous = world.record().await.leader().unwrap().previous.clone().unwrap();
    assert_eq!(previous.cool_down_ms, Some(4000), "the next leader sees it and can ask for longer");
    other.finish(Finish::default()).await.unwrap();
    let record = world.record().await;
    assert_eq!(record.last_terms.last().unwrap().end, Some(TermEnd::Released));
    assert_eq!(
        record.last_success,
        Some(world.now() - secs(12)),
        "an end without success keeps the last one"
    );
    world.leads(&other).await;
    assert!(!leader.is_leader(), "it rests");
}

#[tokio::test(start_paused = true)]
async fn short_terms_whose_work_was_done_are_not_flapping() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    for _ in 0..10 {
        world.leads(&leader).await;
        leader.finish(Finish::default()).await.unwrap();
    }
    world.leads(&leader).await;
    assert!(world.now() <= TICK * 10, "{:?}", world.now());
}

#[tokio::test(start_paused = true)]
async fn whoever_finishes_hears_that_the_release_was_not_answered_or_came_too_late() {
    let world = World::new();
    let a = world.candidate("a");
    let handle = a.elector("e").start().unwrap();
    world.leads(&handle).await;
    a.faults.next(Verb::Release, Fault::Hang);
    assert_eq!(handle.finish(Finish::default()).await, Err(CommandError::Unanswered));
    world.leads(&handle).await;
    a.faults.next(Verb::Release, Fault::After(ErrorKind::Unavailable));
    assert_eq!(handle.finish(Finish::default()).await, Ok(()), "the repetition found it done");
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_stops_and_so_does_a_run() {
    let world = World::new();
    let leader = world.candidate("a").elector("e").start().unwrap();
    world.leads(&leader).await;
    let ran = world.candidate("b").elector("e").give_up_after(secs(7)).run(|_| async {}).await;
    assert_eq!(ran, Err(RunError::Stopped));
    assert!((secs(7)..secs(8)).contains(&world.now()), "{:?}", world.now());
    let handle = world.candidate("c").elector("e").give_up_after(Duration::ZERO).start().unwrap();
    world.reaches(&handle, ElectorState::Stopped).await;
    assert!(world.now() < secs(8), "refused at once");
    leader.stop().await;
    let handle = world.candidate("d").elector("e").give_up_after(secs(7)).start().unwrap();
    world.leads(&handle).await;
    world.sleep(secs(60)).await;
    assert!(handle.is_leader(), "a term that began in time is led to its end");
    handle.resign(Some(Duration::ZERO)).await.unwrap();
    world.reaches(&handle, ElectorState::Stopped).await;
    assert_eq!(
        world.record().await.last_terms.last().unwrap().token,
        FencingToken(2),
        "and it did not bid once more"
    );
}
