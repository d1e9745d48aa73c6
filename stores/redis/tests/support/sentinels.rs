//! A master behind sentinels for the conformance suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::ElectionName;
use tenure_core::store::{ErrorKind, LeaseStore};
use tenure_testkit::conformance::Refusal;
use tenure_testkit::servers::redis::{Data, Redis, SentinelOptions, Sentinels};

use super::deployed::{Conforming, Deployed};
use super::fixture::TTL;
use super::{attached, here, open};

/// Returns the URL of what sentinels watch over.
pub fn url(sentinels: &Sentinels) -> String {
    url_of(sentinels, sentinels.name())
}

fn url_of(sentinels: &Sentinels, master: &str) -> String {
    let addresses: Vec<_> = sentinels.addresses().iter().map(ToString::to_string).collect();
    format!("redis+sentinel://{}/{master}", addresses.join(","))
}

/// A master, two replicas and three sentinels of its own.
///
/// The way to the master is not disturbed: sentinels name the master by its own address, past any proxy. The connection is
/// the one that the suite disturbs with one server; here it disturbs the calls.
pub struct BehindSentinels {
    sentinels: Sentinels,
    settings: String,
}

impl BehindSentinels {
    pub async fn fresh(min_replicas: u32) -> Conforming<Self> {
        // Longer than the master takes to restart on a busy machine: it is to come back as the master.
        let down_after = Duration::from_secs(20);
        let options = SentinelOptions { down_after, ..Default::default() };
        // The suite measures how long a lease lasts: half a second more would be too much for one of its size. And it takes
        // no answer but the right one: on a busy machine seven processes may take their time.
        let settings = format!(
            "survives_restart=true&call_timeout=8s&max_server_skew=100ms&min_replicas={min_replicas}"
        );
        let deployed = Self { sentinels: here(options.start()), settings };
        deployed.wait_for_replicas();
        Conforming::new(deployed)
    }

    fn wait_for_replicas(&self) {
        here(attached(&self.sentinels.servers()[0], &self.sentinels.servers()[1..]));
    }
}

#[async_trait]
impl Deployed for BehindSentinels {
    fn url(&self) -> String {
        format!("{}?{}", url(&self.sentinels), self.settings)
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn keepers(&self, _: &ElectionName) -> Vec<&Redis> {
        vec![&self.sentinels.servers()[0]]
    }

    /// The master comes back before the sentinels miss it; its replicas a second later, and some must have what is written.
    fn restart(&self, data: Data) -> Vec<&Redis> {
        let master = &self.sentinels.servers()[0];
        here(master.restart(data));
        here(self.sentinels.wait_until_ready());
        self.wait_for_replicas();
        vec![master]
    }

    async fn refusals(&self) -> Vec<Refusal> {
        let handle = |url: &str, more: &str| {
            Arc::new(open(url, &format!("survives_restart=true{more}"))) as Arc<dyn LeaseStore>
        };
        let sentinels = &self.sentinels;
        let server = sentinels.servers()[0].address();
        vec![
            Refusal {
                what: "a master that the sentinels do not know",
                handle: handle(&url_of(sentinels, "nobody"), ""),
                kind: ErrorKind::Invalid,
                hint: "knows no master of this name",
            },
            Refusal {
                what: "a server in the place of a sentinel",
                handle: handle(&format!("redis+sentinel://{server}/{}", sentinels.name()), ""),
                kind: ErrorKind::Invalid,
                hint: "is no sentinel",
            },
            Refusal {
                what: "a sentinel in the place of a server",
                handle: handle(&format!("redis://{}", sentinels.addresses()[0]), ""),
                kind: ErrorKind::Invalid,
                hint: "redis+sentinel://",
            },
            Refusal {
                what: "a password where the sentinels have none",
                handle: handle(&url(sentinels), "&sentinel_password=pw"),
                kind: ErrorKind::Denied,
                hint: "check sentinel_user and sentinel_password",
            },
            Refusal {
                what: "a password where the servers have none",
                handle: handle(&url(sentinels), "&user=nobody&password=pw"),
                kind: ErrorKind::Denied,
                hint: "refuses the user or the password",
            },
        ]
    }
}
