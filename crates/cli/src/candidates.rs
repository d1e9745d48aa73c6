//! `tenure candidates`: who stands by.

use std::io::Write;
use std::process::ExitCode;

use serde::Serialize;
use tenure::{CandidateId, ElectionName};

use crate::control;
use crate::control::args::CandidatesArgs;
use crate::reading::{self, For, Verdict};
use crate::talk;

#[derive(Serialize)]
struct Candidates<'a> {
    election: &'a ElectionName,
    candidates: Option<Vec<CandidateId>>,
}

pub(crate) fn main(args: &CandidatesArgs) -> ExitCode {
    control::act(For::Reading, &args.read, &args.election, async |control, output| {
        let election = &args.election;
        let operator = control.operator()?;
        let candidates = control.call("candidates", || operator.candidates(election)).await?;
        let somebody = candidates.as_ref().is_some_and(|names| !names.is_empty());
        match &candidates {
            None => {
                let store = control.reader.store.guarantees().store;
                talk::say(&format!("the {store} store cannot tell who stands by"));
                talk::hint("each `tenure run` says what it does; `tenure leader NAME` tells who leads");
            }
            Some(names) if names.is_empty() => {
                control.reader.say_nothing(&format!("nobody stands by for election {:?}", election.as_str()));
            }
            Some(_) => {}
        }
        if args.read.json {
            reading::write_json(output, &Candidates { election, candidates })?;
        } else {
            for candidate in candidates.iter().flatten() {
                writeln!(output, "{candidate}")?;
            }
        }
        Ok(if somebody { Verdict::Yes } else { Verdict::No })
    })
}
