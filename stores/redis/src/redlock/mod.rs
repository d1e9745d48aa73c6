//! Leases on a majority of independent nodes (Redlock, with fencing tokens).
//!
//! Each node is a server that knows nothing of the others and decides by the same script as a single one. What a majority has
//! counts; [`bid`] says how a term begins, [`renew`] how it goes on, [`merge`] what anybody sees of it.

mod bid;
mod merge;
mod node;
mod nodes;
mod operator;
mod renew;
mod watch;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::clock::SystemClock;
use tenure_core::store::{
    Acquisition, Bid, Changes, ErrorKind, ExpiryClock, Guarantees, LeaseRecord, LeaseStore, Operator,
    Release, Released, Renew, Renewal, StoreError, TokenOrder, Wake,
};
use tenure_core::{Clock, ElectionName, Random};
use tokio::sync::Semaphore;

use self::bid::Bids;
use self::nodes::{Asked, Nodes, Patience};
use self::watch::WatchingAll;
use crate::config::{Address, Host, InvalidConfig, RedisConfig};
use crate::store::{Among, RedisStore, TOKEN_LIMIT, whole_ms};

/// The store's short name.
pub(crate) const STORE: &str = "redlock";

/// Leases on a majority of independent Redis servers; clones share their connections.
#[derive(Clone)]
pub struct RedlockStore {
    shared: Arc<Shared>,
}

struct Shared {
    config: RedisConfig,
    nodes: Nodes,
    /// How long one call may take.
    call_timeout: Duration,
    random: Random,
    bids: Bids,
    /// How many leases may be brought to nodes that miss them.
    taken_back: Arc<Semaphore>,
}

impl RedlockStore {
    /// Opens the store; the nodes are asked with the first call.
    ///
    /// # Errors
    /// If the configuration breaks a rule, or names no [`Address::Redlock`].
    pub fn new(config: RedisConfig) -> Result<Self, InvalidConfig> {
        Self::with_clock(config, Arc::new(SystemClock))
    }

    /// Opens the store at a URL, as [`RedisConfig::from_url`] reads it: `redlock://a,b,c`.
    ///
    /// # Errors
    /// If the URL breaks a rule.
    pub fn from_url(url: &str) -> Result<Self, InvalidConfig> {
        Self::new(RedisConfig::from_url(url)?)
    }

    /// Opens the store with a clock that limits how long a call may take; no lease ends by it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_clock(config: RedisConfig, clock: Arc<dyn Clock>) -> Result<Self, InvalidConfig> {
        config.check()?;
        let Address::Redlock(hosts) = &config.address else {
            return Err(InvalidConfig("names no independent nodes: write redlock://a,b,c".to_owned()));
        };
        if config.min_replicas > 0 {
            let rule = "counts replicas (min_replicas), which independent nodes have none of: leave it out";
            return Err(InvalidConfig(rule.to_owned()));
        }
        // What one node shows, another one may have forgotten.
        let longest_ttl_ms = Arc::new(AtomicU64::new(whole_ms(config.longest_ttl)));
        let node = |host: &Host| {
            let config = RedisConfig { address: Address::Tcp(host.clone()), ..config.clone() };
            RedisStore::knowing(config, Arc::clone(&clock), Arc::clone(&longest_ttl_ms))
        };
        let nodes = hosts.iter().map(node).collect::<Result<_, _>>()?;
        let shared = Shared {
            nodes: Nodes::new(nodes, clock),
            call_timeout: config.call_timeout,
            random: Random::from_os(),
            bids: Bids::default(),
            taken_back: renew::permits(),
            config,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

#[async_trait]
impl LeaseStore for RedlockStore {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        if bid.floor.0 >= TOKEN_LIMIT - 1 {
            let message = format!("token {} has no successor here: tokens end at {TOKEN_LIMIT}", bid.floor);
            return Err(StoreError::new(ErrorKind::Invalid, STORE, "acquire", message));
        }
        self.bid(election, bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        self.renew_all(renewals).await
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        let nodes = &self.shared.nodes;
        let quorum = nodes.quorum();
        self.shared.bids.close(release.lease.bid);
        let call = Arc::new((release.clone(), nodes.node(0).now_ms()));
        let mut asked: Asked<Released> = nodes.ask(|node| {
            let call = Arc::clone(&call);
            async move { node.shared.release(&call.0, &call.1, Among::Several).await }
        });
        let agreed = |answers: &[Option<Result<Released, StoreError>>]| {
            let said: Vec<_> = answers.iter().flatten().flatten().copied().collect();
            let count = |is| said.iter().filter(|released| **released == is).count();
            [Released::Released, Released::NotHeld].into_iter().find(|is| count(*is) >= quorum.majority())
        };
        asked.wait(&nodes.clock, Patience::Long, |answers| agreed(answers).is_some()).await;
        agreed(&asked.answers).ok_or_else(|| asked.error("release"))
    }

    async fn read(&self, election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let nodes = &self.shared.nodes;
        let until = nodes.clock.now().plus(self.shared.call_timeout);
        let looks = self.look(election, "read", false, until).await?;
        let shown: Vec<_> = looks.into_iter().map(|look| look.record).collect();
        Ok(nodes.quorum().together(&shown))
    }

    fn watch(&self, elections: &[ElectionName]) -> Option<Changes> {
        let nodes = self.shared.nodes.iter().map(|node| {
            node.listen()?;
            Some(node.watchers.watch(elections))
        });
        Some(Box::pin(WatchingAll::new(nodes.collect::<Option<_>>()?)))
    }

    fn guarantees(&self) -> Guarantees {
        let config = &self.shared.config;
        Guarantees {
            store: STORE,
            scope: format!("whoever uses {} with keys {} (prefix {})", config, config.key, config.prefix),
            linearizable: true,
            survives_restart: config.survives_restart,
            // A minority of the nodes may go for ever.
            survives_failover: Some(true),
            clock: ExpiryClock::Store(
                "the nodes' wall clocks: set forward on enough nodes to make another majority, they end leases early",
            ),
            tokens: TokenOrder::StrictWithin(config.max_server_skew),
            min_ttl: config.min_ttl,
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Push,
            assumptions: assumptions(config.allow_eviction),
        }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        Some(self)
    }
}

fn assumptions(allow_eviction: bool) -> Vec<&'static str> {
    let mut assumptions = vec![
        "the nodes are independent: none is a replica of another, and all candidates name the same ones",
        "nobody removes the keys (DEL, FLUSHALL) on a majority of the nodes while somebody leads",
        "a node that restarts with older data, or with none, gives no vote to a new term for the longest ttl of anybody; it \
         knows the ttls of whoever bids, and longest_ttl",
        "the clocks of the nodes run at about the rate of the leader's: it stops that much early (drift)",
        "if a node that elected the last term lost its data while the others that did are away, the clocks of a majority are \
         not behind the last token by more than max_server_skew",
    ];
    if allow_eviction {
        assumptions.push("no majority of the nodes ever removes a lease to make room, although they may");
    }
    assumptions
}

impl fmt::Debug for RedlockStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedlockStore({})", self.shared.config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_independent_nodes_make_a_store() {
        for (url, rule) in
            [("redis://a", "names no independent nodes"), ("redlock://a,b,c?min_replicas=1", "leave it out")]
        {
            let error = RedlockStore::from_url(url).unwrap_err().to_string();
            assert!(error.contains(rule), "{url}: {error}");
        }
        let error = RedisStore::from_url("redlock://a,b,c").unwrap_err().to_string();
        assert!(error.contains("open it with RedlockStore"), "{error}");
    }
}
