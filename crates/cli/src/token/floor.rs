//! `tenure token floor`: every later token of an election is above a number.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use tenure::store::{LeaseRecord, RecordState};
use tenure::{ElectionName, FencingToken};

use crate::control::args::FloorArgs;
use crate::control::outcome::{self, Because, quoted};
use crate::control::taking::{self, Taken};
use crate::control::{self, Control};
use crate::duration;
use crate::reading::{self, Failure, For, Output, Verdict};
use crate::show::words;

#[derive(Serialize)]
struct Told<'a> {
    election: &'a ElectionName,
    floor: FencingToken,
    /// The highest token so far.
    token: FencingToken,
    reason: Option<String>,
}

pub(crate) fn main(args: &FloorArgs) -> ExitCode {
    control::act(For::Making, &args.read, &args.election, async |control, output| {
        let (election, floor) = (&args.election, FencingToken(args.floor));
        let record = control.reader.read(election).await?;
        let last = record.map_or(FencingToken::ZERO, |record| record.token);
        match raise(control, election, floor, last).await? {
            Ok(token) => {
                let told = Told { election, floor, token, reason: None };
                let sentence =
                    format!("every later token of election {:?} is above {token}", election.as_str());
                write(args, &told, &sentence, output)?;
                Ok(Verdict::Yes)
            }
            Err(record) => {
                let because = why_not(&record, floor);
                because.say();
                if args.read.json {
                    let told = Told { election, floor, token: record.token, reason: Some(because.reason) };
                    reading::write_json(output, &told)?;
                }
                Ok(Verdict::No)
            }
        }
    })
}

/// Takes the election with a token above the floor, unless it has had one already.
async fn raise(
    control: &Control,
    election: &ElectionName,
    floor: FencingToken,
    last: FencingToken,
) -> Result<Result<FencingToken, Box<LeaseRecord>>, Failure> {
    if last >= floor {
        return Ok(Ok(last));
    }
    Ok(match taking::take(control, election, floor, None).await? {
        Taken::Free(token) => Ok(token),
        // Whoever leads now may have had the floor from elsewhere.
        Taken::Refused(record) if record.token >= floor => Ok(record.token),
        Taken::Refused(record) => Err(record),
    })
}

fn write(args: &FloorArgs, told: &Told<'_>, sentence: &str, output: &mut Output) -> Result<(), Failure> {
    if args.read.json {
        reading::write_json(output, told)?;
    } else {
        writeln!(output, "{sentence}")?;
    }
    Ok(())
}

fn why_not(record: &LeaseRecord, floor: FencingToken) -> Because {
    let (election, name) = (&record.election, quoted(&record.election));
    let held = |what: String, hint: String| {
        Because::new(format!("the floor {floor} was not set: {what}")).hint(hint)
    };
    let time = duration::brief(record.opens_in.unwrap_or_default());
    match &record.state {
        RecordState::Held => held(
            format!(
                "{} leads election {:?} with token {}",
                outcome::leader(record),
                election.as_str(),
                record.token
            ),
            "a floor is set before the first candidate stands: stop them all, then this again".into(),
        ),
        RecordState::Paused => held(
            format!("election {:?} is paused, and nobody is elected, no operator either", election.as_str()),
            format!("stop the candidates, `tenure resume {name}`, then this again"),
        ),
        RecordState::Recovering => held(words::RECOVERING.into(), format!("try again in {time}")),
        RecordState::Reserved { .. } | RecordState::Free => {
            held(format!("the election is {}", words::state(record)), format!("try again in {time}"))
        }
    }
}
