//! What one process shares between its elections on one store.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::clock::{Clock, SystemClock};
use crate::elector::{
    Board, Callbacks, Elector, ElectorHandle, InvalidSettings, Leadership, Limit, Machine, Settings,
    StartError, Timing,
};
use crate::identity::StableIdentity;
use crate::name::{CandidateId, ElectionName};
use crate::random::Random;
use crate::store::ttl::Ttl;
use crate::store::ttl_store::TtlStore;
use crate::store::{ErrorKind, LeaseStore, Metadata, Renew, Renewal, StoreError, Wake};
use crate::token::FencingToken;

/// One candidate's elections on one store; clones share everything.
///
/// They share the candidate's name, the clock, and the round trips of their renewals.
#[derive(Clone)]
pub struct Elections {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Arc<dyn LeaseStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Random,
    pub(crate) candidate: CandidateId,
    /// The same two once more, for what outlives these elections.
    pub(crate) machine: Arc<Machine>,
    place: Place,
    /// How the store tells of changes.
    pub(crate) wake: Wake,
    pub(crate) identity: Option<StableIdentity>,
    pub(crate) metadata: Metadata,
    settings: Settings,
    renewals: Renewals,
    closing: AtomicBool,
    /// Worked out once for all electors that take the settings of these elections.
    timing: OnceLock<Arc<Timing>>,
    /// The highest token seen of each election, over all its electors: the floor of the next bid.
    floors: Mutex<BTreeMap<ElectionName, FencingToken>>,
    running: Arc<Mutex<BTreeSet<Running>>>,
    /// The callbacks of all electors that have none.
    pub(crate) nothing: Arc<Callbacks>,
}

/// Puts [`Elections`] together.
#[must_use]
pub struct ElectionsBuilder {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    random: Random,
    candidate: Option<CandidateId>,
    identity: Option<StableIdentity>,
    metadata: Metadata,
    settings: Settings,
}

/// Why a one-shot call did not lead.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeadError {
    /// It could not even begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was stopped before it led.
    #[error("stopped before it was elected")]
    Stopped,
}

impl Elections {
    /// Takes part in elections on `store`, as this process.
    pub fn new(store: impl LeaseStore) -> Self {
        Self::builder(store).build()
    }

    /// Begins to put elections together.
    pub fn builder(store: impl LeaseStore) -> ElectionsBuilder {
        ElectionsBuilder {
            store: Arc::new(store),
            clock: Arc::new(SystemClock),
            random: Random::from_os(),
            candidate: None,
            identity: None,
            metadata: Metadata::new(),
            settings: Settings::default(),
        }
    }

    /// Takes part in elections on storage of one's own, with a clock of one's own.
    pub fn over(storage: impl TtlStore, clock: Arc<dyn Clock>) -> Self {
        Self::builder(Ttl::with_clock(storage, Arc::clone(&clock))).clock(clock).build()
    }

