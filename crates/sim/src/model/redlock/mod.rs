//! Leases on a majority of independent machines with expiring values (Redlock, with fencing tokens).
//!
//! The rules that this fixes:
//! - *Two rounds.* First the highest token is read from a majority, then one above it is proposed to all. A machine keeps
//!   the proposed token with the lease and refuses one that is not above its own. A term counts only with a majority of
//!   the *same* token: two majorities share one machine at least, and that one has seen the higher.
//! - *Lost votes are given back*, also those that arrive late, and the next try comes after a random while.
//! - *A bid is decided once.* Its attempts share their votes: one that lost must not give back what another one is about
//!   to win with, and none wins with votes that another one has given back.
//! - *A machine that has lost its memory gives no vote* until every lease that it may have forgotten has run out.
//! - A renewal counts where a majority has applied that very attempt.

mod machines;

pub use machines::Machines;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure_core::store::record;
use tenure_core::store::{
    Acquisition, Bid, Changes, ErrorKind, ExpiryClock, Guarantees, Lease, LeaseRecord, LeaseStore, Next,
    Operator, RecordState, Release, Released, Renew, Renewal, StoreError, Term, TermEnd, TokenOrder, Wake,
};
use tenure_core::{Attempt, BidId, ElectionName, FencingToken, Random};
use tokio::sync::mpsc;

use machines::{Look, Machine, Vote};

use crate::doors::verb;
use crate::fault;
use crate::network::{Link, Step, unpoisoned};
use crate::server::Server;
use crate::wrong::Wrong;

/// Attempts of its own that a process remembers: a machine that missed a renewal shows an older one.
const REMEMBERED: usize = 256;

/// How long somebody who lost a vote waits at most before the next try. It doubles with every vote lost in a row: a
/// round may take longer than this, and then the same candidates would meet again.
const BACK_OFF: Duration = Duration::from_millis(100);

/// The store's side in one process.
pub struct Redlock {
    shared: Arc<Process>,
}

struct Process {
    link: Arc<Link>,
    machines: Machines,
    random: Random,
    /// Attempts of this process, the newest last.
    own: Mutex<VecDeque<Attempt>>,
    /// The last bids of this process, and whether they have won.
    decided: Mutex<VecDeque<(BidId, bool)>>,
    /// How many votes were lost in a row.
    losses: AtomicU32,
}

fn unavailable(operation: &'static str) -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "redlock", operation, "no majority of the machines has answered")
}

impl Redlock {
    /// Makes the store of one process.
    #[must_use]
    pub fn new(link: Arc<Link>, machines: Machines, random: Random) -> Self {
        let (own, decided, losses) = (Mutex::default(), Mutex::default(), AtomicU32::new(0));
        Self { shared: Arc::new(Process { link, machines, random, own, decided, losses }) }
    }
}

