//! Bidding: look at a majority, then propose a token above all that it knows; one vote of each node.
//!
//! - A term counts only with a majority of the *same* token. Two majorities share one node at least, and that one has seen
//!   the higher token: so tokens rise from term to term, whatever nodes are away.
//! - Votes that are not enough are taken back, also those that arrive late, and the bidder tries again after a random while
//!   that grows: else the same bidders would meet again.
//! - The attempts of one bid come one after the other: none gives back what another one is about to win with, and a token
//!   whose votes were taken back is never won with. Once it has won nothing is proposed for it any more, however little of
//!   its term is seen: somebody leads by it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::clock::{ClockExt, Moment};
use tenure_core::store::{
    Acquisition, Bid, ErrorKind, Holder, Lease, LeaseRecord, RecordState, StoreError, Term, TermEnd,
};
use tenure_core::{BidId, ElectionName, FencingToken};

use super::merge::{Shown, newest, renew_count};
use super::node::{Age, Closed, Look, Proposal, Vote, before, field};
use super::nodes::{Asked, Patience};
use super::{RedlockStore, STORE};
use crate::store::TOKEN_LIMIT;
use crate::watch::is_foreign;

/// The shortest and the longest window out of which somebody who lost a vote picks a moment for the next try. It begins with
/// the time that the try took, since those who lost with us took about as long, and doubles with each loss.
const SHORTEST_BACK_OFF: Duration = Duration::from_millis(5);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(1);

/// Ended terms that are kept.
const LAST_TERMS: usize = 8;

/// Below this many bids nobody looks for what may be forgotten.
const FEW: usize = 64;

/// The last bids of this process.
#[derive(Default)]
pub(super) struct Bids(Mutex<Last>);

#[derive(Default)]
struct Last {
    bids: BTreeMap<BidId, Known>,
    /// The size at which it is swept next: twice what the last sweep left, so that sweeping costs each bid little.
    sweep_at: usize,
}

/// What is known of a bid of this process.
struct Known {
    /// One attempt at a time.
    turn: Arc<tokio::sync::Mutex<Standing>>,
    votes: Closed,
    /// By then whatever votes are on their way have arrived, and have ended; one that never asked for any is of no interest.
    until: Moment,
}

/// What became of a bid so far.
#[derive(Debug, Default)]
struct Standing {
    /// It wins with no token up to this one: votes for those were taken back, or others may be given in their place.
    lost: FencingToken,
    /// Nodes may have voted for it under this token, which came to nothing that is known.
    open: Option<FencingToken>,
    /// It has won: somebody leads by it, or did.
    won: bool,
}

impl Standing {
    fn win(&mut self) {
        (self.open, self.won) = (None, true);
    }
}

impl Bids {
    /// Returns what the attempts of a bid wait for, one after the other.
    fn turn(&self, bid: BidId, now: Moment) -> Arc<tokio::sync::Mutex<Standing>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.bids.len() >= last.sweep_at {
            // One that somebody waits for is kept, however long that takes.
            last.bids.retain(|_, known| !known.until.has_passed(now) || Arc::strong_count(&known.turn) > 1);
            last.sweep_at = last.bids.len().saturating_mul(2).max(FEW);
        }
        let new = || Known { turn: Arc::default(), votes: Closed::default(), until: now };
        Arc::clone(&last.bids.entry(bid).or_insert_with(new).turn)
    }

    /// Votes for this bid that were not sent yet are not sent any more.
    pub(super) fn close(&self, bid: BidId) {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = last.bids.get(&bid) {
            known.votes.close();
        }
    }

    /// Opens the bid for votes, and for those alone; it is remembered until `until` at least.
    fn open(&self, bid: BidId, until: Moment) -> Closed {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let votes = Closed::default();
        if let Some(known) = last.bids.get_mut(&bid) {
            known.until = until;
            std::mem::replace(&mut known.votes, votes.clone()).close();
        }
        votes
    }
}

/// What a look says about a bid.
enum Judgement {
    /// It has a term, or can have none.
    Answer(Acquisition),
    /// Others have votes, but nobody has enough.
    Contested,
    Propose(Box<Proposal>),
}

/// What a proposal came to.
enum Outcome {
    Won,
    /// Too many nodes were against it; they show why.
    Lost(Vec<Shown>),
    /// So many nodes began lately that nobody can win now; they show what they know.
    Recovering(Vec<Shown>),
    Unknown(StoreError),
}

