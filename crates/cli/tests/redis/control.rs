//! The verbs that change something, on real servers.

use rustix::process::Signal;
use serde_json::Value;
use tenure_testkit::servers::redis::{Options, Redis};

use crate::place::Place;
use crate::stage::Said;
use crate::world::{Candidate, World, eventually, now, stamper, tenure};

/// So long that nothing here happens because a lease ran out or because somebody looked again.
const LONG: &[&str] = &["--ttl", "1h"];

#[tokio::test]
async fn the_leader_hands_off_to_the_one_that_is_meant() {
    let place = Place::start().await;
    let first = place.candidate(LONG);
    first.leads();
    let others = [place.candidate(LONG), place.candidate(LONG)];
    others.iter().for_each(Candidate::stands_by);
    let mut names: Vec<_> = others.iter().map(Candidate::name).collect();
    names.sort();
    let standing_by = || place.ask(&["candidates", "billing"]).stdout;
    eventually("both stand by", || (standing_by().lines().eq(names.iter())).then_some(()));
    let json = place.ask(&["candidates", "billing", "--json"]).json();
    assert_eq!(json, serde_json::json!({"election": "billing", "candidates": names}));

    // All are on one host.
    let host = names[0].rsplitn(3, '_').nth(2).unwrap();
    place.ask(&["handoff", "billing", "--to", host]).refuse(1, &["can mean several", &names[0], &names[1]]);
    let unknown = place.ask(&["handoff", "billing", "--to", "nobody"]);
    unknown.refuse(1, &["nobody called \"nobody\" stands by", "hint: these do: ", &names[0], &names[1]]);
    place.ask(&["handoff", "billing", "--to", &first.name()]).refuse(1, &["leads already"]);
    assert_eq!(place.ask(&["leader", "billing"]).expect(0).trim(), first.name());

    let whom = others.iter().find(|other| other.name() == names[1]).unwrap();
    // The beginning of a name, up to where the others differ.
    let beginning = &names[1][..names[1].len() - 1];
    let said = place.ask(&["handoff", "billing", "--to", beginning, "--json"]);
    said.expect(0);
    let told = said.json();
    assert_eq!(
        (&told["successor"], &told["leader"]["candidate"]),
        (&names[1].as_str().into(), &names[1].as_str().into())
    );
    assert_eq!(told["leader"]["token"], whom.leads());
    println!(
        "redis: {} ms to the end of the term, {} ms to the next one",
        told["took_ms"], told["taken_over_ms"]
    );
}

#[tokio::test]
async fn the_command_has_ended_before_the_next_one_starts() {
    let place = Place::start().await;
    for mode in ["plain", "slow"] {
        let world = World::new();
        let candidate = || {
            let mut command = place.run(LONG);
            command.arg("--").args(stamper(mode)).env("STAMPS", world.stamps_path());
            Candidate::start(command)
        };
        let first = candidate();
        let token = first.leads();
        world.stamped_after(token - 1);
        let second = candidate();
        second.stands_by();
        eventually("it stands by", || (place.ask(&["candidates", "billing"]).code == Some(0)).then_some(()));
        let asked = now().boot().as_nanos();
        let said = place.ask(&["handoff", "billing", "--json"]);
        said.expect(0);
        let next = world.stamped_after(token);
        assert_eq!(said.json()["leader"]["token"], next, "{said:?}");
        let stamps = world.stamps();
        stamps.assert_no_overlap();
        let (last, began) = (stamps.0[&token].last, stamps.0[&next].first);
        println!(
            "redis, {mode}: the command said {} ms to the end of the term and {} ms to the next one; {} µs from its start to \
             the next command, {} µs without any",
            said.json()["took_ms"],
            said.json()["taken_over_ms"],
            (began - asked) / 1000,
            (began - last) / 1000
        );
        place.ask(&["release", "billing", "--force", "--now", "--yes"]).expect(0);
    }
}

#[tokio::test]
async fn nobody_is_stopped_for_nobody() {
    let place = Place::start().await;
    let first = place.candidate(LONG);
    let token = first.leads();
    place.ask(&["candidates", "billing"]).refuse(1, &["nobody stands by for election \"billing\""]);
    place
        .ask(&["handoff", "billing"])
        .refuse(1, &["nobody stands by to take over from ", "hint: start another"]);
    let leader = place.ask(&["leader", "billing", "--json"]).json();
    assert_eq!(leader["leader"]["token"], token);
}

#[tokio::test]
async fn a_leader_resigns_and_a_pause_keeps_the_others_out() {
    let place = Place::start().await;
    let first = place.candidate(LONG);
    first.leads();
    let second = place.candidate(LONG);
    second.stands_by();
    let said = place.ask(&["resign", "billing"]);
    assert!(said.expect(0).starts_with(&format!("{} resigned after ", first.name())), "{said:?}");
    let next = second.leads();
    assert!(said.stdout.ends_with(&format!("{} leads now, term {next}\n", second.name())), "{said:?}");

    let said = place.ask(&["pause", "billing", "--resign"]);
    assert!(said.expect(0).contains(&format!("{} resigned after ", second.name())), "{said:?}");
    place.ask(&["leader", "billing"]).refuse(1, &["it is paused"]);
    // Whoever resigned rests for a while, which is long here.
    let third = place.candidate(LONG);
    third.says("an operator paused the election");
    place.ask(&["resume", "billing"]).expect(0);
    assert!(third.leads() > next);
}

