//! What operators ask of an election, from any machine, through its store.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use crate::name::{Attempt, CandidateId, ElectionName, RequestId};
use crate::token::FencingToken;

/// A wish that an operator leaves for the leader of one term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRequest {
    /// Names the request, so that it is answered once.
    pub id: RequestId,
    /// The term that it is meant for; it does nothing in a later one.
    pub token: FencingToken,
    /// Who asks, for people.
    pub by: String,
    /// What is asked.
    pub action: Action,
    /// How long it stands.
    #[serde(with = "super::serde_ms", rename = "expires_in_ms")]
    pub expires_in: Duration,
}

/// What a leader can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// End the term; somebody else shall lead.
    Resign,
    /// End the term in favour of this candidate.
    HandOff {
        /// Who shall lead next.
        to: CandidateId,
    },
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The request.
    pub id: RequestId,
    /// The leader's answer.
    pub answer: Answer,
}

/// A leader's answer to a request.
///
/// It is given in one step with what was asked for: until the lease is given back, nothing is done. A leader that lost
/// its lease meanwhile, or crashed, can answer no more: then the record shows a later token, no answer, and among its
/// last terms how that one ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It did what was asked: the lease was given back by this very step.
    Done,
    /// It did not, and says why.
    Refused(String),
}

/// Keeps anybody new from being elected, always with an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// Who paused, for people.
    pub by: String,
    /// How long the pause still lasts.
    #[serde(with = "super::serde_ms", rename = "ends_in_ms")]
    pub ends_in: Duration,
}

/// Where a request ended up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requested {
    /// It waits for the leader of this term.
    Accepted(FencingToken),
    /// Nobody leads.
    NoHolder,
    /// Another term rules than the one that the request names.
    WrongTerm(FencingToken),
    /// Another request waits already.
    Busy(RequestId),
}

/// What operators can do, where a store can carry it.
#[async_trait]
pub trait Operator: Send + Sync {
    /// Lists the elections whose names begin with `prefix`, in order.
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError>;

    /// Leaves a request for the leader of the term that it names; does not lengthen the lease.
    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError>;

    /// Keeps anybody new from being elected for `pause.ends_in`; a running term goes on.
    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError>;

    /// Ends a pause; harmless if there is none.
    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError>;

    /// Tells who stands by, or `None` where the store cannot know.
    async fn candidates(&self, election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError>;
}
