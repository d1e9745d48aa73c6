//! The world of one run: its processes, its servers, its time, and what scripts can do to them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_core::identity::{IdentityError, StableIdentity};
use tenure_core::store::ttl::Ttl;
use tenure_core::store::versioned::Versioned;
use tenure_core::store::{Action, ControlRequest, LeaseRecord, LeaseStore, Operator, Pause, Requested};
use tenure_core::{
    Attempt, BidId, CandidateId, ElectionName, Elections, Fence, FencingToken, Random, RequestId, Settings,
};
use tenure_testkit::VirtualClock;
use tokio::sync::Notify;

use crate::doors::{Names, NetStore, NetVersioned, Recorder};
use crate::fault;
use crate::gate::{Gate, ProcessClock};
use crate::home::{Disks, Elsewhere, Home};
use crate::ledger::Ledger;
use crate::model::queue::{self, Queue};
use crate::model::redlock::{Machines, Redlock};
use crate::net_ttl::NetTtl;
use crate::network::{Link, Net, Weather, unpoisoned};
use crate::plan::{Plan, derive, spread};
use crate::process::Process;
use crate::server::{Making, Server};
use crate::trace::{Recording, What, Who, trust};
use crate::twin::Twin;
use crate::wrong::Wrong;

/// The world of one run; clones are the same world.
#[derive(Clone)]
pub struct World {
    shared: Arc<Shared>,
}

struct Shared {
    seed: u64,
    /// Makes candidates of this run differ from those of every other one in this program.
    prefix: String,
    plan: Plan,
    wrong: Option<Wrong>,
    net: Arc<Net>,
    /// The clock of the first server.
    server_clock: VirtualClock,
    server_offset: Duration,
    operator: Arc<Link>,
    fence: Fence,
    random: Random,
    processes: Mutex<Vec<Arc<Process>>>,
    names: Arc<Mutex<Vec<CandidateId>>>,
    elected: Notify,
    stormy: AtomicBool,
    disks: Disks,
}

/// Whom a new process takes after.
#[derive(Clone, Default)]
pub struct Birth {
    /// Another lease length than the plan's.
    pub ttl: Option<Duration>,
    /// The process whose name it has.
    pub twin_of: Option<Arc<Process>>,
    /// The bid that it goes on from, as a copy of `twin_of`.
    pub clone_of: Option<BidId>,
}