impl Process {
    /// Asks every machine at once; answers come as they arrive, with the number of the machine.
    fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        inside: bool,
        what: impl Fn(&Machine) -> T + Send + Sync + 'static,
        late: impl Fn(&Arc<Self>, usize, &T) + Send + Sync + 'static,
    ) -> mpsc::UnboundedReceiver<(usize, Result<Box<T>, StoreError>)> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let (what, late) = (Arc::new(what), Arc::new(late));
        let step = verb();
        for machine in 0..self.machines.count() {
            let (process, sender) = (Arc::clone(self), sender.clone());
            let (what, late) = (Arc::clone(&what), Arc::clone(&late));
            // A task of its own: a message that was sent is never taken back, and its answer is always read.
            tokio::spawn(async move {
                let serve = move |server: Server| {
                    let answer = match &server {
                        Server::Machines(machines) => {
                            Some(Box::new(what(&machines.shared.machines[machine])))
                        }
                        _ => None,
                    };
                    async move { answer }
                };
                let step = Step { verb: step, inside, machine, once: false };
                let answer = process.link.call_at(step, serve).await;
                let answer = answer.and_then(|answer| answer.ok_or_else(|| unavailable("call")));
                if let Ok(answer) = &answer {
                    late(&process, machine, answer);
                }
                // Nobody waits any more once it is decided.
                drop(sender.send((machine, answer)));
            });
        }
        receiver
    }

    fn remember(&self, bid: BidId, attempt: Attempt) {
        let mut order = unpoisoned(&self.machines.shared.order);
        let next = order.len();
        order.entry(attempt).or_insert((bid, next));
        let mut own = unpoisoned(&self.own);
        own.push_back(attempt);
        if own.len() > REMEMBERED {
            own.pop_front();
        }
    }

    /// Looks at a majority.
    async fn look(self: &Arc<Self>, operation: &'static str) -> Result<Vec<Look>, StoreError> {
        let mut answers = self.ask(false, Machine::look, |_, _, _| {});
        let mut looks = Vec::new();
        while let Some((_, answer)) = answers.recv().await {
            looks.extend(answer.map(|look| *look));
            if looks.len() >= self.machines.majority() {
                return Ok(looks);
            }
        }
        Err(unavailable(operation))
    }

    async fn acquire(
        self: &Arc<Self>,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        self.remember(bid.id, bid.attempt);
        let looks = self.look("acquire").await?;
        let records: Vec<&LeaseRecord> = looks.iter().filter_map(|look| look.record.as_ref()).collect();
        let spent = |record: &&&LeaseRecord| {
            let ended = |holder: &tenure_core::store::Holder| {
                holder.bid == bid.id && record.state != RecordState::Held
            };
            record.last_terms.iter().any(|term| term.bid == bid.id)
                || record.holder.as_ref().is_some_and(ended)
        };
        if let Some(record) = records.iter().find(spent) {
            return Ok(Acquisition::Refused(Box::new((*record).clone())));
        }
        let against = |record: &&&LeaseRecord| match &record.state {
            RecordState::Held => record.lease_of(bid.id).is_none(),
            RecordState::Reserved { successor } => successor.as_ref() != Some(&bid.candidate),
            RecordState::Paused | RecordState::Recovering => true,
            RecordState::Free => false,
        };
        let highest = records.iter().max_by_key(|record| record.token);
        if records.iter().filter(against).count() > self.machines.count() - self.machines.majority()
            && let Some(refusing) = records.iter().filter(against).max_by_key(|record| record.token)
        {
            self.losses.store(0, Ordering::Relaxed);
            return Ok(Acquisition::Refused(Box::new((*refusing).clone())));
        }
        if self.has_won(bid.id) == Some(false) {
            // Repeated because another attempt of it is open: that one will not win either.
            return Ok(self.lost(election, bid, bid.floor, true));
        }
        // A bid keeps the token under which it has votes already.
        let given =
            records.iter().filter_map(|record| record.lease_of(bid.id)).map(|lease| lease.token).max();
        let last = highest.map_or(FencingToken::ZERO, |record| record.token).max(bid.floor);
        let micros = looks.iter().map(|look| look.micros).max().unwrap_or_default();
        let token = given.unwrap_or(FencingToken(last.0.max(micros).saturating_add(1)));
        self.propose(election, bid, token).await
    }

    async fn propose(
        self: &Arc<Self>,
        election: &ElectionName,
        bid: &Bid,
        token: FencingToken,
    ) -> Result<Acquisition, StoreError> {
        let each = self.machines.shared.wrong == Some(Wrong::TokenOfEachMachine);
        let proposed = (!each).then_some(token);
        let call = (election.clone(), bid.clone());
        let id = bid.id;
        let mut answers = self.ask(
            true,
            move |machine| machine.vote(&call.0, &call.1, proposed),
            move |process, machine, vote| {
                if let Vote::For(lease) = vote
                    && process.has_won(id) == Some(false)
                {
                    process.give_back(machine, lease.clone());
                }
            },
        );
        let (mut votes, mut against) = (BTreeMap::new(), 0);
        while let Some((machine, answer)) = answers.recv().await {
            match answer.map(|vote| *vote) {
                Ok(Vote::For(lease)) => drop(votes.insert(machine, lease)),
                Ok(Vote::Against) => against += 1,
                Err(_) => {}
            }
            let outvoted = against > self.machines.count() - self.machines.majority();
            if votes.len() < self.machines.majority() && !outvoted {
                continue;
            }
            match (self.decide(id, !outvoted), won(&votes, bid)) {
                // Another attempt has won; what this one did not get says nothing about that.
                (true, _) if outvoted => return Err(unavailable("acquire")),
                (true, Some(lease)) => {
                    self.note_majority(votes.keys().copied().collect());
                    return Ok(Acquisition::Acquired(lease));
                }
                _ => {}
            }
            if !votes.is_empty() {
                self.link.fault(fault::VOTES_SPLIT);
            }
            // What is in the queue was answered before this was decided; what comes later is given back on arrival.
            while let Ok((machine, answer)) = answers.try_recv() {
                if let Ok(Vote::For(lease)) = answer.map(|vote| *vote) {
                    votes.insert(machine, lease);
                }
            }
            for (machine, lease) in votes {
                self.give_back(machine, lease);
            }
            return Ok(self.lost(election, bid, token, false));
        }
        Err(unavailable("acquire"))
    }

    /// Says that nobody leads and when to try again, or, for a bid that is `spent`, that another one is needed.
    fn lost(&self, election: &ElectionName, bid: &Bid, token: FencingToken, spent: bool) -> Acquisition {
        let back_off = BACK_OFF * 2_u32.pow(self.losses.load(Ordering::Relaxed).min(4));
        let term = Term {
            token,
            bid: bid.id,
            candidate: bid.candidate.clone(),
            identity: None,
            acquired_at_ms: 0,
            ended_at_ms: Some(0),
            end: Some(TermEnd::Released),
            cool_down_ms: None,
        };
        Acquisition::Refused(Box::new(LeaseRecord {
            election: election.clone(),
            state: RecordState::Free,
            token: FencingToken(token.0.saturating_sub(1)),
            holder: None,
            time_left: None,
            opens_in: Some(self.random.up_to(back_off)),
            renew_total: 0,
            last_terms: if spent { vec![term] } else { Vec::new() },
            pause: None,
            request: None,
            answer: None,
            last_success: None,
        }))
    }

    fn has_won(&self, bid: BidId) -> Option<bool> {
        unpoisoned(&self.decided).iter().find(|(decided, _)| *decided == bid).map(|(_, won)| *won)
    }

    /// Decides a bid, if it is not decided already; tells whether it has won.
    fn decide(&self, bid: BidId, won: bool) -> bool {
        if let Some(won) = self.has_won(bid) {
            return won;
        }
        let mut decided = unpoisoned(&self.decided);
        decided.push_back((bid, won));
        let losses = self.losses.load(Ordering::Relaxed);
        self.losses.store(if won { 0 } else { losses.saturating_add(1) }, Ordering::Relaxed);
        if decided.len() > REMEMBERED {
            decided.pop_front();
        }
        won
    }

    /// Counts terms whose majority shares one machine only with the one before.
    fn note_majority(&self, now: Vec<usize>) {
        let mut last = unpoisoned(&self.machines.shared.last_majority);
        if last.iter().filter(|machine| now.contains(machine)).count() == 1 && now.len() > 1 {
            self.link.fault(fault::OTHER_MAJORITY);
        }
        *last = now;
    }

    /// Gives back the vote of one machine, in the background; what does not arrive ends by itself.
    fn give_back(self: &Arc<Self>, machine: usize, lease: Lease) {
        if self.machines.shared.wrong == Some(Wrong::KeepsLostVotes) {
            return;
        }
        let process = Arc::clone(self);
        let release = Release {
            attempt: Attempt::new(&self.random),
            lease,
            open: Vec::new(),
            next: Next::Anybody,
            succeeded: false,
            answer: None,
        };
        tokio::spawn(async move {
            let serve = move |server: Server| {
                if let Server::Machines(machines) = &server {
                    machines.shared.machines[machine]
                        .change(|present, sight| record::release(present, &release, sight));
                }
                async {}
            };
            let step = Step { verb: crate::trace::Verb::Release, inside: true, machine, once: false };
            drop(process.link.call_at(step, serve).await);
        });
    }

    async fn renew(self: &Arc<Self>, renewal: &Renew) -> Result<Renewal, StoreError> {
        self.remember(renewal.lease.bid, renewal.attempt);
        let call = Renew {
            open: unpoisoned(&self.own).iter().copied().filter(|own| *own != renewal.attempt).collect(),
            ..renewal.clone()
        };
        let each = self.machines.shared.wrong == Some(Wrong::TokenOfEachMachine);
        let what = move |machine: &Machine| {
            machine.change(|present, sight| {
                let mut call = call.clone();
                if each && let Some(present) = present {
                    call.lease.token = present.token();
                }
                record::renew(present, &call, sight)
            })
        };
        let mut answers = self.ask(true, what, |_, _, _| {});
        let (mut renewed, mut lost) = (Vec::new(), Vec::new());
        while let Some((_, answer)) = answers.recv().await {
            match answer.map(|renewal| *renewal) {
                Ok(Renewal::Renewed(lease, _)) if lease.attempt == renewal.attempt => renewed.push(lease),
                // A later attempt of ours has overtaken this one there: its own answer counts.
                Ok(Renewal::Renewed(..)) | Err(_) => {}
                Ok(Renewal::Lost(record)) => lost.push(record),
            }
            if renewed.len() >= self.machines.majority() {
                let renewals = renewed.iter().map(|lease| lease.renew_count).max().unwrap_or_default();
                return Ok(Renewal::Renewed(
                    Lease {
                        attempt: renewal.attempt,
                        renew_count: renewals,
                        renew_total: renewals,
                        ..renewal.lease.clone()
                    },
                    None,
                ));
            }
            if lost.len() > self.machines.count() - self.machines.majority() {
                let newest = lost.into_iter().flatten().max_by_key(|record| record.token);
                // Of a term that has no majority any more nobody may read that it is held.
                let newest = newest.filter(|record| record.lease_of(renewal.lease.bid).is_none());
                return Ok(Renewal::Lost(newest));
            }
        }
        Err(unavailable("renew"))
    }

    async fn release(self: &Arc<Self>, release: &Release) -> Result<Released, StoreError> {
        let call = Release { open: unpoisoned(&self.own).iter().copied().collect(), ..release.clone() };
        let what =
            move |machine: &Machine| machine.change(|present, sight| record::release(present, &call, sight));
        let mut answers = self.ask(true, what, |_, _, _| {});
        let (mut released, mut not_held) = (0, 0);
        while let Some((_, answer)) = answers.recv().await {
            match answer.map(|released| *released) {
                Ok(Released::Released) => released += 1,
                Ok(Released::NotHeld) => not_held += 1,
                Err(_) => {}
            }
            if released >= self.machines.majority() {
                return Ok(Released::Released);
            }
            if not_held > self.machines.count() - self.machines.majority() {
                return Ok(Released::NotHeld);
            }
        }
        Err(unavailable("release"))
    }
}

