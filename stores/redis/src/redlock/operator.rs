//! What operators can do with elections on several nodes: written to all, it counts on a majority.

use std::collections::BTreeSet;

use async_trait::async_trait;
use tenure_core::store::{ControlRequest, ErrorKind, Operator, Pause, Requested, StoreError};
use tenure_core::{Attempt, CandidateId, ElectionName, FencingToken};

use super::nodes::{Asked, Patience};
use super::{RedlockStore, STORE};

impl RedlockStore {
    /// Waits for a majority to do something.
    async fn most<T: Send + 'static>(
        &self,
        operation: &'static str,
        mut asked: Asked<T>,
        patience: Patience,
    ) -> Result<Vec<T>, StoreError> {
        let nodes = &self.shared.nodes;
        let majority = nodes.quorum().majority();
        let all = |answers: &[Option<Result<T, StoreError>>]| {
            patience == Patience::Long && answers.iter().flatten().flatten().count() >= majority
        };
        asked.wait(&nodes.clock, patience, all).await;
        if asked.good().count() < majority {
            return Err(asked.error(operation));
        }
        Ok(asked.answers.into_iter().flatten().flatten().collect())
    }
}

#[async_trait]
impl Operator for RedlockStore {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        let prefix = prefix.to_owned();
        let asked = self.shared.nodes.ask(|node| {
            let prefix = prefix.clone();
            async move { node.list(&prefix).await }
        });
        let lists = self.most("list", asked, Patience::Long).await?;
        Ok(lists.into_iter().flatten().collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        let nodes = &self.shared.nodes;
        let mut asked: Asked<Requested> = nodes.ask(|node| {
            let (election, request) = (election.clone(), request.clone());
            async move { node.request(&election, attempt, request).await }
        });
        let majority = nodes.quorum().majority();
        let agreed = |answers: &[Option<Result<Requested, StoreError>>]| {
            let said: Vec<_> = answers.iter().flatten().flatten().collect();
            let same = |one: &Requested| said.iter().filter(|other| is_alike(one, other)).count();
            let agreed = said.iter().find(|one| same(one) >= majority).copied()?;
            let of = said.iter().filter(|other| is_alike(agreed, other));
            // Of terms the highest: the others were not enough.
            of.max_by_key(|requested| token(requested)).copied().cloned()
        };
        asked.wait(&nodes.clock, Patience::Long, |answers| agreed(answers).is_some()).await;
        if let Some(requested) = agreed(&asked.answers) {
            return Ok(requested);
        }
        if asked.good().count() < majority {
            return Err(asked.error("request"));
        }
        let message = "the nodes do not agree on who leads: try again";
        Err(StoreError::new(ErrorKind::Conflict, STORE, "request", message))
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        let asked = self.shared.nodes.ask(|node| {
            let (election, pause) = (election.clone(), pause.clone());
            async move { node.pause(&election, attempt, pause).await }
        });
        self.most("pause", asked, Patience::Long).await.map(drop)
    }

    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError> {
        let asked = self.shared.nodes.ask(|node| {
            let election = election.clone();
            async move { node.resume(&election, attempt).await }
        });
        self.most("resume", asked, Patience::Long).await.map(drop)
    }

    async fn candidates(&self, election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        let asked = self.shared.nodes.ask(|node| {
            let election = election.clone();
            async move { node.candidates(&election).await }
        });
        // Whoever stands by hears it on every node; one that answers for all is enough, but each may have missed one.
        let lists = self.most("candidates", asked, Patience::Short).await?;
        let names: BTreeSet<_> = lists.into_iter().flatten().flatten().collect();
        Ok(Some(names.into_iter().collect()))
    }
}

/// Tells whether two nodes say the same.
fn is_alike(one: &Requested, other: &Requested) -> bool {
    match (one, other) {
        (Requested::WrongTerm(_), Requested::WrongTerm(_)) => true,
        _ => one == other,
    }
}

fn token(requested: &Requested) -> FencingToken {
    match requested {
        Requested::Accepted(token) | Requested::WrongTerm(token) => *token,
        Requested::NoHolder | Requested::Busy(_) => FencingToken::ZERO,
    }
}
