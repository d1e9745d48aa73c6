//! `tenure leader`: who leads, and whether it is the one that this command runs under.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use tenure::store::LeaseRecord;
use tenure::{CandidateId, ElectionName, FencingToken};

use crate::args::LeaderArgs;
use crate::reading::{self, Failure, Verdict};
use crate::show::{json, words};
use crate::talk;

#[derive(Serialize)]
struct Answer<'a> {
    election: &'a ElectionName,
    leader: Option<json::Leader<'a>>,
    is_me: Option<bool>,
}

pub(crate) fn main(args: &LeaderArgs) -> ExitCode {
    reading::answer(&args.read, args.election.as_slice(), async |reader, output| {
        let me = args.is_me.then(Me::from_environment).transpose()?;
        let election = which(args, me.as_ref())?;
        let record = reader.read(election).await?;
        let leader = record.as_ref().and_then(LeaseRecord::leader);
        let is_me = me.as_ref().map(|me| record.as_ref().is_some_and(|record| me.leads(record)));
        if args.read.json {
            let leader = record.as_ref().and_then(json::leader);
            reading::write_json(output, &Answer { election, leader, is_me })?;
        } else if let Some(leader) = leader {
            writeln!(output, "{}", leader.candidate)?;
        }
        match (&record, leader, &me) {
            (Some(_), Some(_), None) => {}
            (Some(_), Some(_), Some(_)) if is_me == Some(true) => {}
            (Some(record), Some(leader), Some(me)) => talk::say(&format!(
                "{} of term {} does not lead election {:?}: {} does, in term {}",
                me.candidate,
                me.token,
                election.as_str(),
                leader.candidate,
                record.token
            )),
            (Some(record), None, _) => {
                let state = words::state(record);
                talk::say(&format!("nobody leads election {:?}: it is {state}", election.as_str()));
            }
            (None, _, _) => reader.say_unknown(election),
        }
        Ok(if is_me.unwrap_or(leader.is_some()) { Verdict::Yes } else { Verdict::No })
    })
}

fn which<'a>(args: &'a LeaderArgs, me: Option<&'a Me>) -> Result<&'a ElectionName, Failure> {
    match (&args.election, me) {
        (Some(named), Some(me)) if *named != me.election => Err(Failure::Usage {
            message: format!(
                "--is-me asks about election {:?}, but this command runs under election {:?} (TENURE_ELECTION)",
                named.as_str(),
                me.election.as_str()
            ),
            hint: "leave the name away, or leave --is-me away",
        }),
        (Some(named), _) => Ok(named),
        (None, Some(me)) => Ok(&me.election),
        // Clap asks for one of the two.
        (None, None) => Err(not_inside("TENURE_ELECTION", "is not set")),
    }
}

/// The term that this command runs under, as `tenure run` tells its command.
struct Me {
    election: ElectionName,
    candidate: CandidateId,
    token: FencingToken,
}

impl Me {
    fn from_environment() -> Result<Self, Failure> {
        Ok(Self {
            election: variable("TENURE_ELECTION", |text| ElectionName::new(text).map_err(|e| e.to_string()))?,
            candidate: variable("TENURE_CANDIDATE", |text| {
                CandidateId::new(text).map_err(|e| e.to_string())
            })?,
            token: variable("TENURE_TOKEN", |text| {
                text.parse().map(FencingToken).map_err(|_| format!("{text:?} is not a number"))
            })?,
        })
    }

    fn leads(&self, record: &LeaseRecord) -> bool {
        record.token == self.token && record.leader().is_some_and(|leader| leader.candidate == self.candidate)
    }
}

fn variable<T>(name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
    let value = std::env::var(name).map_err(|error| match error {
        std::env::VarError::NotPresent => not_inside(name, "is not set"),
        std::env::VarError::NotUnicode(_) => not_inside(name, "is not text"),
    })?;
    read(&value).map_err(|why| not_inside(name, &why))
}

fn not_inside(variable: &str, why: &str) -> Failure {
    Failure::Usage {
        message: format!("--is-me needs what `tenure run` tells its command: {variable}: {why}"),
        hint: "use --is-me inside the command of `tenure run`, and only there",
    }
}