impl World {
    /// Makes a world with a server and nobody in it. Begins true time.
    #[must_use]
    pub fn new(prefix: String, seed: u64, plan: Plan, wrong: Option<Wrong>) -> Self {
        let time = VirtualClock::new();
        let random = Random::from_seed(derive(seed, "world"));
        let ppm = spread(&random, plan.clocks.server_ppm);
        // Never zero: another server's clock can be behind.
        let server_offset = random.up_to(plan.clocks.offset) + Duration::from_secs(100);
        let server_clock = time.beside().with_offset(server_offset).with_rates(ppm, ppm);
        let trace = Recording::new(time.clone());
        let server = Server::new(&Making {
            plan: &plan,
            clock: &server_clock,
            random: Random::from_seed(derive(seed, "server")),
            trace: trace.clone(),
            wrong,
        });
        let election = ElectionName::new("e").unwrap_or_else(|_| unreachable!("one letter is a name"));
        let net = Arc::new(Net {
            trace,
            faults_end: plan.ttl * plan.ttls,
            time: time.clone(),
            election,
            servers: Mutex::new(vec![server]),
            route: AtomicUsize::new(0),
            bottleneck: (wrong == Some(Wrong::LocksOutside)).then(Arc::default),
            last: Mutex::default(),
        });
        let gate = Arc::new(Gate::new(time));
        let operator_draws = Random::from_seed(derive(seed, "operator"));
        let operator =
            Arc::new(Link::new(Who::WORLD, gate, Arc::clone(&net), Weather::calm(), operator_draws));
        let shared = Shared {
            seed,
            prefix,
            plan,
            wrong,
            net,
            server_clock,
            server_offset,
            operator,
            fence: Fence::new(),
            random,
            processes: Mutex::default(),
            names: Arc::default(),
            elected: Notify::new(),
            stormy: AtomicBool::new(true),
            disks: Disks::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns what the run is made of.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// Returns the lease length of most candidates.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.shared.plan.ttl
    }

    /// Returns the script's own draws.
    #[must_use]
    pub fn dice(&self) -> &Random {
        &self.shared.random
    }

    /// Returns the network.
    #[must_use]
    pub fn net(&self) -> &Arc<Net> {
        &self.shared.net
    }

    /// Returns the clock of the first server.
    #[must_use]
    pub fn server_clock(&self) -> &VirtualClock {
        &self.shared.server_clock
    }

    /// Makes the clock of another server that is `behind` the first one's.
    #[must_use]
    pub fn server_clock_behind(&self, behind: Duration) -> VirtualClock {
        self.shared.net.time.beside().with_offset(self.shared.server_offset.saturating_sub(behind))
    }

    /// Adds a server and answers its number.
    pub fn add_server(&self, server: Server) -> usize {
        let mut servers = unpoisoned(&self.shared.net.servers);
        servers.push(server);
        servers.len() - 1
    }

    /// Returns how the store is wrong in this run, if it is.
    #[must_use]
    pub fn wrong(&self) -> Option<Wrong> {
        self.shared.wrong
    }

    /// Returns the server that can lose data.
    #[must_use]
    pub fn ledger(&self, index: usize) -> Option<Ledger> {
        match self.shared.net.server(index) {
            Server::Ledger(ledger) => Some(ledger),
            _ => None,
        }
    }

    /// Returns the machines of which a majority decides.
    #[must_use]
    pub fn machines(&self) -> Option<Machines> {
        match self.shared.net.server(0) {
            Server::Machines(machines) => Some(machines),
            _ => None,
        }
    }

    /// Returns the server whose keys hang on sessions.
    #[must_use]
    pub fn sessions(&self) -> Option<queue::Server> {
        match self.shared.net.server(0) {
            Server::Sessions(server) => Some(server),
            _ => None,
        }
    }

    pub(crate) fn settings(&self, ttl: Duration) -> Settings {
        Settings::ttl(ttl)
    }

    /// Writes a line into the trace.
    pub fn add(&self, who: Who, what: What) {
        self.shared.net.trace.add(who, what);
    }

    /// Counts a fault.
    pub fn fault(&self, who: Who, name: &'static str) {
        self.add(who, What::Fault(name));
    }

    /// Says that a scenario's own statement did not hold.
    pub fn unexpected(&self, what: &'static str) {
        self.add(Who::WORLD, What::Unexpected(what));
    }

    /// Tells whether things may still go wrong.
    #[must_use]
    pub fn is_stormy(&self) -> bool {
        self.shared.stormy.load(Ordering::Relaxed)
    }

    /// What is left until faults stop.
    #[must_use]
    pub fn time_for_faults(&self) -> Duration {
        self.shared.net.time_for_faults()
    }

    /// Tells whether the time for faults is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.time_for_faults().is_zero()
    }

