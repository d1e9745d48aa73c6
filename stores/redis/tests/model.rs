//! The script decides as the pure rules of the core do, whatever happens in whatever order.
//!
//! Random sequences run against a real server and against `tenure_core::store::record` side by side; after each step the
//! answers and what everybody sees must be the same. Time passes in steps that end a lease and nothing else.

#![allow(clippy::unwrap_used)]

mod support;

use std::time::{Duration, SystemTime};

use support::fixture::keys;
use support::{name, open};
use tenure_core::name::RequestId;
use tenure_core::store::record::{self, Decision, Record, Sight};
use tenure_core::store::{
    Acquisition, Action, Answer, Answered, Bid, ControlRequest, Lease, LeaseRecord, LeaseStore, Metadata,
    Next, Operator, Origin, Pause, RecordState, Release, Renew, Renewal,
};
use tenure_core::{Attempt, BidId, CandidateId, ElectionName, FencingToken, Identity, Random};
use tenure_redis::RedisStore;
use tenure_testkit::servers::redis::Redis;

/// Leases last so long; whatever else lasts for a time lasts much longer, so that a lease can end alone.
const TTL: Duration = Duration::from_secs(100);
const LONG: Duration = Duration::from_secs(1_000_000);

const SEQUENCES: u64 = 60;
const STEPS: usize = 60;

/// The record by the pure rules, and how much of its time has passed.
struct Model {
    election: ElectionName,
    record: Option<Box<Record>>,
    age: Duration,
}

impl Model {
    fn sight(&self, token_base: u64) -> Sight {
        Sight { token_base, ..Sight::exact(self.age, SystemTime::UNIX_EPOCH) }
    }

    fn apply<T>(
        &mut self,
        decide: impl FnOnce(Option<&Record>, &Sight) -> Decision<T>,
        token_base: u64,
    ) -> T {
        match decide(self.record.as_deref(), &self.sight(token_base)) {
            Decision::Keep(answer) => answer,
            Decision::Write(record, answer) => {
                self.record = Some(record);
                self.age = Duration::ZERO;
                answer
            }
        }
    }

    fn view(&self) -> Option<LeaseRecord> {
        self.record.as_ref().map(|record| record.view(&self.sight(0)))
    }
}

/// Everything that candidates and operators have sent or heard, to be sent again.
struct World {
    random: Random,
    store: RedisStore,
    server: Redis,
    model: Model,
    candidates: Vec<CandidateId>,
    bids: Vec<Bid>,
    leases: Vec<Lease>,
    renewals: Vec<Renew>,
    releases: Vec<Release>,
    requests: Vec<ControlRequest>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_decides_as_the_rules_of_the_core_do() {
    let mut server = Some(support::here(Redis::start()));
    let (mut granted, mut refused) = (0, 0);
    for seed in 0..SEQUENCES {
        let mut world = World::new(seed, server.take().unwrap());
        for step in 0..STEPS {
            let what = world.step().await;
            world.compare(&format!("seed {seed}, step {step}: {what}")).await;
            match what {
                "granted" => granted += 1,
                "refused" => refused += 1,
                _ => {}
            }
        }
        server = Some(world.server);
    }
    assert!(granted > 100 && refused > 100, "{granted} granted, {refused} refused: too little happened");
}

impl World {
    fn new(seed: u64, server: Redis) -> Self {
        let random = Random::from_seed(seed);
        let election = name(&format!("model-{seed}"));
        Self {
            store: open(&server.url(), "survives_restart=true"),
            server,
            model: Model { election, record: None, age: Duration::ZERO },
            candidates: ["a", "b", "c"].map(|name| CandidateId::new(name).unwrap()).to_vec(),
            random,
            bids: Vec::new(),
            leases: Vec::new(),
            renewals: Vec::new(),
            releases: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn pick<'a, T>(&self, of: &'a [T]) -> Option<&'a T> {
        of.get(usize::try_from(self.random.below(of.len() as u64)).unwrap())
    }

    /// Mostly the last one: those that were left before are no longer asked about.
    fn some_request(&self) -> Option<&ControlRequest> {
        if self.one_in(3) { self.pick(&self.requests) } else { self.requests.last() }
    }

    fn one_in(&self, n: u64) -> bool {
        self.random.below(n) == 0
    }

    async fn step(&mut self) -> &'static str {
        match self.random.below(14) {
            0..=3 => self.acquire().await,
            4..=6 => self.renew().await,
            7 => self.release().await,
            8..=9 => self.request().await,
            10 => self.pause().await,
            11 => self.resume().await,
            12 => self.expire().await,
            _ => self.repeat().await,
        }
    }

