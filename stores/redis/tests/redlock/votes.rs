//! One node's votes, against a model of a few lines: only a higher token is voted for, and what is withdrawn never was.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::store::{ErrorKind, LeaseStore as _};
use tenure_core::{Attempt, Random};
use tenure_redis::RedlockStore;
use tenure_testkit::resp::Reply;
use tenure_testkit::servers::redis::{Options, Redis};

use crate::support::fixture::keys;
use crate::support::independent::url;
use crate::support::{Candidate, here, name};
use crate::{KEPT, addresses};

const TTL: Duration = Duration::from_secs(60);

const SCRIPT: &str = include_str!("../../src/lease.lua");

const SEQUENCES: u64 = 20;
const STEPS: usize = 60;

/// What a node knows of one election.
#[derive(Clone, Debug, Default)]
struct Node {
    token: u64,
    /// Who holds it, and what was there before the vote.
    held: Option<(u64, Box<Node>)>,
    /// Bids whose terms have ended here.
    spent: Vec<u64>,
    /// The last bid that was withdrawn, and up to which token.
    withdrawn: Option<(u64, u64)>,
}

impl Node {
    fn vote(&mut self, bid: u64, token: u64) -> bool {
        let mine = self.held.as_ref().is_some_and(|(holder, _)| *holder == bid);
        if mine && self.token == token {
            return true;
        }
        let free = self.held.is_none() || mine;
        let withdrawn = self.is_withdrawn(bid, token);
        if !free || self.spent.contains(&bid) || token <= self.token || withdrawn {
            return false;
        }
        let before = match self.held.take() {
            Some((_, before)) => before,
            None => Box::new(self.clone()),
        };
        *self = Self { token, held: Some((bid, before)), ..self.clone() };
        true
    }

    fn withdraw(&mut self, bid: u64, token: u64) {
        if self.token <= token
            && let Some((_, before)) = self.held.take_if(|(holder, _)| *holder == bid)
        {
            *self = *before;
        }
        self.note_withdrawn(bid, token);
    }

    fn note_withdrawn(&mut self, bid: u64, token: u64) {
        if !self.is_withdrawn(bid, token) {
            self.withdrawn = Some((bid, token));
        }
    }

    fn is_withdrawn(&self, bid: u64, token: u64) -> bool {
        self.withdrawn.is_some_and(|(of, up_to)| of == bid && token <= up_to)
    }