impl RedlockStore {
    pub(super) async fn bid(&self, election: &ElectionName, bid: &Bid) -> Result<Acquisition, StoreError> {
        let clock = &self.shared.nodes.clock;
        let until = clock.now().plus(self.shared.call_timeout);
        let turn = self.shared.bids.turn(bid.id, clock.now());
        let mut standing = tokio::select! {
            biased;
            standing = turn.lock() => standing,
            () = clock.sleep_until(until) => {
                let message = "an earlier attempt of the same bid is still under way";
                return Err(StoreError::new(ErrorKind::Timeout, STORE, "acquire", message));
            }
        };
        let mut losses = 0;
        loop {
            let begun = clock.now();
            let looks = self.look(election, "acquire", !bid.open.is_empty(), until).await?;
            let mut shown: Vec<Shown> = looks.iter().map(|look| look.record.clone()).collect();
            match self.judge(election, bid, &looks, &shown, &standing)? {
                Judgement::Answer(answer) => return Ok(self.answered(election, bid, &mut standing, answer)),
                Judgement::Contested => {}
                Judgement::Propose(proposal) => {
                    let refusal;
                    (shown, refusal) = match self.propose(election, &proposal, &mut standing, until).await {
                        Outcome::Won => return Ok(self.won(election, *proposal, &mut standing)),
                        Outcome::Unknown(error) => return Err(error),
                        Outcome::Lost(found) => {
                            let refusal = self.refusal(bid, &found);
                            (found, refusal)
                        }
                        Outcome::Recovering(found) => {
                            let record = self.shared.nodes.quorum().together(&found);
                            (found, record)
                        }
                    };
                    if let Some(record) = refusal {
                        let refused = Acquisition::Refused(Box::new(record));
                        return Ok(self.answered(election, bid, &mut standing, refused));
                    }
                }
            }
            let wait = self.back_off(clock.now().time_since(begun), losses);
            losses += 1;
            if until.has_passed(clock.now().plus(wait)) {
                return self.contested(election, bid, &mut standing, &shown);
            }
            clock.sleep(wait).await;
        }
    }

    /// Looks at a majority, and at more if that does not settle who leads.
    pub(super) async fn look(
        &self,
        election: &ElectionName,
        operation: &'static str,
        again: bool,
        until: Moment,
    ) -> Result<Vec<Look>, StoreError> {
        let nodes = &self.shared.nodes;
        let quorum = nodes.quorum();
        let name = election.clone();
        let sent = nodes.clock.now();
        let limit = until.time_until(sent);
        let mut asked: Asked<Look> = nodes.ask(|node| {
            let name = name.clone();
            async move {
                let look = node.shared.look(operation, &name, again, limit).await?;
                if let ("acquire", Some(record)) = (operation, &look.record) {
                    node.shared.watchers.answered(sent, look.now, record);
                }
                Ok(look)
            }
        });
        let settled = |answers: &[Option<Result<Look, StoreError>>]| {
            let good = answers.iter().flatten().flatten();
            quorum.is_settled(&good.map(|look| look.record.clone()).collect::<Vec<_>>())
        };
        asked.wait(&nodes.clock, Patience::Short, settled).await;
        let looks: Vec<_> = asked.good().map(|(_, look)| look.clone()).collect();
        if looks.len() < quorum.majority() {
            return Err(asked.error(operation));
        }
        Ok(looks)
    }

    fn judge(
        &self,
        election: &ElectionName,
        bid: &Bid,
        looks: &[Look],
        shown: &[Shown],
        standing: &Standing,
    ) -> Result<Judgement, StoreError> {
        let lost = standing.lost;
        let quorum = self.shared.nodes.quorum();
        let refused = |record: LeaseRecord| Ok(Judgement::Answer(Acquisition::Refused(Box::new(record))));
        let counted = quorum.counted(shown);
        if let Some(lease) =
            counted.and_then(|record| record.lease_of(bid.id)).filter(|lease| lease.token > lost)
        {
            return Ok(Judgement::Answer(Acquisition::Acquired(lease)));
        }
        if let Some(record) = self.refusal(bid, shown) {
            return refused(record);
        }
        // Nobody leads for certain: what stands beside a lease is a mere vote's idea of the past.
        let spent = |record: &&LeaseRecord| {
            let ended = |holder: &Holder| holder.bid == bid.id && record.token > lost;
            record.state != RecordState::Held
                && (record.last_terms.iter().any(|term| term.bid == bid.id)
                    || record.holder.as_ref().is_some_and(ended))
        };
        if let Some(record) = shown.iter().flatten().find(spent) {
            return refused(record.clone());
        }
        if standing.won {
            let message = "too few nodes show the term that this bid has won";
            return Err(StoreError::new(ErrorKind::Timeout, STORE, "acquire", message));
        }
        let taken = |record: &&LeaseRecord| {
            let others = |holder: &Holder| holder.bid != bid.id && Some(holder.bid) != bid.supersedes;
            is_closed(record, bid) || record.leader().is_some_and(others)
        };
        if shown.iter().flatten().filter(taken).count() > quorum.minority() {
            return Ok(Judgement::Contested);
        }
        self.proposal(election, bid, looks, lost).map(|proposal| Judgement::Propose(Box::new(proposal)))
    }