/// Makes the lease of a term from its votes: it counts from the earliest attempt that any machine has applied.
fn won(votes: &BTreeMap<usize, Lease>, bid: &Bid) -> Option<Lease> {
    let place = |attempt: &Attempt| {
        let open = bid.open.iter().position(|open| open == attempt);
        // One that is not known any more is older than all that are.
        open.map_or_else(|| if *attempt == bid.attempt { bid.open.len() + 1 } else { 0 }, |place| place + 1)
    };
    let earliest = votes.values().min_by_key(|lease| place(&lease.attempt))?;
    let token = votes.values().map(|lease| lease.token).max()?;
    Some(Lease { token, ..earliest.clone() })
}

#[async_trait]
impl LeaseStore for Redlock {
    async fn acquire(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        self.shared.acquire(election, bid).await
    }

    async fn renew(&self, renewals: &[Renew]) -> Vec<Result<Renewal, StoreError>> {
        let mut answers = Vec::new();
        for renewal in renewals {
            answers.push(self.shared.renew(renewal).await);
        }
        answers
    }

    async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.shared.release(release).await
    }

    async fn read(&self, _election: &ElectionName) -> Result<Option<LeaseRecord>, StoreError> {
        let looks = self.shared.look("read").await?;
        let records: Vec<LeaseRecord> = looks.into_iter().filter_map(|look| look.record).collect();
        // Whoever may have a majority is shown: those that were not asked may hold it too.
        Ok(records.into_iter().max_by_key(|record| record.token))
    }

    fn watch(&self, _elections: &[ElectionName]) -> Option<Changes> {
        None
    }

    fn guarantees(&self) -> Guarantees {
        Guarantees {
            store: "redlock",
            scope: "the machines of one simulation".into(),
            linearizable: true,
            survives_restart: true,
            survives_failover: None,
            clock: ExpiryClock::Store("a step ahead on a majority of the machines ends leases early"),
            tokens: TokenOrder::Strict,
            min_ttl: Duration::from_millis(1),
            ttl_grain: Duration::from_millis(1),
            wake: Wake::Look(Duration::from_secs(1)),
            assumptions: vec!["exists only in the simulation"],
        }
    }

    fn operator(&self) -> Option<&dyn Operator> {
        None
    }
}