    fn release(&mut self, bid: u64, token: u64) -> bool {
        let own = self.token == token && self.held.take_if(|(holder, _)| *holder == bid).is_some();
        if own {
            self.spent.push(bid);
        } else if self.held.is_none() && self.token < token {
            // It may still be on its way.
            self.note_withdrawn(bid, token);
        }
        own
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_votes_only_for_a_higher_token_and_forgets_what_is_withdrawn() {
    let server = here(Redis::start());
    let (mut voted, mut refused) = (0, 0);
    for seed in 0..SEQUENCES {
        let random = Random::from_seed(seed);
        let election = format!("votes-{seed}");
        let mut model = Node::default();
        for step in 0..STEPS {
            let (bid, token) = (random.below(4), 1 + random.below(12));
            let what = format!("seed {seed}, step {step}, bid {bid}, token {token}");
            match random.below(4) {
                0 | 1 => {
                    let answer = vote(&server, &election, bid, token).await;
                    let expected = model.vote(bid, token);
                    assert_eq!(answer, if expected { "voted" } else { "refused" }, "{what}: {model:?}");
                    if expected { voted += 1 } else { refused += 1 }
                }
                2 => {
                    let arguments = [&id(bid), &value(bid), &token.to_string()];
                    assert_eq!(call(&server, &election, "withdraw", &arguments).await, "done", "{what}");
                    model.withdraw(bid, token);
                }
                _ => {
                    let expected = if model.release(bid, token) { "released" } else { "not_held" };
                    assert_eq!(release(&server, &election, bid, token).await, expected, "{what}: {model:?}");
                }
            }
            let kept = server.call(&["HGET", &record(&election), "token"]).await.text();
            assert_eq!(kept.map_or(0, |token| token.parse().unwrap()), model.token, "{what}");
        }
    }
    assert!(voted > 50 && refused > 50, "{voted} voted, {refused} refused: too little happened");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_votes_only_for_a_bidder_who_has_heard_of_its_last_term() {
    let server = here(Redis::start());
    let election = "heard";
    assert_eq!(vote_knowing(&server, election, 1, 5, "0").await, "voted");
    assert_eq!(release(&server, election, 1, 5).await, "released");
    assert_eq!(vote_knowing(&server, election, 2, 9, "4").await, "refused");
    assert_eq!(vote_knowing(&server, election, 2, 9, "5").await, "voted");
    // Its own vote is no term.
    assert_eq!(vote_knowing(&server, election, 2, 11, "5").await, "voted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_stays_whatever_becomes_of_a_vote() {
    let server = here(Redis::start());
    let pause = async |election: &str, by: &str| {
        call(&server, election, "pause", &[&by.to_owned(), &"60000".to_owned()]).await
    };
    let paused_by = async |election: &str| {
        server.call(&["HGET", &record(election), "pause_by"]).await.text().unwrap_or_default()
    };
    // It comes while a vote stands that is taken back.
    assert_eq!(vote(&server, "withdrawn", 1, 5).await, "voted");
    pause("withdrawn", "kim").await;
    let arguments = [&id(1), &value(1), &"5".to_owned()];
    assert_eq!(call(&server, "withdrawn", "withdraw", &arguments).await, "done");
    assert_eq!(paused_by("withdrawn").await, "kim");
    assert_eq!(vote(&server, "withdrawn", 2, 6).await, "refused");

    // The node takes back a term from another one that was not paused, or was not resumed.
    for shown in [&[][..], &[("pause_by", "lee"), ("pause_until", "9000000000000000")]] {
        for own in ["kim", ""] {
            let election = format!("taken-back-{own}-{}", shown.len());
            if !own.is_empty() {
                pause(&election, own).await;
            }
            assert_eq!(take_back(&server, &election, 1, 5, shown).await, "done");
            assert_eq!(paused_by(&election).await, own);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_takes_a_term_back_does_not_vouch_for_what_it_forgot() {
    let server = here(Redis::start());
    let run = async |election: &str| server.call(&["HGET", &record(election), "run"]).await.text();
    assert_eq!(take_back(&server, "forgot", 1, 5, &[("run", "of-the-other")]).await, "done");
    assert_eq!(run("forgot").await, None);
    // One that was only away knows as much as it did.
    server
        .call(&["HSET", &record("away"), "format", "1", "election", "away", "token", "4", "run", "own"])
        .await;
    assert_eq!(take_back(&server, "away", 1, 5, &[("run", "of-the-other")]).await, "done");
    assert_eq!(run("away").await.as_deref(), Some("own"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_vote_that_a_node_may_not_give_in_full_is_not_given_at_all() {
    let election = name("denied");
    for command in ["set", "hdel"] {
        let user = Options::default().user("app", "pw", &format!("~* &* +@all -{command}"));
        let nodes = here(Redis::start_many(3, &user));
        let (lease, record) = (keys(&election).lease, keys(&election).record);
        for node in &nodes {
            // What an earlier term has left behind.
            let fields = ["format", "1", "election", "denied", "token", "7", "release", &id(1)];
            let reply = node.call(&[&["HSET", &record], &fields[..]].concat()).await;
            assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
        }
        let url = url(&addresses(&nodes), KEPT).replace("://", "://app:pw@");
        let candidate = Candidate::new(RedlockStore::from_url(&url).unwrap(), "candidate", TTL);
        let error = candidate.store.acquire(&election, &candidate.bid()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains(&format!("grant +{command}")), "{error}");
        for node in &nodes {
            let left = node.call(&["HGETALL", &record]).await.list().len();
            let token = node.call(&["HGET", &record, "token"]).await.text();
            assert_eq!((left, token.as_deref()), (8, Some("7")), "{command}");
            assert_eq!(node.call(&["GET", &lease]).await.text(), None);
        }
    }
}

fn id(bid: u64) -> String {
    format!("{bid:032x}")
}

fn value(bid: u64) -> String {
    format!("candidate:{}", id(bid))
}

fn record(election: &str) -> String {
    format!("{{{election}}}:record")
}

async fn vote(server: &Redis, election: &str, bid: u64, token: u64) -> String {
    // The bidder has heard of whatever the node knows.
    let last = server.call(&["HGET", &record(election), "token"]).await.text().unwrap_or("0".to_owned());
    vote_knowing(server, election, bid, token, &last).await
}

async fn vote_knowing(server: &Redis, election: &str, bid: u64, token: u64, last: &str) -> String {
    let who = format!(r#"{{\"bid\":\"{}\",\"candidate\":\"candidate\"}}"#, id(bid));
    // The terms are the node's own: it has missed none.
    let terms = server.call(&["HGET", &record(election), "terms"]).await.text().unwrap_or_default();
    let brought = format!(
        r#"{{"attempt":"{}","ttl_ms":"60000","who":"{who}","about":"{{}}","acquired_at_ms":"1","terms":{}}}"#,
        id(bid),
        serde_json::to_string(&terms).unwrap()
    );
    let (bid, value, token) = (id(bid), value(bid), token.to_string());
    // It supersedes nobody, and nobody has ever succeeded.
    let vote = [&bid, &value, "candidate", &token, last, "", "", &brought];
    // The node has forgotten nothing.
    let age = ["0", &u64::MAX.to_string(), "", ""].map(str::to_owned);
    let arguments: Vec<_> = vote.into_iter().map(str::to_owned).chain(age).collect();
    call(server, election, "vote", &arguments.iter().collect::<Vec<_>>()).await
}

async fn release(server: &Redis, election: &str, bid: u64, token: u64) -> String {
    let mut arguments = vec![value(bid), token.to_string(), id(bid), "released".to_owned()];
    // To anybody, without an answer; the node is not behind.
    arguments.extend(["", "0", "", "", "", "", "0", "1"].map(str::to_owned));
    call(server, election, "release", &arguments.iter().collect::<Vec<_>>()).await
}

/// Lets a node have a term as another one shows it.
async fn take_back(
    server: &Redis,
    election: &str,
    bid: u64,
    token: u64,
    shown: &[(&'static str, &str)],
) -> String {
    let (id, value, token) = (id(bid), value(bid), token.to_string());
    let who = format!(r#"{{"bid":"{id}","candidate":"candidate"}}"#);
    let fields = [
        ("format", "1"),
        ("election", election),
        ("token", &token),
        ("value", &value),
        ("bid", &id),
        ("attempt", &id),
        ("ttl_ms", "60000"),
        ("who", &who),
        ("about", "{}"),
        ("acquired_at_ms", "1"),
    ];
    let fields: BTreeMap<_, _> = fields.into_iter().chain(shown.iter().copied()).collect();
    let fields = serde_json::to_string(&fields).unwrap();
    let (left, now) = ("60000".to_owned(), "1000000".to_owned());
    call(server, election, "take_back", &[&value, &token, &left, &now, &fields]).await
}

/// Runs one verb and returns the name of its answer.
async fn call(server: &Redis, election: &str, verb: &str, arguments: &[&String]) -> String {
    let record = record(election);
    // Each call has a mark of its own.
    let mark = Attempt::new(&Random::from_os()).to_string();
    let mut command = vec!["EVAL", SCRIPT, "2", election, &record, verb, &mark, election, "channel"];
    command.extend(arguments.iter().map(|argument| argument.as_str()));
    match server.call(&command).await {
        Reply::Error(error) => panic!("{verb}: {error}"),
        reply => reply.list()[1].text().unwrap(),
    }
}