    /// Returns who takes part.
    #[must_use]
    pub fn candidate(&self) -> &CandidateId {
        &self.shared.candidate
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn LeaseStore> {
        &self.shared.store
    }

    /// Begins to take part in the election `name`, with the settings of these elections.
    pub fn elector(&self, name: impl Into<String>) -> Elector {
        Elector::within(Arc::clone(&self.shared), name.into(), self.shared.settings.clone())
    }

    /// Leads `name` if that is possible at once; `None` if somebody else does.
    ///
    /// The lease renews itself while the `Leadership` (or a clone) lives; dropping the last one ends the term.
    ///
    /// # Errors
    /// If it cannot begin, or the store gives no answer.
    pub async fn try_lead(&self, name: impl Into<String>) -> Result<Option<Leadership>, LeadError> {
        self.elector(name).lead(Limit::Try).await
    }

    /// Waits until it leads `name`. Dropping the future withdraws the bid.
    ///
    /// # Errors
    /// If it cannot begin, or is stopped by [`close`](Self::close).
    pub async fn lead(&self, name: impl Into<String>) -> Result<Leadership, LeadError> {
        self.elector(name).lead(Limit::Never).await?.ok_or(LeadError::Stopped)
    }

    /// Waits at most `wait` until it leads `name`; `None` if somebody else leads all that time.
    ///
    /// # Errors
    /// If it cannot begin, or the store gives no answer all that time.
    pub async fn lead_within(
        &self,
        name: impl Into<String>,
        wait: Duration,
    ) -> Result<Option<Leadership>, LeadError> {
        let until = self.shared.clock.now().plus(wait);
        self.elector(name).lead(Limit::Until(until)).await
    }

    /// Ends the term of `name`, if this candidate leads it, and waits until its work has stopped and the lease is given
    /// back. Answers whether it took part at all.
    ///
    /// Whoever waits here while it holds a [`Leadership`] of `name` itself waits for itself: drop it first.
    pub async fn release(&self, name: &str) -> bool {
        match self.shared.own(name) {
            Some(handle) => {
                handle.stop().await;
                true
            }
            None => false,
        }
    }

    /// Refuses new elections, ends all terms, gives all leases back, and waits for it. Drop what you hold of them first: a
    /// [`Leadership`] that lives counts as work.
    pub async fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        let handles = self.shared.all_own();
        for handle in &handles {
            handle.ask_to_stop();
        }
        for handle in &handles {
            handle.stop().await;
        }
    }
}

impl fmt::Debug for Elections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elections({} on {:?})", self.shared.candidate, self.shared.store)
    }
}

