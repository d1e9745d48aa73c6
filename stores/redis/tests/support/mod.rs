//! A real server and what the suite can do to it.

// Every test program uses its own part, and none of it leaves the program.
#![allow(dead_code, unreachable_pub)]

pub mod cluster;
pub mod deployed;
pub mod fixture;
pub mod independent;
pub mod sentinels;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::clock::ClockExt;
use tenure_core::store::{Acquisition, Bid, Lease, LeaseStore, Metadata, Next, Origin, Release, Renew};
use tenure_core::{Attempt, BidId, CandidateId, Clock, ElectionName, FencingToken, Random, SystemClock};
use tenure_redis::{RedisConfig, RedisStore};
use tenure_testkit::servers::redis::Redis;

/// Opens the store at `url` with more options.
pub fn open(url: &str, options: &str) -> RedisStore {
    let config = RedisConfig::from_url(&format!("{url}?{options}")).unwrap();
    RedisStore::new(config).unwrap()
}

const DOCUMENT: &str = include_str!("../../../../docs/stores/redis.md");

/// The access rule in the documents: what stands between `ACL SETUSER app on >secret` and the end of its line.
pub fn documented_access() -> String {
    documented("ACL SETUSER app on >secret ")
}

/// What a cluster needs beyond that.
pub fn documented_access_in_a_cluster() -> String {
    format!("+{}", documented("ACL SETUSER app +"))
}

fn documented(before: &str) -> String {
    let line = DOCUMENT.lines().find_map(|line| line.trim().strip_prefix(before));
    line.expect("the document shows an access rule").to_owned()
}

/// Looks until something is so; fails if it does not come about.
pub async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
    let until = SystemClock.now().plus(Duration::from_secs(20));
    while !is_so().await {
        assert!(!until.has_passed(SystemClock.now()), "{what}: not within 20 seconds");
        SystemClock.sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until replicas take part: one that has just come gets nothing new for up to a second.
pub async fn attached(master: &Redis, replicas: &[Redis]) {
    soon("the replicas are there", async || {
        let replication = master.call(&["INFO", "replication"]).await.text().unwrap();
        replication.matches("state=online").count() == replicas.len()
    })
    .await;
    let mark = Attempt::new(&Random::from_os()).to_string();
    master.call(&["SET", "attached", &mark]).await;
    for replica in replicas {
        soon("a replica takes part", async || {
            replica.call(&["GET", "attached"]).await.text().as_ref() == Some(&mark)
        })
        .await;
    }
}

/// Waits for what cannot move to another thread: starting a server does not.
pub fn here<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

pub fn name(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

/// One candidate by hand.
pub struct Candidate {
    pub store: Arc<dyn LeaseStore>,
    pub id: CandidateId,
    pub ttl: Duration,
    random: Random,
}

impl Candidate {
    pub fn new(store: impl LeaseStore, id: &str, ttl: Duration) -> Self {
        let id = CandidateId::new(id).unwrap();
        Self { store: Arc::new(store), id, ttl, random: Random::from_os() }
    }

    pub fn attempt(&self) -> Attempt {
        Attempt::new(&self.random)
    }

    pub fn bid(&self) -> Bid {
        Bid {
            id: BidId::new(&self.random),
            attempt: self.attempt(),
            open: Vec::new(),
            candidate: self.id.clone(),
            identity: None,
            origin: Origin::default(),
            ttl: self.ttl,
            metadata: Metadata::new(),
            floor: FencingToken::ZERO,
            supersedes: None,
        }
    }

    pub async fn acquire(&self, election: &ElectionName) -> Acquisition {
        self.store.acquire(election, &self.bid()).await.unwrap()
    }

    /// Bids and must win.
    pub async fn win(&self, election: &ElectionName) -> Lease {
        match self.acquire(election).await {
            Acquisition::Acquired(lease) => lease,
            Acquisition::Refused(record) => panic!("{} is refused: {record:?}", self.id),
        }
    }

    /// Bids until it wins.
    pub async fn campaign(&self, election: &ElectionName) -> Lease {
        loop {
            match self.acquire(election).await {
                Acquisition::Acquired(lease) => return lease,
                Acquisition::Refused(record) => {
                    let wait = record.opens_in.unwrap_or_default().clamp(Duration::from_millis(1), self.ttl);
                    SystemClock.sleep(wait).await;
                }
            }
        }
    }

    pub fn renewal(&self, lease: &Lease) -> Renew {
        Renew { lease: lease.clone(), attempt: self.attempt(), open: Vec::new(), answer: None }
    }

    pub fn release_of(&self, lease: &Lease) -> Release {
        Release {
            lease: lease.clone(),
            attempt: self.attempt(),
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        }
    }
}
