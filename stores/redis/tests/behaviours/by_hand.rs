//! What people and rules get wrong by hand: nothing is half done, and what cannot be understood is called so.

use std::time::Duration;

use tenure_core::Random;
use tenure_core::name::RequestId;
use tenure_core::store::{
    Acquisition, Action, Answer, Answered, ControlRequest, ErrorKind, Pause, RecordState, Renew, Renewal,
};
use tenure_testkit::proxy::{Direction, Fault, Proxy, Resp};
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::fixture::keys;
use crate::support::{Candidate, here, name, open};

const TTL: Duration = Duration::from_secs(60);
const OPTIONS: &str = "survives_restart=true";

async fn fields(server: &Redis, key: &str) -> Vec<String> {
    let reply = server.call(&["HGETALL", key]).await;
    let texts: Vec<_> = reply.list().iter().map(|field| field.text().unwrap()).collect();
    let mut fields: Vec<_> = texts.chunks(2).map(|pair| pair.join("=")).collect();
    fields.sort();
    fields
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_that_is_no_number_is_corrupt() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    for field in ["pause_until", "reserved_until", "request_until"] {
        let record = keys(&name(field)).record;
        server.call(&["HSET", &record, "format", "1", "election", field, "token", "1", field, "soon"]).await;
        let error = first.store.acquire(&name(field), &first.bid()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{field}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_moment_is_none_and_the_lease_is_renewed() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("asked");
    let mut lease = first.win(&election).await;
    let (record, token) = (keys(&election).record, lease.token.to_string());
    for until in [["by", "kim"], ["request_until", "soon"]] {
        let asked = [
            "HSET",
            &record,
            "request_id",
            "x",
            "request",
            "{}",
            "request_token",
            &token,
            until[0],
            until[1],
        ];
        server.call(&asked).await;
        let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
        let Ok(Renewal::Renewed(next, None)) = renewed else { panic!("{renewed:?}") };
        lease = next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_without_an_end_lasts_for_as_long_as_can_be_told() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("paused");
    let pause = Pause { by: "kim".to_owned(), ends_in: Duration::MAX };
    first.store.operator().unwrap().pause(&election, first.attempt(), pause).await.unwrap();
    let Acquisition::Refused(record) = first.acquire(&election).await else { panic!("it is paused") };
    assert_eq!(record.state, RecordState::Paused);
    assert!(record.pause.unwrap().ends_in > Duration::from_secs(100 * 365 * 24 * 3600));
    first.store.operator().unwrap().resume(&election, first.attempt()).await.unwrap();
    first.win(&election).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_memory_a_foreign_holder_is_a_refusal() {
    let server = here(Redis::start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("full");
    server.call(&["SET", &keys(&election).lease, "other", "PX", "60000"]).await;
    // A first call: the script is there.
    first.store.read(&election).await.unwrap();
    server.call(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let answer = first.store.acquire(&election, &first.bid()).await.unwrap();
    assert!(matches!(answer, Acquisition::Refused(_)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_denied_has_changed_nothing() {
    let options = Options::default().user("no_set", "pw", "~* &* +@all -set");
    let server = here(options.user("no_hdel", "pw", "~* &* +@all -hdel").start());
    let all =
        Candidate::new(open(&format!("redis+unix://{}", server.socket().display()), OPTIONS), "all", TTL);
    let candidate = |user: &str| {
        Candidate::new(open(&server.url().replace("no_set:", &format!("{user}:")), OPTIONS), user, TTL)
    };
    let (no_set, no_hdel) = (candidate("no_set"), candidate("no_hdel"));
    all.win(&name("led")).await;
    server.call(&["DEL", &keys(&name("led")).lease]).await;
    for (less, election, grant) in
        [(&no_set, "new", "grant +set"), (&no_set, "led", "grant +set"), (&no_hdel, "led", "grant +hdel")]
    {
        let record = keys(&name(election)).record;
        let before = fields(&server, &record).await;
        let error = less.store.acquire(&name(election), &less.bid()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(grant), "{error}");
        assert_eq!(fields(&server, &record).await, before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_that_answers_a_request_which_it_may_not_remove_is_a_renewal() {
    let server = here(Options::default().user("app", "pw", "~* &* +@all -hdel").start());
    let first = Candidate::new(open(&server.url(), OPTIONS), "first", TTL);
    let election = name("answered");
    let lease = first.win(&election).await;
    let request = ControlRequest {
        id: RequestId::new(&Random::from_os()),
        token: lease.token,
        by: "kim".to_owned(),
        action: Action::Resign,
        expires_in: TTL,
    };
    let operator = first.store.operator().unwrap();
    operator.request(&election, first.attempt(), request.clone()).await.unwrap();
    let answer = Some(Answered { id: request.id, answer: Answer::Refused("not now".to_owned()) });
    let renewed = first.store.renew(&[Renew { answer, ..first.renewal(&lease) }]).await.remove(0);
    let Ok(Renewal::Renewed(lease, _)) = renewed else { panic!("{renewed:?}") };
    let renewed = first.store.renew(&[first.renewal(&lease)]).await.remove(0);
    assert!(matches!(renewed, Ok(Renewal::Renewed(..))), "{renewed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_script_does_not_make_a_call_longer_than_its_limit() {
    let server = here(Redis::start());
    let proxy = Proxy::start(server.address(), Resp);
    let limit = Duration::from_secs(1);
    let options = format!("{OPTIONS}&call_timeout={}ms", limit.as_millis());
    let first = Candidate::new(open(&server.url_by(proxy.address()), &options), "first", TTL);
    let lease = first.win(&name("slow")).await;
    let other = first.win(&name("beside")).await;
    // Three answers, each of which comes in time, come too late together.
    proxy.inject(Fault::Delay(Direction::FromServer, limit * 6 / 10));
    for renewals in [vec![first.renewal(&lease)], vec![first.renewal(&lease), first.renewal(&other)]] {
        server.call(&["SCRIPT", "FLUSH"]).await;
        let error = first.store.renew(&renewals).await.remove(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
    }
}
