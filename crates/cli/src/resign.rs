//! `tenure resign`: the leader ends its term, and somebody else may lead.

use std::process::ExitCode;

use tenure::store::Action;

use crate::control::args::ResignArgs;
use crate::control::asking::{self, Then};
use crate::control::outcome::{self, Outcome};
use crate::reading::For;
use crate::{control, duration};

pub(crate) fn main(args: &ResignArgs) -> ExitCode {
    control::act(For::Changing, &args.read, &args.election, async |control, output| {
        let json = args.read.json;
        let Some(before) = control.reader.read(&args.election).await? else {
            return Outcome::write_unknown(&control.reader, &args.election, json, output);
        };
        let timeout = args.wait.for_leader_of(&before);
        let asked = asking::ask(control, &before, &Action::Resign, timeout, Then::Glimpse).await?;
        let told = Outcome::of(&before, &Action::Resign, &asked);
        match outcome::because(&before, &asked, timeout) {
            Some(because) => told.write_not(because, json, output),
            None => {
                let (former, took) = (outcome::leader(&before), duration::show(asked.took));
                let now = outcome::now(asked.after.as_ref());
                told.write_done(&format!("{former} resigned after {took}; {now}"), json, output)
            }
        }
    })
}