    fn bid(&self) -> Bid {
        let candidate = self.pick(&self.candidates).unwrap().clone();
        let floor = match (self.one_in(6), self.leases.last()) {
            // What somebody has seen elsewhere.
            (true, Some(lease)) => FencingToken(lease.token.0 + self.random.below(5_000_000)),
            _ => FencingToken::ZERO,
        };
        let supersedes = if self.one_in(4) { self.pick(&self.leases).map(|lease| lease.bid) } else { None };
        Bid {
            id: BidId::new(&self.random),
            attempt: Attempt::new(&self.random),
            open: Vec::new(),
            identity: self.one_in(2).then(|| Identity::new(format!("identity of {candidate}")).unwrap()),
            candidate,
            origin: Origin { boot_id: self.one_in(2).then(|| "boot".to_owned()), ..Origin::default() },
            ttl: TTL,
            metadata: Metadata::from([("at".to_owned(), "10.0.0.1:80\n\"x\" {}".to_owned())]),
            floor,
            supersedes,
        }
    }

    async fn acquire(&mut self) -> &'static str {
        let mut bid = self.bid();
        if self.one_in(4)
            && let Some(old) = self.pick(&self.bids)
        {
            // The same bid by another attempt.
            bid = Bid { attempt: bid.attempt, ..old.clone() };
        }
        self.bids.push(bid.clone());
        self.send_bid(&bid).await
    }

    async fn send_bid(&mut self, bid: &Bid) -> &'static str {
        let election = self.model.election.clone();
        let answer = self.store.acquire(&election, bid).await.unwrap();
        // The server's time is in the token: the rules are told it, and must come to the same number by their own way.
        let token_base = match &answer {
            Acquisition::Acquired(lease) => lease.token.0 - 1,
            Acquisition::Refused(_) => 0,
        };
        let expected =
            self.model.apply(|present, sight| record::acquire(present, &election, bid, sight), token_base);
        match (answer, expected) {
            (Acquisition::Acquired(lease), Acquisition::Acquired(expected)) => {
                assert_eq!(timeless_lease(&lease), timeless_lease(&expected));
                self.leases.push(lease);
                "granted"
            }
            (Acquisition::Refused(record), Acquisition::Refused(expected)) => {
                assert_eq!(timeless(*record), timeless(*expected));
                "refused"
            }
            (answer, expected) => panic!("{answer:?} for {bid:?}; the rules say {expected:?}"),
        }
    }

    fn answer(&self) -> Option<Answered> {
        let request = self.some_request().filter(|_| self.one_in(2))?;
        let answer = if self.one_in(2) { Answer::Done } else { Answer::Refused("not \"now\"".to_owned()) };
        Some(Answered { id: request.id, answer })
    }

    async fn renew(&mut self) -> &'static str {
        let Some(mut lease) = self.pick(&self.leases).cloned() else { return "nothing" };
        if self.one_in(3)
            && let Some(last) = self.leases.last()
        {
            lease = last.clone();
        }
        let open = self.renewals.iter().filter(|_| self.one_in(4)).map(|renewal| renewal.attempt).collect();
        let attempt = Attempt::new(&self.random);
        let renewal = Renew { lease, attempt, open, answer: self.answer() };
        self.renewals.push(renewal.clone());
        self.send_renewal(&renewal).await
    }

    async fn send_renewal(&mut self, renewal: &Renew) -> &'static str {
        let answer = self.store.renew(std::slice::from_ref(renewal)).await.remove(0).unwrap();
        let expected = self.model.apply(|present, sight| record::renew(present, renewal, sight), 0);
        match (answer, expected) {
            (Renewal::Renewed(lease, request), Renewal::Renewed(expected, expected_request)) => {
                assert_eq!(timeless_lease(&lease), timeless_lease(&expected));
                let id = |request: Option<Box<ControlRequest>>| {
                    request.map(|request| (request.id, request.action))
                };
                assert_eq!(id(request), id(expected_request));
                self.leases.push(lease);
                "renewed"
            }
            (Renewal::Lost(record), Renewal::Lost(expected)) => {
                assert_eq!(record.map(|record| timeless(*record)), expected.map(|record| timeless(*record)));
                "lost"
            }
            (answer, expected) => panic!("{answer:?} for {renewal:?}; the rules say {expected:?}"),
        }
    }

    async fn release(&mut self) -> &'static str {
        let Some(lease) = self.pick(&self.leases).cloned() else { return "nothing" };
        let next = match self.random.below(3) {
            0 => Next::Anybody,
            1 => Next::Successor { candidate: self.pick(&self.candidates).unwrap().clone(), window: LONG },
            // Over at once for the rules, and for the server when the next step comes.
            _ => Next::CoolDown(if self.one_in(3) { LONG } else { Duration::ZERO }),
        };
        let open = self.renewals.iter().filter(|_| self.one_in(2)).map(|renewal| renewal.attempt).collect();
        let attempt = Attempt::new(&self.random);
        let release =
            Release { lease, attempt, open, next, succeeded: self.one_in(3), answer: self.answer() };
        self.releases.push(release.clone());
        self.send_release(&release).await
    }

    async fn send_release(&mut self, release: &Release) -> &'static str {
        let answer = self.store.release(release).await.unwrap();
        let expected = self.model.apply(|present, sight| record::release(present, release, sight), 0);
        assert_eq!(answer, expected, "{release:?}");
        "released"
    }

    async fn request(&mut self) -> &'static str {
        let token = self.pick(&self.leases).map_or(FencingToken(7), |lease| lease.token);
        let action = if self.one_in(2) {
            Action::Resign
        } else {
            Action::HandOff { to: self.pick(&self.candidates).unwrap().clone() }
        };
        let mut request = ControlRequest {
            id: RequestId::new(&self.random),
            token,
            by: "kim".to_owned(),
            action,
            expires_in: if self.one_in(4) { Duration::ZERO } else { LONG },
        };
        if self.one_in(2)
            && let Some(old) = self.some_request()
        {
            request = old.clone();
        }
        self.requests.push(request.clone());
        let attempt = Attempt::new(&self.random);
        let election = self.model.election.clone();
        let answer = Operator::request(&self.store, &election, attempt, request.clone()).await.unwrap();
        let expected =
            self.model.apply(|present, sight| record::request(present, &request, attempt, sight), 0);
        assert_eq!(answer, expected, "{request:?}");
        "requested"
    }

    async fn pause(&mut self) -> &'static str {
        let pause =
            Pause { by: "kim".to_owned(), ends_in: if self.one_in(2) { Duration::ZERO } else { LONG } };
        let attempt = Attempt::new(&self.random);
        let election = self.model.election.clone();
        self.store.pause(&election, attempt, pause.clone()).await.unwrap();
        self.model.apply(|present, sight| record::pause(present, &election, &pause, attempt, sight), 0);
        "paused"
    }

    async fn resume(&mut self) -> &'static str {
        let attempt = Attempt::new(&self.random);
        let election = self.model.election.clone();
        self.store.resume(&election, attempt).await.unwrap();
        self.model.apply(|present, sight| record::resume(present, attempt, sight), 0);
        "resumed"
    }

    /// Lets the lease run out.
    async fn expire(&mut self) -> &'static str {
        self.server.call(&["PEXPIRE", &keys(&self.model.election).lease, "0"]).await;
        self.model.age += TTL;
        "expired"
    }

    /// Sends something once more that was sent before.
    async fn repeat(&mut self) -> &'static str {
        match self.random.below(3) {
            0 => match self.pick(&self.bids).cloned() {
                Some(bid) => self.send_bid(&bid).await,
                None => "nothing",
            },
            1 => match self.pick(&self.renewals).cloned() {
                Some(renewal) => self.send_renewal(&renewal).await,
                None => "nothing",
            },
            _ => match self.pick(&self.releases).cloned() {
                Some(release) => self.send_release(&release).await,
                None => "nothing",
            },
        }
    }

    async fn compare(&self, what: &str) {
        let read = self.store.read(&self.model.election).await.unwrap();
        assert_eq!(read.map(timeless), self.model.view().map(timeless), "{what}");
    }
}

