//! `tenure pause`: nobody new is elected for a while.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use tenure::ElectionName;
use tenure::store::{Action, LeaseRecord, Pause};

use crate::control::args::PauseArgs;
use crate::control::asking::{self, Asked, Then};
use crate::control::outcome::{self, Outcome};
use crate::control::{self, Control};
use crate::reading::{self, Failure, For, Verdict};
use crate::show::json;
use crate::{duration, talk};

#[derive(Serialize)]
struct Paused<'a> {
    election: &'a ElectionName,
    pause: Option<json::Pause<'a>>,
    leader: Option<json::Leader<'a>>,
    resign: Option<Outcome<'a>>,
}

pub(crate) fn main(args: &PauseArgs) -> ExitCode {
    control::act(For::Making, &args.read, &args.election, async |control, output| {
        let election = &args.election;
        pause(control, args).await?;
        // The pause first: nobody new is elected while the leader resigns.
        let before = control.reader.read(election).await?;
        let resigned = match &before {
            Some(before) if args.resign && before.leader().is_some() => {
                Some((before, resign(control, args, before).await?))
            }
            _ => None,
        };
        let after = resigned.as_ref().map_or(before.as_ref(), |(_, asked)| asked.after.as_ref());
        let because = resigned
            .as_ref()
            .and_then(|(before, asked)| outcome::because(before, asked, args.wait().for_leader_of(before)));
        if let Some(because) = &because {
            because.say();
        }
        if args.read.json {
            let told = resigned.as_ref().map(|(before, asked)| {
                let reason = because.as_ref().map(|because| because.reason.clone());
                Outcome { reason, ..Outcome::of(before, &Action::Resign, asked) }
            });
            let (pause, leader) = (after.and_then(json::pause), after.and_then(json::leader));
            reading::write_json(output, &Paused { election, pause, leader, resign: told })?;
        } else {
            let length = duration::show(args.length);
            writeln!(output, "paused for {length}: nobody new is elected; {}", who_leads(&resigned, after))?;
        }
        if !args.resign && after.is_some_and(|record| record.leader().is_some()) {
            talk::hint("--resign ends the present term, too");
        }
        Ok(if because.is_none() { Verdict::Yes } else { Verdict::No })
    })
}

async fn pause(control: &Control, args: &PauseArgs) -> Result<(), Failure> {
    let operator = control.operator()?;
    let attempt = control.attempt();
    let pause = Pause { by: control.by.clone(), ends_in: args.length };
    Ok(control.call("pause", || operator.pause(&args.election, attempt, pause.clone())).await?)
}

async fn resign(control: &Control, args: &PauseArgs, before: &LeaseRecord) -> Result<Asked, Failure> {
    asking::ask(control, before, &Action::Resign, args.wait().for_leader_of(before), Then::Nobody).await
}

fn who_leads(resigned: &Option<(&LeaseRecord, Asked)>, after: Option<&LeaseRecord>) -> String {
    match (resigned, after) {
        (Some((before, asked)), Some(after)) if after.leader().is_none() => {
            format!("{} resigned after {}", outcome::leader(before), duration::show(asked.took))
        }
        (_, Some(after)) if after.leader().is_some() => {
            format!("{} leads on, term {}", outcome::leader(after), after.token)
        }
        _ => "nobody leads".into(),
    }
}