    /// Returns why the bid cannot win, if somebody else leads for certain, or too many nodes are closed to it.
    fn refusal(&self, bid: &Bid, shown: &[Shown]) -> Option<LeaseRecord> {
        let quorum = self.shared.nodes.quorum();
        let leader = quorum.counted(shown).and_then(LeaseRecord::leader).map(|holder| holder.bid);
        let taken = leader.is_some_and(|leader| leader != bid.id && Some(leader) != bid.supersedes);
        let closed = shown.iter().flatten().filter(|record| is_closed(record, bid)).count();
        if taken || closed > quorum.minority() { quorum.together(shown) } else { None }
    }

    /// Makes a proposal of what a majority shows.
    fn proposal(
        &self,
        election: &ElectionName,
        bid: &Bid,
        looks: &[Look],
        lost: FencingToken,
    ) -> Result<Proposal, StoreError> {
        let quorum = self.shared.nodes.quorum();
        let shown: Vec<Shown> = looks.iter().map(|look| look.record.clone()).collect();
        let counted = quorum.counted(&shown).and_then(LeaseRecord::leader).map(|holder| holder.bid);
        let all = looks.len() == quorum.nodes;
        // What each node knew before it gave a vote that is no term: ours, and others' if certainly not enough nodes gave
        // them. One that was renewed was a term once.
        let known: Vec<LeaseRecord> = looks
            .iter()
            .filter_map(|look| {
                let record = look.record.as_ref()?;
                let leader = record.leader().filter(|_| !is_foreign(record)).map(|holder| holder.bid);
                let ours = record.holder.as_ref().is_some_and(|holder| holder.bid == bid.id);
                let vote = leader.is_some() && leader != counted && all && renew_count(record) == 0;
                if ours || vote { before(look.view.as_ref()?, election) } else { Some(record.clone()) }
            })
            .collect();
        let last = last(&known);
        let seen = shown.iter().flatten().map(|record| record.token).max().unwrap_or_default();
        let now = looks.iter().map(|look| look.now).max().unwrap_or_default();
        let token = seen.0.max(lost.0).max(bid.floor.0).max(now).saturating_add(1);
        if token >= TOKEN_LIMIT {
            let message = format!("token {token} is beyond the end: tokens end at {TOKEN_LIMIT}");
            return Err(StoreError::new(ErrorKind::Invalid, STORE, "acquire", message));
        }
        let at_ms = (now / 1000).max(1);
        let mut terms = last.map(|record| record.last_terms.clone()).unwrap_or_default();
        if let Some(record) = last.filter(|record| !is_foreign(record))
            && let Some(holder) = &record.holder
        {
            let superseded = bid.supersedes == Some(holder.bid);
            terms.push(Term {
                token: record.token,
                bid: holder.bid,
                candidate: holder.candidate.clone(),
                identity: holder.identity.clone(),
                acquired_at_ms: unix_ms(holder.acquired_at),
                ended_at_ms: Some(at_ms),
                end: Some(if superseded { TermEnd::Superseded } else { TermEnd::Expired }),
                cool_down_ms: None,
            });
            terms.drain(..terms.len().saturating_sub(LAST_TERMS));
        }
        let foreign = looks.iter().any(|look| field(look, "foreign").is_some());
        // A majority gave each term its votes. If all of those that are seen here may have forgotten it, nobody knows of it.
        let whole = looks.iter().filter(|look| look.is_whole()).count() >= quorum.majority();
        let floor_is_higher = bid.floor > last.map_or(FencingToken::ZERO, |record| record.token);
        Ok(Proposal {
            bid: bid.clone(),
            token: FencingToken(token),
            last: last.map_or(FencingToken::ZERO, |record| record.token),
            // A candidate that has seen a higher token than the nodes' knows that they lost terms.
            gap: foreign || floor_is_higher || (last.is_some() && !whole),
            terms,
            renew_total: last.map_or(0, |record| record.renew_total),
            last_success: last.and_then(|record| record.last_success),
            answer: last
                .and_then(|record| record.answer.as_ref())
                .map(|answered| (answered.id.to_string(), crate::record::json(answered))),
            at_ms,
        })
    }