fn timeless_lease(lease: &Lease) -> Lease {
    let previous = lease.previous.as_ref().map(|term| {
        let mut term = (**term).clone();
        term.acquired_at_ms = 0;
        term.ended_at_ms = term.ended_at_ms.map(|_| 0);
        term.into()
    });
    Lease { previous, ..lease.clone() }
}

/// Leaves out what depends on when it was looked at.
fn timeless(mut record: LeaseRecord) -> LeaseRecord {
    record.time_left = record.time_left.map(|_| Duration::ZERO);
    record.opens_in = None;
    record.last_success = record.last_success.map(|_| Duration::ZERO);
    if let Some(pause) = &mut record.pause {
        pause.ends_in = Duration::ZERO;
    }
    if let Some(request) = &mut record.request {
        request.expires_in = Duration::ZERO;
    }
    for term in &mut record.last_terms {
        term.acquired_at_ms = 0;
        term.ended_at_ms = term.ended_at_ms.map(|_| 0);
    }
    if let Some(holder) = &mut record.holder {
        holder.acquired_at = SystemTime::UNIX_EPOCH;
        holder.renewed_at = SystemTime::UNIX_EPOCH;
        holder.previous = holder.previous.take().map(|term| {
            let mut term = (*term).clone();
            term.acquired_at_ms = 0;
            term.ended_at_ms = term.ended_at_ms.map(|_| 0);
            term.into()
        });
    }
    assert!(record.state != RecordState::Held || record.time_left.is_some(), "held without an end");
    record
}
