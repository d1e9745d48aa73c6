//! `tenure handoff`: the leader ends its term in favour of another candidate.

use std::process::ExitCode;

use tenure::store::{Action, Holder, LeaseRecord};

use crate::control::args::HandoffArgs;
use crate::control::asking::{self, Asked, Then};
use crate::control::outcome::{self, Because, Outcome};
use crate::control::{self, Control, who};
use crate::duration;
use crate::reading::{Failure, For};

pub(crate) fn main(args: &HandoffArgs) -> ExitCode {
    control::act(For::Changing, &args.read, &args.election, async |control, output| {
        let json = args.read.json;
        let Some(before) = control.reader.read(&args.election).await? else {
            return Outcome::write_unknown(&control.reader, &args.election, json, output);
        };
        let action = match whom(control, args, &before).await? {
            Ok(action) => action,
            Err(because) => {
                return Outcome::leads_on(&before).write_not(because, json, output);
            }
        };
        let timeout = args.wait.for_leader_of(&before);
        let asked = asking::ask(control, &before, &action, timeout, Then::Somebody).await?;
        let told = Outcome::of(&before, &action, &asked);
        if let Some(because) = outcome::because(&before, &asked, timeout) {
            return told.write_not(because, json, output);
        }
        if let Some(because) = not_taken_over(&before, &action, &asked) {
            return Outcome { outcome: "not_taken_over", ..told }.write_not(because, json, output);
        }
        let took = duration::show(asked.taken_over.unwrap_or(asked.took));
        let (former, now) = (outcome::leader(&before), outcome::now(asked.after.as_ref()));
        told.write_done(&format!("{former} handed off after {took}; {now}"), json, output)
    })
}

/// Decides what to ask, or why not to: no term is ended for somebody who is not there, as far as the store can tell.
async fn whom(
    control: &Control,
    args: &HandoffArgs,
    before: &LeaseRecord,
) -> Result<Result<Action, Because>, Failure> {
    if before.leader().is_none_or(Holder::is_foreign) {
        // Said by whoever asks.
        return Ok(Ok(Action::Resign));
    }
    let election = &args.election;
    if let Some(pause) = &before.pause {
        let time = duration::brief(pause.ends_in);
        let name = outcome::quoted(election);
        return Ok(Err(Because::new(format!("the election is paused for {time}: nobody could take over"))
            .hint(format!(
                "`tenure resume {name}` first; `tenure resign {name}` ends the term all the same"
            ))));
    }
    let operator = control.operator()?;
    let standing_by = control.call("candidates", || operator.candidates(election)).await?;
    Ok(match (&args.to, standing_by) {
        (Some(to), standing_by) => {
            who::find(to, standing_by.as_deref(), before).map(|to| Action::HandOff { to })
        }
        (None, Some(standing_by)) if standing_by.is_empty() => {
            let leader = outcome::leader(before);
            Err(Because::new(format!("nobody stands by to take over from {leader}"))
                .hint("start another candidate"))
        }
        // Whoever resigns rests for a while: anybody else is faster.
        (None, _) => Ok(Action::Resign),
    })
}

/// Says why somebody else leads than was meant, or nobody.
fn not_taken_over(before: &LeaseRecord, action: &Action, asked: &Asked) -> Option<Because> {
    let former = before.leader().map(|leader| &leader.candidate);
    let is_meant = |leader: &Holder| match action {
        Action::HandOff { to } => leader.candidate == *to,
        Action::Resign => Some(&leader.candidate) != former,
    };
    if asked.leader().is_some_and(is_meant) {
        return None;
    }
    let (former, now) = (outcome::leader(before), outcome::now(asked.after.as_ref()));
    let because = match action {
        Action::HandOff { to } => Because::new(format!(
            "{former} gave the lease back after {}, but {to} did not take it in the time that was kept for it; {now}",
            duration::show(asked.took)
        )),
        Action::Resign => Because::new(format!(
            "{former} gave the lease back after {}, but nobody else took it; {now}",
            duration::show(asked.took)
        )),
    };
    Some(because.hint("see that the candidate runs and reaches the store"))
}