    async fn propose(
        &self,
        election: &ElectionName,
        proposal: &Proposal,
        standing: &mut Standing,
        until: Moment,
    ) -> Outcome {
        // Votes for a lower token may be replaced by votes for this one, however late those come.
        standing.lost = FencingToken(proposal.token.0 - 1);
        standing.open = Some(proposal.token);
        let nodes = &self.shared.nodes;
        let quorum = nodes.quorum();
        let lasts = proposal.bid.ttl.saturating_add(self.shared.call_timeout).saturating_mul(2);
        let closed = self.shared.bids.open(proposal.bid.id, nodes.clock.now().plus(lasts));
        let limit = until.time_until(nodes.clock.now());
        let call = Arc::new((election.clone(), proposal.clone(), closed.clone()));
        let mut asked: Asked<Vote> = nodes.ask(|node| {
            let call = Arc::clone(&call);
            async move { node.shared.vote(&call.0, &call.1, &call.2, limit).await }
        });
        let votes = |answers: &[Option<Result<Vote, StoreError>>]| {
            let good = answers.iter().flatten().flatten();
            let (for_it, against): (Vec<_>, Vec<_>) = good.partition(|vote| matches!(vote, Vote::For));
            (for_it.len(), against.len())
        };
        let decided = |answers: &[Option<Result<Vote, StoreError>>]| {
            let (for_it, against) = votes(answers);
            for_it >= quorum.majority() || against > quorum.minority()
        };
        asked.wait(&nodes.clock, Patience::Short, decided).await;
        let (for_it, against) = votes(&asked.answers);
        if for_it >= quorum.majority() {
            // The more votes the better, until the term ends.
            return Outcome::Won;
        }
        closed.close();
        if against == 0 {
            let error = asked.error("acquire");
            // It may have won without our hearing of it: the next attempt looks. Unless it certainly has not.
            if error.kind().is_definite() {
                self.give_back(election, &proposal.bid, standing, &asked.answers);
            }
            return Outcome::Unknown(error);
        }
        self.give_back(election, &proposal.bid, standing, &asked.answers);
        let shown = asked.good().map(|(_, vote)| match vote {
            Vote::Against(record, _) => Some((**record).clone()),
            Vote::For => None,
        });
        let shown = shown.collect();
        let young = asked.good().filter(|(_, vote)| matches!(vote, Vote::Against(_, Age::Young))).count();
        if young > quorum.minority() { Outcome::Recovering(shown) } else { Outcome::Lost(shown) }
    }

    /// Gives votes back in the background, also those that have not arrived yet; what cannot be given back ends by itself.
    /// Nodes that have said that they give none are left alone.
    fn give_back(
        &self,
        election: &ElectionName,
        bid: &Bid,
        standing: &mut Standing,
        answers: &[Option<Result<Vote, StoreError>>],
    ) {
        let Some(token) = standing.open.take() else { return };
        standing.lost = token;
        for (number, node) in self.shared.nodes.iter().enumerate() {
            let answer = answers.get(number).and_then(Option::as_ref);
            let none = match answer {
                Some(Ok(vote)) => matches!(vote, Vote::Against(..)),
                Some(Err(error)) => error.kind().is_definite(),
                None => false,
            };
            if none {
                continue;
            }
            // One that owes an answer may be a black hole.
            let again = !matches!(answer, Some(Ok(_)));
            let (node, election, bid) = (Arc::clone(node), election.clone(), bid.clone());
            tokio::spawn(async move {
                if let Err(error) = node.withdraw(&election, &bid, token, again).await
                    && error.is_retryable()
                    && let Err(error) = node.withdraw(&election, &bid, token, true).await
                {
                    tracing::debug!(%election, %token, %error, "a vote was not given back: it ends by itself");
                }
            });
        }
    }

