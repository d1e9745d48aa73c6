//! A master behind sentinels for the conformance suite.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::clock::ClockExt;
use tenure_core::store::{ErrorKind, LeaseStore};
use tenure_core::{Clock, ElectionName, SystemClock};
use tenure_testkit::conformance::{ByHand, Fixture, Freezer, Property, Refusal, Restart};
use tenure_testkit::process::Process;
use tenure_testkit::servers::redis::{Data, SentinelOptions, Sentinels};

use super::fixture::{TTL, get_by_hand, grown_up, in_a_later_format, put_by_hand};
use super::{attached, here, open};

/// Returns the URL of what sentinels watch over.
pub fn url(sentinels: &Sentinels) -> String {
    url_of(sentinels, sentinels.name())
}

fn url_of(sentinels: &Sentinels, master: &str) -> String {
    let addresses: Vec<_> = sentinels.addresses().iter().map(ToString::to_string).collect();
    format!("redis+sentinel://{}/{master}", addresses.join(","))
}

/// A master, two replicas and three sentinels of its own; each handle connects once more, as another process would.
///
/// The way to the master is not disturbed: sentinels name the master by its own address, past any proxy. The connection is
/// the one that the suite disturbs with one server; here it disturbs the calls.
pub struct BehindSentinels {
    sentinels: Sentinels,
    settings: String,
    frozen: Mutex<Vec<Process>>,
}

impl BehindSentinels {
    pub async fn fresh(min_replicas: u32) -> Self {
        // Longer than the master takes to restart on a busy machine: it is to come back as the master.
        let down_after = Duration::from_secs(20);
        let options = SentinelOptions { down_after, ..Default::default() };
        // The suite measures how long a lease lasts: half a second more would be too much for one of its size. And it takes
        // no answer but the right one: on a busy machine seven processes may take their time.
        let settings = format!(
            "survives_restart=true&call_timeout=8s&max_server_skew=100ms&min_replicas={min_replicas}"
        );
        let fixture = Self { sentinels: here(options.start()), settings, frozen: Mutex::default() };
        here(fixture.attached());
        fixture
    }

    async fn attached(&self) {
        attached(&self.sentinels.servers()[0], &self.sentinels.servers()[1..]).await;
    }
}

#[async_trait]
impl Fixture for BehindSentinels {
    async fn handle(&self) -> Arc<dyn LeaseStore> {
        Arc::new(open(&url(&self.sentinels), &self.settings))
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(60)
    }

    fn applies(&self, property: Property) -> Result<(), &'static str> {
        match property {
            Property::A30 => Err("leases hang on no session"),
            _ => Ok(()),
        }
    }

    fn by_hand(&self) -> Option<&dyn ByHand> {
        Some(self)
    }

    fn restart(&self) -> Option<&dyn Restart> {
        Some(self)
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

    fn freezer(&self) -> Option<&dyn Freezer> {
        Some(self)
    }
}

#[async_trait]
impl ByHand for BehindSentinels {
    async fn get(&self, election: &ElectionName) -> Option<Vec<u8>> {
        get_by_hand(&self.sentinels.servers()[0], election).await
    }

    async fn put(&self, election: &ElectionName, bytes: Option<Vec<u8>>) {
        put_by_hand(&self.sentinels.servers()[0], election, bytes).await;
    }

    fn in_a_later_format(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        in_a_later_format(bytes)
    }
}

/// The master comes back before the sentinels miss it.
#[async_trait]
impl Restart for BehindSentinels {
    async fn keeping_data(&self) -> bool {
        here(self.sentinels.servers()[0].restart(Data::Kept));
        // Replicas come back a second later than the master does, and some must have what is written.
        here(self.sentinels.wait_until_ready());
        here(self.attached());
        true
    }

    async fn losing_data(&self) -> bool {
        here(self.sentinels.servers()[0].restart(Data::Lost));
        here(self.sentinels.wait_until_ready());
        here(self.attached());
        grown_up(&self.sentinels.servers()[0]).await;
        true
    }
}

#[async_trait]
impl Freezer for BehindSentinels {
    async fn freeze(&self, election: &ElectionName, after: Duration) {
        let url = format!("{}?{}", url(&self.sentinels), self.settings);
        let other = Process::leading("other_process", &url, election, TTL).await;
        SystemClock.sleep(after).await;
        other.stop().await;
        self.frozen.lock().unwrap().push(other);
    }

    async fn end(&self) {
        self.frozen.lock().unwrap().clear();
    }
}