    /// Returns the true time.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.shared.net.time.true_now()
    }

    /// Waits for true time to pass.
    pub async fn sleep(&self, d: Duration) {
        self.shared.net.time.sleep_true(d).await;
    }

    /// Waits for a drawn time, from and to in percent of the ttl.
    pub async fn sleep_percent(&self, from: u32, to: u32) {
        self.sleep(self.percent(from, to)).await;
    }

    /// Draws a time, from and to in percent of the ttl.
    #[must_use]
    pub fn percent(&self, from: u32, to: u32) -> Duration {
        let ttl = self.ttl();
        ttl * from / 100 + self.dice().up_to(ttl * to.saturating_sub(from) / 100)
    }

    /// Starts a candidate.
    pub fn start(&self) -> Arc<Process> {
        self.start_as(&Birth::default())
    }

    /// Starts a candidate that takes after another one.
    pub fn start_as(&self, birth: &Birth) -> Arc<Process> {
        let process = self.make(birth);
        process.stand(self.shared.plan.resign_on_failure);
        process
    }

    /// Makes a process that does not stand yet.
    pub fn make(&self, birth: &Birth) -> Arc<Process> {
        self.make_at(birth, None)
    }

    /// Starts a candidate with a stable identity at `home`, unless another live process has that.
    pub fn start_at(&self, home: &Home) -> Option<Arc<Process>> {
        match StableIdentity::open("one identity", &home.directory, home.origin.instance_id.clone()) {
            Ok(identity) => {
                let process = self.make_at(&Birth::default(), Some((identity, home)));
                process.stand(self.shared.plan.resign_on_failure);
                Some(process)
            }
            Err(IdentityError::InUse { .. }) => {
                self.fault(Who::WORLD, fault::IDENTITY_IN_USE);
                None
            }
            Err(_) => {
                self.unexpected("a state directory could not be used");
                None
            }
        }
    }

    /// Returns the disks of the run's machines.
    #[must_use]
    pub fn disks(&self) -> &Disks {
        &self.shared.disks
    }

    fn make_at(&self, birth: &Birth, identity: Option<(StableIdentity, &Home)>) -> Arc<Process> {
        let shared = &self.shared;
        let index = unpoisoned(&shared.processes).len();
        let who = Who(u16::try_from(index).unwrap_or(u16::MAX - 1));
        let draws = |label: &str| Random::from_seed(derive(shared.seed, &format!("{label} {index}")));
        let clocks = draws("clocks");
        let (boot, raw) =
            (spread(&clocks, shared.plan.clocks.boot_ppm), spread(&clocks, shared.plan.clocks.raw_ppm));
        let offset = clocks.up_to(shared.plan.clocks.offset);
        let machine = shared.net.time.beside().with_offset(offset).with_rates(boot, raw);
        let gate = Arc::new(Gate::new(shared.net.time.clone()));
        let clock = ProcessClock { machine, gate: Arc::clone(&gate) };
        let weather = if self.is_stormy() { shared.plan.weather.clone() } else { Weather::calm() };
        let link =
            Arc::new(Link::new(who, Arc::clone(&gate), Arc::clone(&shared.net), weather, draws("link")));
        let name = match &birth.twin_of {
            Some(twin) => twin.name.clone(),
            None => CandidateId::new(format!("{}-{index}", shared.prefix))
                .unwrap_or_else(|_| unreachable!("a short name without control characters")),
        };
        unpoisoned(&shared.names).push(name.clone());
        let ttl = birth.ttl.unwrap_or(shared.plan.ttl);
        let door = self.door(&link, &clock, &name, ttl);
        let timing = self
            .settings(ttl)
            .resolve(&door.guarantees())
            .unwrap_or_else(|broken| unreachable!("plans keep the rules: {broken}"));
        let door = self.recorded(door, &link, &clock, trust(&timing));
        let (mut door, election) = self.translated(door, birth, index);
        // The file of a lock that the kernel takes from a process that dies, and the simulation from one that crashes.
        let proof = identity.as_ref().and_then(|(identity, _)| identity.proof().try_clone().ok());
        if let Some((_, home)) = &identity {
            door = Arc::new(Elsewhere::new(door, home));
        }
        let mut elections = Elections::builder(door)
            .clock(Arc::new(clock.clone()))
            .candidate(name.clone())
            .settings(self.settings(ttl))
            .seed(self.seed_of(birth, index));
        if let Some((identity, _)) = identity {
            elections = elections.identity(identity);
        }
        let elections = elections.build();
        let process = Arc::new(Process {
            who,
            name,
            clock,
            gate,
            link,
            proof,
            elections,
            election,
            timing,
            random: draws("work"),
            leading: Mutex::default(),
            handle: Mutex::default(),
            stopping: AtomicBool::new(false),
            world: self.clone(),
        });
        unpoisoned(&shared.processes).push(Arc::clone(&process));
        let (trust, latency) = (trust(&process.timing), process.timing.latency);
        let named = self.who_is(process.name.as_str());
        self.add(who, What::Started { trust, ttl, latency, named });
        process
    }

    /// A copy of a process draws other ids than the original only if the drawing is not copied along.
    fn seed_of(&self, birth: &Birth, index: usize) -> u64 {
        let alike = self.shared.wrong == Some(Wrong::ClonesDrawAlike);
        match &birth.twin_of {
            Some(original) if alike => derive(self.shared.seed, &format!("ids {}", original.who.0)),
            _ => derive(self.shared.seed, &format!("ids {index}")),
        }
    }

    fn door(
        &self,
        link: &Arc<Link>,
        clock: &ProcessClock,
        name: &CandidateId,
        ttl: Duration,
    ) -> Arc<dyn LeaseStore> {
        let link = Arc::clone(link);
        match self.shared.net.server(0) {
            Server::Bytes { door, .. } => {
                let unconditional = self.shared.wrong == Some(Wrong::IgnoresCondition);
                let store = NetVersioned { link, door, unconditional };
                Arc::new(Versioned::with_clock(store, Arc::new(clock.clone())))
            }
            Server::Values { values, .. } => {
                Arc::new(Ttl::with_clock(NetTtl { link, values }, Arc::new(clock.clone())))
            }
            Server::Machines(machines) => {
                let random = Random::from_seed(derive(self.shared.seed, &format!("redlock {}", link.who)));
                Arc::new(Redlock::new(link, machines, random))
            }
            Server::Sessions(server) => {
                Arc::new(Queue::new(link, server, clock.clone(), name.clone(), ttl, self.shared.wrong))
            }
            Server::Memory(_) | Server::Ledger(_) | Server::Pool(_) => Arc::new(NetStore { link }),
        }
    }

    fn recorded(
        &self,
        inner: Arc<dyn LeaseStore>,
        link: &Arc<Link>,
        clock: &ProcessClock,
        trust: Duration,
    ) -> Arc<dyn LeaseStore> {
        let known = Arc::clone(&self.shared.names);
        let names: Names = Arc::new(move |name| who_is(&unpoisoned(&known), name));
        let (link, clock) = (Arc::clone(link), clock.clone());
        Arc::new(Recorder { inner, link, clock, trust, names, bid: Mutex::default() })
    }

    fn translated(
        &self,
        inner: Arc<dyn LeaseStore>,
        birth: &Birth,
        index: usize,
    ) -> (Arc<dyn LeaseStore>, String) {
        let there = self.shared.net.election.clone();
        let here = there.as_str().to_owned();
        if birth.twin_of.is_none() {
            return (inner, here);
        }
        let twin = Twin::new(inner, there, birth.clone_of);
        (Arc::new(twin), format!("{here} seen by {index}"))
    }

    /// Returns the process of that name; of several with one name, the first.
    #[must_use]
    pub fn who_is(&self, name: &str) -> Who {
        who_is(&unpoisoned(&self.shared.names), name)
    }

    /// Returns everybody, also those that are gone.
    #[must_use]
    pub fn processes(&self) -> Vec<Arc<Process>> {
        unpoisoned(&self.shared.processes).clone()
    }

    /// Returns a process that leads by its own clocks.
    #[must_use]
    pub fn leader(&self) -> Option<Arc<Process>> {
        self.processes().into_iter().find(|process| process.leads())
    }

    /// Returns a drawn process that stands and does not lead.
    #[must_use]
    pub fn follower(&self) -> Option<Arc<Process>> {
        let followers: Vec<_> =
            self.processes().into_iter().filter(|process| process.stands() && !process.leads()).collect();
        (!followers.is_empty())
            .then(|| Arc::clone(&followers[crate::plan::pick(self.dice(), followers.len())]))
    }

    /// Waits until somebody leads, for at most `limit`.
    pub async fn leader_within(&self, limit: Duration) -> Option<Arc<Process>> {
        let until = self.now().saturating_add(limit);
        loop {
            let elected = self.shared.elected.notified();
            if let Some(leader) = self.leader() {
                return Some(leader);
            }
            let left = until.saturating_sub(self.now());
            if left.is_zero() {
                return None;
            }
            tokio::select! {
                biased;
                () = elected => {}
                () = self.sleep(left) => {}
            }
        }
    }

    /// Takes note of an election: whoever else may lead by its own clocks is written down.
    pub(crate) fn elected(&self, process: &Arc<Process>) {
        for other in self.processes() {
            if other.who != process.who
                && other.leads()
                && let Some(leadership) = other.leadership()
            {
                self.add(other.who, What::Valid(leadership.token()));
            }
        }
        self.shared.elected.notify_waiters();
    }

    /// Writes to what all leaders write to; answers whether the fence let it in.
    pub(crate) fn write_to_resource(&self, token: FencingToken) -> bool {
        let accepted = self.shared.fence.guard(token, || ()).is_ok();
        accepted || self.shared.wrong == Some(Wrong::NoFence)
    }

    /// Looks at the first server's record.
    #[must_use]
    pub fn record(&self) -> Option<LeaseRecord> {
        self.shared.net.server(0).peek(&self.shared.net.election)
    }

    /// Lets an operator do something.
    pub async fn operate(&self, what: impl AsyncFnOnce(&dyn Operator)) {
        match self.shared.net.server(0) {
            Server::Bytes { door, .. } => {
                let link = Arc::clone(&self.shared.operator);
                let store = NetVersioned { link, door, unconditional: false };
                let clock = Arc::new(self.shared.net.time.clone());
                what(&Versioned::with_clock(store, clock)).await;
            }
            Server::Values { values, .. } => {
                let link = Arc::clone(&self.shared.operator);
                let clock = Arc::new(self.shared.net.time.clone());
                what(&Ttl::with_clock(NetTtl { link, values }, clock)).await;
            }
            server => {
                if let Some(store) = server.leases()
                    && let Some(operator) = store.operator()
                {
                    what(operator).await;
                }
            }
        }
        self.shared.net.look(0);
    }

    /// Leaves an operator's request for the term `token`.
    pub async fn request(&self, token: FencingToken, action: Action) -> Option<Requested> {
        let id = RequestId::new(self.dice());
        let request = ControlRequest { id, token, by: "operator".into(), action, expires_in: self.ttl() };
        let attempt = Attempt::new(self.dice());
        let mut outcome = None;
        self.add(Who::WORLD, What::Requested(token, id));
        self.operate(async |operator| {
            outcome = operator.request(&self.shared.net.election, attempt, request).await.ok();
        })
        .await;
        outcome
    }

    /// Keeps anybody new from being elected for `d`, at most until faults stop.
    pub async fn pause_election(&self, d: Duration) {
        self.fault(Who::WORLD, fault::ELECTION_PAUSED);
        let attempt = Attempt::new(self.dice());
        let pause = Pause { by: "operator".into(), ends_in: d.min(self.time_for_faults()) };
        self.operate(async |operator| drop(operator.pause(&self.shared.net.election, attempt, pause).await))
            .await;
    }

    /// Ends a pause of the election.
    pub async fn resume_election(&self) {
        let attempt = Attempt::new(self.dice());
        self.operate(async |operator| drop(operator.resume(&self.shared.net.election, attempt).await)).await;
    }

    /// Lets go of everybody: processes and their world hold each other.
    pub(crate) fn forget(&self) {
        unpoisoned(&self.shared.processes).clear();
    }

    /// Ends all faults.
    pub(crate) fn calm_down(&self) {
        self.shared.stormy.store(false, Ordering::Relaxed);
        for process in self.processes() {
            process.link.set_weather(Weather::calm());
            process.link.mend();
            process.gate.open();
        }
        self.add(Who::WORLD, What::Calm);
    }
}

fn who_is(names: &[CandidateId], name: &str) -> Who {
    let place = names.iter().position(|known| known.as_str() == name);
    place.and_then(|place| u16::try_from(place).ok()).map_or(Who::WORLD, Who)
}
