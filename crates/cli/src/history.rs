//! `tenure history`: the last terms of an election.

use std::process::ExitCode;
use std::slice::from_ref;

use serde::Serialize;
use tenure::ElectionName;

use crate::args::HistoryArgs;
use crate::reading::{self, Verdict};
use crate::show::table::Table;
use crate::show::{json, time, words};
use crate::talk;

#[derive(Serialize)]
struct History<'a> {
    election: &'a ElectionName,
    terms: Vec<json::Term<'a>>,
}

pub(crate) fn main(args: &HistoryArgs) -> ExitCode {
    reading::answer(&args.read, from_ref(&args.election), async |reader, output| {
        let election = &args.election;
        let record = reader.read(election).await?;
        let terms = record.as_ref().map(json::terms).unwrap_or_default();
        if record.is_none() {
            reader.say_unknown(election);
        } else if terms.is_empty() {
            talk::say(&format!("election {:?} has had no term yet", election.as_str()));
        }
        if args.read.json {
            reading::write_json(output, &History { election, terms })?;
        } else if !terms.is_empty() {
            let mut table = Table::new(["TOKEN", "CANDIDATE", "IDENTITY", "BEGAN", "ENDED", "HOW"]);
            for term in &terms {
                table.row([
                    term.token.to_string(),
                    term.candidate.to_string(),
                    term.identity.map_or(words::NONE.into(), ToString::to_string),
                    time::seconds(term.began),
                    term.ended.map_or(words::NONE.into(), time::seconds),
                    term.end.map_or("leads", words::end).into(),
                ]);
            }
            table.write(output)?;
        }
        Ok(if record.is_some() { Verdict::Yes } else { Verdict::No })
    })
}