impl ElectionsBuilder {
    /// Sets the settings of electors that are given none (default: profile balanced).
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the clock (default: the machine's).
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Draws ids and jitter from a seed, so that a test repeats itself.
    pub fn seed(mut self, seed: u64) -> Self {
        self.random = Random::from_seed(seed);
        self
    }

    /// Names the candidate (default: this process). Two candidates in one process must have two names.
    pub fn candidate(mut self, candidate: CandidateId) -> Self {
        self.candidate = Some(candidate);
        self
    }

    /// Gives the candidate a name that stays over restarts: a restarted process takes its own unexpired lease at once.
    pub fn identity(mut self, identity: StableIdentity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Tells everybody something about this candidate, such as its address. Never put secrets here.
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Puts it together.
    pub fn build(self) -> Elections {
        let candidate = self.candidate.unwrap_or_else(this_process);
        let renewals = Renewals::new(Arc::clone(&self.store), Arc::clone(&self.clock));
        let guarantees = self.store.guarantees();
        let place = (candidate.clone(), format!("{}: {}", guarantees.store, guarantees.scope));
        let running = running_at(&place);
        let shared = Shared {
            machine: Arc::new(Machine { candidate: candidate.clone(), clock: Arc::clone(&self.clock) }),
            place,
            wake: guarantees.wake,
            store: self.store,
            clock: self.clock,
            random: self.random,
            candidate,
            identity: self.identity,
            metadata: self.metadata,
            settings: self.settings,
            renewals,
            closing: AtomicBool::new(false),
            timing: OnceLock::new(),
            floors: Mutex::default(),
            running,
            nothing: Arc::default(),
        };
        Elections { shared: Arc::new(shared) }
    }
}

/// One process is one candidate, however many stores and elections it has.
fn this_process() -> CandidateId {
    static CANDIDATE: OnceLock<CandidateId> = OnceLock::new();
    CANDIDATE.get_or_init(|| CandidateId::of_this_process(&Random::from_os())).clone()
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, BTreeSet<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an elector that runs, so that `release` and `close` find it and no second one takes its seat.
    ///
    /// # Errors
    /// If the seat is taken, or it is too late for new ones.
    pub(crate) fn enter(&self, election: &ElectionName, board: &Arc<Board>) -> Result<(), StartError> {
        let mut running = self.running();
        // Under the lock that `close` takes after it has shut the door: whoever gets in is found.
        if self.closing.load(Ordering::Acquire) {
            return Err(StartError::Closing);
        }
        if !running.insert(Running(Arc::clone(board))) {
            return Err(StartError::AlreadyStanding(election.clone()));
        }
        Ok(())
    }

    /// Tells whether these elections started that elector, and not others of the same candidate on the same store.
    fn has_started(&self, running: &Running) -> bool {
        Arc::ptr_eq(&running.0.machine, &self.machine)
    }

    fn all_own(&self) -> Vec<ElectorHandle> {
        let running = self.running();
        running.iter().filter(|running| self.has_started(running)).map(Running::handle).collect()
    }

    fn own(&self, name: &str) -> Option<ElectorHandle> {
        self.running().get(name).filter(|running| self.has_started(running)).map(Running::handle)
    }

    /// Waits for an elector of `name` that is about to stop by itself: whoever drops a leadership, or a call that waited
    /// for one, and leads again means it.
    pub(crate) async fn wait_for_ending(&self, name: &str) {
        while let Some(ending) = self.ending(name) {
            ending.stopped().await;
        }
    }

    fn ending(&self, name: &str) -> Option<ElectorHandle> {
        self.own(name).filter(ElectorHandle::is_ending)
    }

    /// Frees the seat of an elector that has entered.
    pub(crate) fn leave(&self, election: &ElectionName) {
        self.running().remove(election.as_str());
    }

    /// Works out and checks how an elector keeps time.
    pub(crate) fn timing(&self, settings: &Settings) -> Result<Arc<Timing>, InvalidSettings> {
        let resolve = || settings.resolve(&self.store.guarantees()).map(Arc::new);
        if *settings != self.settings {
            return resolve();
        }
        match self.timing.get() {
            Some(timing) => Ok(Arc::clone(timing)),
            None => resolve().map(|timing| Arc::clone(self.timing.get_or_init(|| timing))),
        }
    }

    pub(crate) fn floor(&self, election: &ElectionName) -> FencingToken {
        let floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        floors.get(election).copied().unwrap_or_default()
    }

    pub(crate) fn raise_floor(&self, election: &ElectionName, token: FencingToken) {
        // Nothing seen is nothing to remember: a process may stand in ever new elections.
        if token == FencingToken::ZERO {
            return;
        }
        let mut floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        let floor = floors.entry(election.clone()).or_default();
        *floor = token.max(*floor);
    }

    pub(crate) fn renewals(&self) -> &Renewals {
        &self.renewals
    }
}

/// An elector that runs, found by the name of its election. There may be a hundred thousand: the name stands on its
/// board and not here once more.
struct Running(Arc<Board>);

impl Running {
    fn handle(&self) -> ElectorHandle {
        ElectorHandle::watching(Arc::clone(&self.0))
    }
}

impl Borrow<str> for Running {
    fn borrow(&self) -> &str {
        self.0.election.as_str()
    }
}

impl PartialEq for Running {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Running {}

impl PartialOrd for Running {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Running {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.election.cmp(&other.0.election)
    }
}

/// Who, on which store.
type Place = (CandidateId, String);

/// The electors of each place. A candidate has one in each election: a second one would steal from the first, also that
/// of other `Elections`.
type Places = BTreeMap<Place, Weak<Mutex<BTreeSet<Running>>>>;

fn places() -> MutexGuard<'static, Places> {
    static PLACES: Mutex<Places> = Mutex::new(BTreeMap::new());
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn running_at(place: &Place) -> Arc<Mutex<BTreeSet<Running>>> {
    let mut places = places();
    if let Some(running) = places.get(place).and_then(Weak::upgrade) {
        return running;
    }
    let running = Arc::default();
    places.insert(place.clone(), Arc::downgrade(&running));
    running
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut places = places();
        // Let go under the lock: of two that leave at once, the second sees that it is the last.
        drop(std::mem::take(&mut self.running));
        if places.get(&self.place).is_some_and(|running| running.strong_count() == 0) {
            places.remove(&self.place);
        }
    }
}

/// Gathers renewals that are due at about the same time into one call.
pub(crate) struct Renewals {
    store: Arc<dyn LeaseStore>,
    clock: Arc<dyn Clock>,
    leaders: AtomicUsize,
    queue: OnceLock<mpsc::UnboundedSender<Due>>,
}

/// The answer to a renewal; in a box, so that a hundred thousand that wait for theirs at once do not take the room of it.
pub(crate) type Answer = Box<Result<Renewal, StoreError>>;

struct Due {
    renewal: Renew,
    answer: oneshot::Sender<Answer>,
}

/// How long renewals wait for company: far below any renew interval, long enough for thousands to meet.
const GATHER: Duration = Duration::from_millis(2);

/// Renewals in one call: a store that hangs in one costs the others nothing.
const CHUNK: usize = 1000;

impl Renewals {
    fn new(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock, leaders: AtomicUsize::new(0), queue: OnceLock::new() }
    }

    pub(crate) fn leader_added(&self) {
        self.leaders.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leader_removed(&self) {
        self.leaders.fetch_sub(1, Ordering::Relaxed);
    }

    /// Hands a renewal over. The call runs in a task of its own and is never dropped: whoever stops waiting for the
    /// answer drops the receiver only.
    pub(crate) fn submit(&self, renewal: Renew, alone: bool) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        let due = Due { renewal, answer };
        // A second try has little time left and must not wait for others; a single leader has no others.
        if alone || self.leaders.load(Ordering::Relaxed) <= 1 {
            call(Arc::clone(&self.store), vec![due]);
        } else if let Err(refused) = self.queue().send(due) {
            // The gathering task is gone with its runtime.
            call(Arc::clone(&self.store), vec![refused.0]);
        }
        receiver
    }

    fn queue(&self) -> &mpsc::UnboundedSender<Due> {
        self.queue.get_or_init(|| {
            let (sender, receiver) = mpsc::unbounded_channel();
            tokio::spawn(gather(Arc::clone(&self.store), Arc::clone(&self.clock), receiver));
            sender
        })
    }
}

async fn gather(store: Arc<dyn LeaseStore>, clock: Arc<dyn Clock>, mut queue: mpsc::UnboundedReceiver<Due>) {
    while let Some(first) = queue.recv().await {
        let mut chunk = vec![first];
        let mut waited = clock.sleep_until(clock.now().plus(GATHER));
        // Whoever has company enough does not wait for the clock: what waits here takes memory.
        while chunk.len() < CHUNK {
            let room = CHUNK - chunk.len();
            tokio::select! {
                biased;
                more = queue.recv_many(&mut chunk, room) => if more == 0 { break },
                () = &mut waited => break,
            }
        }
        call(Arc::clone(&store), chunk);
    }
}

fn call(store: Arc<dyn LeaseStore>, chunk: Vec<Due>) {
    tokio::spawn(async move {
        let (renewals, askers): (Vec<_>, Vec<_>) =
            chunk.into_iter().map(|due| (due.renewal, due.answer)).unzip();
        let mut answers = store.renew(&renewals).await.into_iter();
        drop(renewals);
        for asker in askers {
            let answer = answers.next().unwrap_or_else(|| Err(unanswered(store.as_ref(), "renew")));
            // Nobody waits any more: the term's release, which is repeated until answered, cleans up.
            drop(asker.send(Box::new(answer)));
        }
    });
}

/// A store that left a call without an answer: it panicked, or answered too few of many.
pub(crate) fn unanswered(store: &dyn LeaseStore, operation: &'static str) -> StoreError {
    let message = "the call ended without an answer";
    StoreError::new(ErrorKind::Unavailable, store.guarantees().store, operation, message)
}

/// Runs a store call in a task of its own, so that giving up on it does not drop it.
pub(crate) fn spawn_call<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
    late: impl FnOnce(T) + Send + 'static,
) -> oneshot::Receiver<T> {
    let (sender, receiver) = oneshot::channel();
    tokio::spawn(async move {
        if let Err(unheard) = sender.send(call.await) {
            late(unheard);
        }
    });
    receiver
}