#[tokio::test]
async fn a_leader_that_hangs_is_waited_out_or_put_out_at_once() {
    let place = Place::start().await;
    let first = place.candidate(&["--ttl", "3s"]);
    let token = first.leads();
    first.signal(Signal::STOP);
    let said = place.ask(&["release", "billing", "--force"]);
    assert!(said.expect(0).contains(&format!("term {token} of {} is over after ", first.name())), "{said:?}");
    first.signal(Signal::CONT);

    let second = eventually("it leads again", || {
        place.ask(&["leader", "billing", "--json"]).json()["leader"]["token"].as_u64()
    });
    let said = place.ask(&["release", "billing", "--force", "--now", "--yes", "--json"]);
    said.expect(0);
    assert_eq!((&said.json()["outcome"], &said.json()["former"]["token"]), (&"done".into(), &second.into()));
    assert!(said.json()["may_act_until"].is_string(), "{said:?}");
    let terms = place.ask(&["history", "billing", "--json"]).json()["terms"].clone();
    let superseded = terms.as_array().unwrap().iter().find(|term| term["token"] == second).unwrap();
    assert_eq!(superseded["end"], "superseded", "{terms}");
}

#[tokio::test]
async fn a_floor_lifts_tokens_and_other_software_is_left_alone() {
    let place = Place::start().await;
    // Above what the server's clock would give.
    let floor = 8_000_000_000_000_000_u64;
    let said = place.ask(&["token", "floor", "billing", &floor.to_string(), "--json"]);
    said.expect(0);
    assert!(said.json()["token"].as_u64().unwrap() > floor, "{said:?}");
    let candidate = place.candidate(&["--once", "--wait", "1h"]);
    assert!(candidate.leads() > floor);
    let beyond = place.ask(&["token", "floor", "other", "18000000000000000000"]);
    assert_ne!(beyond.code, Some(0), "tokens of this store end before: {beyond:?}");

    place.server.call(&["SET", "tenure:leader:foreign", "kim", "NX", "PX", "600000"]).await;
    for verb in [&["resign", "foreign"][..], &["handoff", "foreign"], &["release", "foreign", "--force"]] {
        place
            .ask(verb)
            .refuse(1, &["kim (other software) holds the lease", "it takes no requests", "hint: end it"]);
    }
    place.ask(&["release", "foreign", "--force", "--now", "--yes"]).refuse(1, &["takes no requests"]);
    place.ask(&["token", "floor", "foreign", "9"]).refuse(1, &["kim (other software) leads election"]);
    place.ask(&["repair", "foreign"]).refuse(2, &["is no directory", "hint: "]);
}

/// Three servers of which a majority decides.
struct Majority {
    servers: Vec<Redis>,
}

impl Majority {
    async fn start() -> Self {
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(Options::default().append_only().start().await);
        }
        Self { servers }
    }

    fn url(&self) -> String {
        let nodes: Vec<_> = self.servers.iter().map(|server| server.address().to_string()).collect();
        format!("redlock://{}?survives_restart=true", nodes.join(","))
    }

    fn ask(&self, args: &[&str]) -> Said {
        Said::of(tenure().args(args).env("TENURE_STORE", self.url()))
    }

    fn candidate(&self) -> Candidate {
        let mut command = tenure();
        command.args(["run", "--store", &self.url(), "--election", "billing", "--ttl", "10m"]);
        command.args(["--", "sh", "-c", "exec sleep 1000"]);
        Candidate::start(command)
    }
}

#[tokio::test]
async fn a_majority_does_what_one_server_does() {
    let place = Majority::start().await;
    let floor = 8_000_000_000_000_000_u64;
    assert!(place.ask(&["token", "floor", "billing", &floor.to_string()]).expect(0).contains("is above 8"));
    let first = place.candidate();
    assert!(first.leads() > floor);
    let second = place.candidate();
    second.stands_by();
    let stands_by = || place.ask(&["candidates", "billing"]).stdout.trim() == second.name();
    eventually("it stands by", || stands_by().then_some(()));
    let told = place.ask(&["handoff", "billing", "--to", &second.name(), "--json"]);
    told.expect(0);
    println!(
        "redlock: {} ms to the end of the term, {} ms to the next one",
        told.json()["took_ms"],
        told.json()["taken_over_ms"]
    );
    let token = second.leads();
    let said = place.ask(&["release", "billing", "--force", "--now", "--yes", "--json"]);
    said.expect(0);
    assert_eq!(said.json()["former"]["token"], token);
    // It hears of it, long before it would have renewed.
    second.says(&format!("term {token} ended: lost"));
    let next = eventually("another term begins", || {
        let leader: Value = place.ask(&["leader", "billing", "--json"]).json()["leader"].clone();
        leader["token"].as_u64().filter(|next| *next > token)
    });
    assert!(next > token + 1, "the operator had the one between");
}