    fn back_off(&self, took: Duration, losses: u32) -> Duration {
        let window = took.max(SHORTEST_BACK_OFF).saturating_mul(1 << losses.min(10)).min(LONGEST_BACK_OFF);
        self.shared.random.up_to(window)
    }

    fn won(&self, election: &ElectionName, proposal: Proposal, standing: &mut Standing) -> Acquisition {
        standing.win();
        let Proposal { bid, token, terms, gap, renew_total, .. } = proposal;
        for node in self.shared.nodes.iter() {
            node.watchers.trust(token.0);
            node.watchers.leads(election, &bid.candidate, bid.id);
        }
        Acquisition::Acquired(Lease {
            election: election.clone(),
            bid: bid.id,
            attempt: bid.attempt,
            candidate: bid.candidate,
            token,
            ttl: Duration::from_millis(crate::store::whole_ms(bid.ttl)),
            renew_count: 0,
            renew_total,
            previous: terms.last().filter(|_| !gap).cloned().map(Arc::new),
        })
    }

    fn answered(
        &self,
        election: &ElectionName,
        bid: &Bid,
        standing: &mut Standing,
        answer: Acquisition,
    ) -> Acquisition {
        match answer {
            Acquisition::Acquired(_) => standing.win(),
            // Whoever is refused has nothing: an earlier attempt may have left votes.
            Acquisition::Refused(_) => self.give_back(election, bid, standing, &[]),
        }
        for node in self.shared.nodes.iter() {
            match answer {
                Acquisition::Acquired(_) => node.watchers.leads(election, &bid.candidate, bid.id),
                Acquisition::Refused(_) => node.watchers.stands_by(election, &bid.candidate),
            }
        }
        answer
    }

    /// Says what to a bidder who has lost again and again: who holds the election as far as anybody can see, when it opens if
    /// some node keeps it closed, or else that others bid at the same time.
    fn contested(
        &self,
        election: &ElectionName,
        bid: &Bid,
        standing: &mut Standing,
        shown: &[Shown],
    ) -> Result<Acquisition, StoreError> {
        let quorum = self.shared.nodes.quorum();
        if shown.len() >= quorum.majority()
            && let Some(record) = quorum.together(shown)
            && record.state != RecordState::Free
            && record.leader().is_none_or(|holder| holder.bid != bid.id)
        {
            let refused = Acquisition::Refused(Box::new(record));
            return Ok(self.answered(election, bid, standing, refused));
        }
        let message =
            "others bid at the same time, and nobody got a majority: try again after a random while";
        Err(StoreError::new(ErrorKind::Conflict, STORE, "acquire", message))
    }
}

/// Tells whether a node gives no vote to this bid whoever holds what.
fn is_closed(record: &LeaseRecord, bid: &Bid) -> bool {
    match &record.state {
        RecordState::Reserved { successor } => successor.as_ref() != Some(&bid.candidate),
        RecordState::Paused | RecordState::Recovering => true,
        RecordState::Held | RecordState::Free => false,
    }
}

/// Returns the last term that is known, as whoever knows most of it has it.
fn last(known: &[LeaseRecord]) -> Option<&LeaseRecord> {
    let highest = known.iter().map(|record| record.token).max()?;
    newest(known.iter().filter(|record| record.token == highest))
}

fn unix_ms(at: std::time::SystemTime) -> u64 {
    let since = at.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Clock, Random, SystemClock};

    use super::*;

    #[test]
    fn a_bid_is_remembered_until_its_votes_have_ended_however_many_others_there_are() {
        let (bids, random, now) = (Bids::default(), Random::from_seed(1), SystemClock.now());
        let until = now.plus(Duration::from_secs(9));
        let bid = BidId::new(&random);
        bids.turn(bid, now).try_lock().unwrap().lost = FencingToken(7);
        bids.open(bid, until);
        for _ in 0..10_000 {
            let other = BidId::new(&random);
            bids.turn(other, now);
            bids.open(other, until);
        }
        assert_eq!(bids.turn(bid, now).try_lock().unwrap().lost, FencingToken(7));

        let later = until.plus(Duration::from_secs(1));
        let waited_for = BidId::new(&random);
        let waits = bids.turn(waited_for, now);
        for _ in 0..50_000 {
            bids.turn(BidId::new(&random), later);
        }
        assert_eq!(bids.turn(bid, later).try_lock().unwrap().lost, FencingToken::ZERO, "long over");
        assert!(Arc::ptr_eq(&waits, &bids.turn(waited_for, later)));
    }
}
