//! Candidates on a deployment, and what can be seen of them.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use tempfile::TempDir;
use tenure_core::clock::{ClockExt, Moment};
use tenure_core::name::RequestId;
use tenure_core::store::{Action, ControlRequest, LeaseRecord, Pause, Requested};
use tenure_core::{Attempt, Clock, ElectionName, FencingToken, Random, SystemClock};
use tenure_testkit::process::Process;
use tenure_testkit::servers::redis::Redis;

use crate::candidate::{self, ELECTION, JOURNAL};
use crate::deployment::{ByWays, Deployment, Promise, SEATS};
use crate::judge::{Complaint, judge};
use crate::stamps::{Term, Track};

/// The ttl of the leases: a process that does not get a core for half a second, on a busy machine, must not lose one by
/// that.
pub const TTL: Duration = Duration::from_secs(3);

/// Longer than anything takes that ever comes about.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a fault is tried. A round takes up to ten seconds: never more than 30.
pub fn rounds() -> usize {
    let asked = std::env::var("TENURE_ROUNDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(3).min(30)
}

pub struct Arena<D> {
    pub deployment: D,
    /// What leaders write to; nothing ever disturbs it.
    resource: Redis,
    directory: TempDir,
    seats: Vec<Seat>,
    /// Of processes that are gone.
    tracks: Vec<Track>,
    election: ElectionName,
    random: Random,
}

struct Seat {
    process: Option<Process>,
    track: Track,
}

/// A term that somebody leads.
#[derive(Clone, Debug)]
pub struct Reign {
    pub seat: usize,
    pub token: FencingToken,
    /// Since when, at the latest, by the boot clock.
    pub from: Duration,
}

/// What came out.
#[derive(Debug)]
pub struct Verdict {
    pub complaints: Vec<Complaint>,
    /// Writes that the fence refused.
    pub refused: u64,
}

impl<D: Deployment> Arena<D> {
    pub async fn open(deployment: D) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let resource = Redis::start().await;
        let mut seats = Vec::new();
        for seat in 0..SEATS {
            seats.push(Seat::start(&deployment, &resource, &directory, seat, 0).await);
        }
        Self {
            deployment,
            resource,
            directory,
            seats,
            tracks: Vec::new(),
            election: ElectionName::new(ELECTION).unwrap(),
            random: Random::from_os(),
        }
    }

    /// Waits for somebody who leads now.
    pub async fn leader(&mut self) -> Reign {
        self.reign("somebody leads", FencingToken::ZERO).await
    }

    /// Waits for somebody who leads in a term after `old`.
    pub async fn leader_after(&mut self, old: &Reign) -> Reign {
        self.reign(&format!("somebody leads after {old:?}"), old.token).await
    }

    async fn reign(&mut self, what: &str, after: FencingToken) -> Reign {
        let now = SystemClock.now().boot();
        self.until(what, |arena| {
            let tracks = arena.seats.iter().enumerate();
            let terms = tracks.flat_map(|(seat, at)| at.track.terms().map(move |term| (seat, term)));
            let fresh = terms.filter(|(_, term)| term.token > after && term.to > now);
            let newest = fresh.max_by_key(|(_, term)| term.token);
            newest.map(|(seat, term)| Reign { seat, token: term.token, from: term.from })
        })
        .await
    }

    /// Waits until the leader has renewed its lease twice from now on: it is still the same, in the same term.
    pub async fn stays(&mut self, reign: &Reign) {
        let renewed = self.renewals(reign).await;
        while self.renewals(reign).await < renewed + 2 {
            SystemClock.sleep(Duration::from_millis(20)).await;
        }
    }

    async fn renewals(&self, reign: &Reign) -> u64 {
        let record = self.record().await;
        let leader = record.leader().filter(|_| record.token == reign.token);
        leader.unwrap_or_else(|| panic!("{reign:?} is over: {record:?}")).renew_count
    }

    /// Reads what the store shows, as soon as it shows anything.
    pub async fn record(&self) -> LeaseRecord {
        let until = SystemClock.now().plus(PATIENCE);
        loop {
            match self.deployment.observer().read(&self.election).await {
                Ok(Some(record)) => return record,
                // A server that was just started has yet to be reached.
                answer => assert!(!until.has_passed(SystemClock.now()), "{answer:?}"),
            }
            SystemClock.sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asks the leader to give its term up.
    pub async fn ask_to_resign(&self, reign: &Reign) {
        let request = ControlRequest {
            id: RequestId::new(&self.random),
            token: reign.token,
            by: "the test".to_owned(),
            action: Action::Resign,
            expires_in: PATIENCE,
        };
        let attempt = Attempt::new(&self.random);
        let operator = self.deployment.observer().operator().unwrap();
        let asked = operator.request(&self.election, attempt, request).await;
        assert_eq!(asked.unwrap(), Requested::Accepted(reign.token));
    }

    /// Has the leader give its term up, and nobody elected for a while; returns when nobody leads.
    pub async fn pause(&self, reign: &Reign, ends_in: Duration) {
        let pause = Pause { by: "the test".to_owned(), ends_in };
        let operator = self.deployment.observer().operator().unwrap();
        operator.pause(&self.election, Attempt::new(&self.random), pause).await.unwrap();
        self.ask_to_resign(reign).await;
        while self.record().await.holder.is_some() {
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    }

    /// Kills a candidate (SIGKILL).
    pub fn kill(&mut self, seat: usize) {
        let process = self.seats[seat].process.take().unwrap();
        assert_eq!(process.kill().signal(), Some(9), "it had ended by itself");
    }

    /// Starts a candidate in the place of one that was killed.
    pub async fn replace(&mut self, seat: usize) {
        let start = self.tracks.len() + 1;
        let new = Seat::start(&self.deployment, &self.resource, &self.directory, seat, start).await;
        self.tracks.push(std::mem::replace(&mut self.seats[seat], new).track);
    }

    /// Stops a candidate (SIGSTOP) wherever it is.
    pub async fn stop(&self, seat: usize) {
        self.seats[seat].process.as_ref().unwrap().stop().await;
    }

    /// Lets a candidate go on (SIGCONT) and waits until it has looked at its permission.
    pub async fn go_on(&mut self, seat: usize) {
        let now = SystemClock.now().boot();
        self.seats[seat].process.as_ref().unwrap().go_on();
        self.until("it has gone on", |arena| (arena.seats[seat].track.last() > now).then_some(())).await;
    }

    /// Looks until there is something to see.
    pub async fn until<T>(&mut self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let until = SystemClock.now().plus(PATIENCE);
        loop {
            for seat in &mut self.seats {
                seat.track.look();
            }
            if let Some(seen) = look(self) {
                return seen;
            }
            let terms: Vec<_> = self.seats.iter().flat_map(|seat| seat.track.terms()).collect();
            assert!(!until.has_passed(SystemClock.now()), "waited in vain until {what}: {terms:#?}");
            SystemClock.sleep(Duration::from_millis(5)).await;
        }
    }

    /// Ends all candidates and judges what they did.
    pub async fn verdict(mut self) -> Verdict {
        for seat in self.seats {
            drop(seat.process);
            self.tracks.push(seat.track);
        }
        for track in &mut self.tracks {
            track.look();
        }
        let terms: Vec<Term> = self.tracks.iter().flat_map(Track::terms).cloned().collect();
        let samples: u64 = terms.iter().map(|term| term.samples).sum();
        let journal = self.resource.call(&["LRANGE", JOURNAL, "0", "-1"]).await;
        let token = |text: String| FencingToken(text.parse().unwrap());
        let journal: Vec<_> = journal.list().iter().map(|entry| token(entry.text().unwrap())).collect();
        println!("{} terms, {samples} samples, {} writes", terms.len(), journal.len());
        assert!(!journal.is_empty(), "nobody wrote anything");
        Verdict { complaints: judge(&terms, &journal), refused: self.tracks.iter().map(Track::refused).sum() }
    }

    /// Ends all candidates: nothing must have happened that the deployment promises to keep from happening.
    pub async fn assert_promise(self) {
        let promise = self.deployment.promise();
        let Verdict { complaints, refused } = self.verdict().await;
        let broken = |complaint: &&Complaint| {
            promise == Promise::Exclusion || !matches!(complaint, Complaint::Overlap { .. })
        };
        let broken: Vec<_> = complaints.iter().filter(broken).collect();
        assert!(broken.is_empty(), "{broken:#?}");
        assert!(promise == Promise::Fence || refused == 0, "the fence refused {refused} writes of a leader");
    }
}

impl<D: ByWays> Arena<D> {
    /// Waits until a candidate hears from a server.
    pub async fn hears(&mut self, seat: usize) {
        let replies = |arena: &Self| arena.deployment.way(seat).counts().replies;
        let before = replies(self);
        self.until("it hears from a server", |arena| (replies(arena) > before).then_some(())).await;
    }
}

impl Seat {
    async fn start(
        deployment: &impl Deployment,
        resource: &Redis,
        directory: &TempDir,
        seat: usize,
        start: usize,
    ) -> Self {
        let holder = format!("candidate-{seat}-{start}");
        let path = directory.path().join(&holder);
        let track = Track::new(holder, path);
        let process =
            candidate::start(&deployment.url(seat), &resource.url(), track.path(), deployment.ttl()).await;
        Self { process: Some(process), track }
    }
}

/// Waits until so much time has passed since a moment: where the length of a fault is the fault.
pub async fn after(since: Moment, time: Duration) {
    SystemClock.sleep_until(since.plus(time).by_boot()).await;
}
