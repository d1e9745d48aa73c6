//! `tenure resume`: the end of a pause.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use tenure::ElectionName;

use crate::control;
use crate::control::args::ResumeArgs;
use crate::control::outcome;
use crate::duration;
use crate::reading::{self, For, Verdict};
use crate::show::{json, words};

#[derive(Serialize)]
struct Resumed<'a> {
    election: &'a ElectionName,
    /// The pause that ended.
    pause: Option<json::Pause<'a>>,
    leader: Option<json::Leader<'a>>,
}

pub(crate) fn main(args: &ResumeArgs) -> ExitCode {
    control::act(For::Changing, &args.read, &args.election, async |control, output| {
        let election = &args.election;
        let before = control.reader.read(election).await?;
        let Some(record) = &before else {
            control.reader.say_unknown(election);
            if args.read.json {
                reading::write_json(output, &Resumed { election, pause: None, leader: None })?;
            }
            return Ok(Verdict::No);
        };
        let operator = control.operator()?;
        let attempt = control.attempt();
        // Also if none is seen: one may have begun since.
        control.call("resume", || operator.resume(election, attempt)).await?;
        if args.read.json {
            let (pause, leader) = (json::pause(record), json::leader(record));
            reading::write_json(output, &Resumed { election, pause, leader })?;
            return Ok(Verdict::Yes);
        }
        let leads = match record.leader() {
            Some(_) => format!("{} leads", outcome::leader(record)),
            None => "whoever bids may lead".into(),
        };
        match &record.pause {
            Some(pause) => {
                let (by, left) = (words::harmless(&pause.by), duration::brief(pause.ends_in));
                writeln!(output, "resumed: the pause by {by} had {left} left; {leads}")?;
            }
            None => writeln!(output, "election {:?} is not paused; {leads}", election.as_str())?,
        }
        Ok(Verdict::Yes)
    })
}
