//! What operators can do with elections in Redis.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use redis::{PushInfo, PushKind, Value};
use tenure_core::clock::{ClockExt, Sleep};
use tenure_core::store::{ControlRequest, Operator, Pause, Requested, StoreError};
use tenure_core::{Attempt, CandidateId, ElectionName, FencingToken};
use tokio::sync::mpsc;

use crate::error::Trouble;
use crate::link::{Links, Request, within};
use crate::record::json;
use crate::store::{RedisStore, outcome, whole_ms};

/// Keys that the server looks at in one step: enough for few round trips, too few to hold others up.
const SCAN_STEP: usize = 1000;

/// How long a roll call waits for those who hear it; they answer at once, or not at all.
const ROLL_CALL: Duration = Duration::from_millis(500);

#[async_trait]
impl Operator for RedisStore {
    async fn list(&self, prefix: &str) -> Result<Vec<ElectionName>, StoreError> {
        let shared = &self.shared;
        let servers = match &shared.cluster {
            Some(cluster) => cluster.masters(shared.config.call_timeout).await,
            None => Ok(vec![shared.links.clone()]),
        };
        let mut names = Vec::new();
        for server in servers.map_err(|trouble| shared.error("list", None, trouble))? {
            let found = self.list_of(&server, prefix).await;
            names.extend(found.map_err(|trouble| shared.error("list", None, trouble))?);
        }
        // A server may show a key twice while it rearranges its table, and two may while it moves.
        names.sort();
        names.dedup();
        Ok(names)
    }

    async fn request(
        &self,
        election: &ElectionName,
        attempt: Attempt,
        request: ControlRequest,
    ) -> Result<Requested, StoreError> {
        let (id, token) = (request.id.to_string(), request.token.to_string());
        let (asked, expires_in) = (json(&request), whole_ms(request.expires_in).to_string());
        let arguments = [id.as_str(), &token, &asked, &expires_in];
        let mark = attempt.to_string();
        let mut answer = self.shared.run("request", election, &mark, &arguments, false).await?;
        let name = answer.name().to_owned();
        let mut requested = || -> Result<Requested, String> {
            Ok(match name.as_str() {
                "accepted" => Requested::Accepted(FencingToken(answer.number()?)),
                "no_holder" => Requested::NoHolder,
                "wrong_term" => Requested::WrongTerm(FencingToken(answer.number()?)),
                "busy" => {
                    Requested::Busy(answer.text()?.parse().map_err(|_| "it names no request".to_owned())?)
                }
                other => return Err(format!("it says {other:?}")),
            })
        };
        requested().map_err(|why| self.shared.error("request", Some(election), Trouble::Reply(why)))
    }

    async fn pause(&self, election: &ElectionName, attempt: Attempt, pause: Pause) -> Result<(), StoreError> {
        let ends_in = whole_ms(pause.ends_in).to_string();
        let arguments = [pause.by.as_str(), &ends_in];
        self.shared.run("pause", election, &attempt.to_string(), &arguments, false).await.map(drop)
    }

    async fn resume(&self, election: &ElectionName, attempt: Attempt) -> Result<(), StoreError> {
        self.shared.run("resume", election, &attempt.to_string(), &[], false).await.map(drop)
    }

    async fn candidates(&self, election: &ElectionName) -> Result<Option<Vec<CandidateId>>, StoreError> {
        let standing_by = self.roll_call(election).await;
        standing_by.map(Some).map_err(|trouble| self.shared.error("candidates", Some(election), trouble))
    }
}

impl RedisStore {
    /// Lists the elections of one server.
    async fn list_of(&self, server: &Links, prefix: &str) -> Result<Vec<ElectionName>, Trouble> {
        let shared = &self.shared;
        let pattern = shared.keys.pattern(prefix);
        let (mut names, mut cursor) = (Vec::new(), String::from("0"));
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_STEP);
            let found = server.send(Request::One(&scan), false, shared.config.call_timeout).await?.pop();
            let (next, keys): (String, Vec<Vec<u8>>) =
                redis::from_redis_value(outcome(found)?).map_err(|why| Trouble::Reply(why.to_string()))?;
            let elections =
                keys.iter().filter_map(|key| shared.keys.election(std::str::from_utf8(key).ok()?));
            names.extend(elections.filter(|name| name.as_str().starts_with(prefix)));
            if next == "0" {
                return Ok(names);
            }
            cursor = next;
        }
    }

    /// Asks over the election's channel who stands by, and gathers the answers on a channel of its own.
    async fn roll_call(&self, election: &ElectionName) -> Result<Vec<CandidateId>, Trouble> {
        let shared = &self.shared;
        let channel = shared.keys.of(election).channel;
        let reply_to = format!("{channel}:{}", shared.new_mark());
        let (told, mut answers) = mpsc::unbounded_channel();
        let push = Box::new(move |info: PushInfo| drop(told.send(info)));
        within(&shared.clock, shared.config.call_timeout, async {
            let mut connection = shared.connect.connect(push).await?.connection;
            connection.subscribe(&reply_to).await.map_err(Trouble::Connection)?;
            let mut call = redis::cmd("PUBLISH");
            call.arg(&channel).arg(format!("call {reply_to}"));
            // The server tells how many hear it: as many answer, each for one process. A node of a cluster does not know
            // who hears it at the others.
            let hearing: u64 =
                redis::from_redis_value(shared.send(&channel, Request::One(&call), false).await?)
                    .map_err(|why| Trouble::Reply(why.to_string()))?;
            let hearing = if shared.cluster.is_some() { u64::MAX } else { hearing };
            let mut names = BTreeSet::new();
            let mut over = shared.clock.sleep(ROLL_CALL);
            for _ in 0..hearing {
                // A process that does not answer does not stand by.
                let Some(answer) = next_answer(&mut answers, &mut over).await else { break };
                names.extend(answer);
            }
            Ok(names.into_iter().collect())
        })
        .await
    }
}

/// Returns the next answer, `None` when the time is over or the connection gone.
async fn next_answer(
    answers: &mut mpsc::UnboundedReceiver<PushInfo>,
    over: &mut Sleep,
) -> Option<BTreeSet<CandidateId>> {
    loop {
        let info = tokio::select! {
            biased;
            info = answers.recv() => info?,
            () = &mut *over => return None,
        };
        match (info.kind, info.data.as_slice()) {
            (PushKind::Disconnection, _) => return None,
            (PushKind::Message, [_, Value::BulkString(text)]) => {
                return Some(serde_json::from_slice(text).unwrap_or_default());
            }
            _ => {}
        }
    }
}
