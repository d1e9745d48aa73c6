//! `tenure release --force`: an election is freed whose leader does not answer.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use tenure::store::{Action, Holder, LeaseRecord, TermEnd};
use tenure::{Clock, FencingToken};

use crate::control::args::ReleaseArgs;
use crate::control::asking::{self, Fate, Then};
use crate::control::outcome::{self, Because, Outcome, quoted};
use crate::control::taking::{self, Taken};
use crate::control::{self, Control};
use crate::reading::{Failure, For, Output, Verdict};
use crate::show::{json, time, words};
use crate::{duration, talk};

/// How long after the predicted end of a lease the end is waited for.
const AFTER: Duration = Duration::from_secs(1);

pub(crate) fn main(args: &ReleaseArgs) -> ExitCode {
    control::act(For::Changing, &args.read, &args.election, async |control, output| {
        let Some(before) = control.reader.read(&args.election).await? else {
            return Outcome::write_unknown(&control.reader, &args.election, args.read.json, output);
        };
        let holder = match before.leader() {
            Some(holder) if !holder.is_foreign() => holder,
            // Nobody can be asked: the same words as for a request.
            _ => {
                let asked = asking::ask(control, &before, &Action::Resign, AFTER, Then::Nobody).await?;
                let because = outcome::because(&before, &asked, AFTER);
                let because = because.unwrap_or_else(|| Because::new("nobody leads any more"));
                return Outcome::leads_on(&before).write_not(because, args.read.json, output);
            }
        };
        if args.now {
            free_now(control, args, &before, holder, output).await
        } else {
            wait_for_end(control, args, &before, holder, output).await
        }
    })
}

/// Asks the leader to resign, and waits until its term is over in any way.
async fn wait_for_end(
    control: &Control,
    args: &ReleaseArgs,
    before: &LeaseRecord,
    holder: &Holder,
    output: &mut Output,
) -> Result<Verdict, Failure> {
    let former = outcome::leader(before);
    let left = before.time_left.unwrap_or(holder.ttl);
    let timeout = args.timeout.unwrap_or_else(|| left.max(holder.ttl).saturating_add(AFTER));
    let began = control.reader.clock.now();
    talk::say(&format!(
        "asking {former} to resign; if it does not answer, its lease runs out in {}",
        duration::brief(left)
    ));
    let asked = asking::ask(control, before, &Action::Resign, timeout, Then::Glimpse).await?;
    let mut after = asked.after.clone();
    let mut took = asked.took;
    let mut end = match &asked.fate {
        Fate::Done => Some(Some(TermEnd::Released)),
        Fate::Ended(end) => Some(*end),
        _ => None,
    };
    if matches!(asked.fate, Fate::NotAsked(_) | Fate::Refused(_)) {
        // Somebody else asks it already, or it ends for another reason: the end is what is wanted.
        let over = asking::outlast(control, &args.election, before.token, began.plus(timeout)).await?;
        end = over.as_ref().map(|(end, _)| *end);
        after = over.map(|(_, record)| record).or(after);
        took = control.reader.clock.now().time_since(began);
    }
    let told = Outcome {
        outcome: if end.is_some() { "done" } else { "unanswered" },
        took_ms: Some(json::ms(took)),
        leader: after.as_ref().and_then(json::leader),
        ..Outcome::of(before, &Action::Resign, &asked)
    };
    let Some(end) = end else {
        let left = after.as_ref().and_then(|record| record.time_left).unwrap_or_default();
        let because = Because::new(format!(
            "{former} has not answered within {}, and its lease has not run out: {} are left, unless it renews",
            duration::show(took),
            duration::brief(left)
        ));
        let election = quoted(&args.election);
        let hint = format!(
            "`tenure release {election} --force --now` frees it at once; stop its process before that"
        );
        return told.write_not(because.hint(hint), args.read.json, output);
    };
    let how = match end {
        Some(TermEnd::Expired) => "its lease ran out".to_owned(),
        Some(end) => words::end(end).to_owned(),
        None => "ended".to_owned(),
    };
    let (took, now) = (duration::show(took), outcome::now(after.as_ref()));
    let sentence = format!("term {} of {former} is over after {took} ({how}); {now}", before.token);
    told.write_done(&sentence, args.read.json, output)
}

/// Takes the election from its holder and gives it to whoever comes.
async fn free_now(
    control: &Control,
    args: &ReleaseArgs,
    before: &LeaseRecord,
    holder: &Holder,
    output: &mut Output,
) -> Result<Verdict, Failure> {
    let former = outcome::leader(before);
    if !args.yes && !is_confirmed(before, holder)? {
        let because = Because::new("not confirmed: nothing was changed");
        return Outcome::leads_on(before).write_not(because, args.read.json, output);
    }
    let began = control.reader.clock.now();
    let taken = taking::take(control, &args.election, FencingToken::ZERO, Some(holder.bid)).await;
    let took = control.reader.clock.now().time_since(began);
    // It may have renewed right before it was superseded.
    let may_act_until = control.reader.clock.wall() + holder.ttl;
    let token = match taken {
        Ok(Taken::Free(token)) => token,
        Ok(Taken::Refused(record)) => {
            return Outcome::leads_on(&record).write_not(why_not(before, &record), args.read.json, output);
        }
        Err(failure) => {
            talk::say(&format!(
                "the store gave no clear answer, and it may have happened: then {former} may act until {} at the latest",
                time::seconds(may_act_until)
            ));
            talk::hint("`tenure status` shows what became of it");
            return Err(failure);
        }
    };
    talk::say(&format!(
        "{former} may act until {} at the latest, if it does not hear of this before: only a fence protects what it \
         writes to",
        time::seconds(may_act_until)
    ));
    let after = control.reader.read(&args.election).await?;
    let told = Outcome {
        outcome: "done",
        took_ms: Some(json::ms(took)),
        may_act_until: Some(may_act_until),
        leader: after.as_ref().and_then(json::leader),
        former: json::leader(before),
        ..Outcome::not_asked(&args.election)
    };
    let now = outcome::now(after.as_ref());
    let sentence =
        format!("term {} of {former} is over; every later token is above {token}; {now}", before.token);
    told.write_done(&sentence, args.read.json, output)
}

/// Asks whoever sits at the terminal.
fn is_confirmed(before: &LeaseRecord, holder: &Holder) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage {
            message: "--now frees an election under a leader that may still act, and nobody can be asked: standard \
                      input is no terminal"
                .into(),
            hint: "say that it is meant with --yes",
        });
    }
    let mut stderr = std::io::stderr();
    write!(
        stderr,
        "{} leads election {:?} in term {}. It may go on acting for up to {}; only a fence protects what it writes to.\n\
         Free the election now? [y/N] ",
        outcome::leader(before),
        before.election.as_str(),
        before.token,
        duration::brief(holder.ttl)
    )?;
    stderr.flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// Says why the store did not give the election to an operator.
fn why_not(before: &LeaseRecord, record: &LeaseRecord) -> Because {
    let election = quoted(&record.election);
    let state = words::state(record);
    if record.token != before.token {
        return Because::new(format!(
            "term {} has ended meanwhile; {}",
            before.token,
            outcome::now(Some(record))
        ));
    }
    match &record.pause {
        Some(_) => Because::new(format!(
            "election {:?} is paused: nobody is elected, no operator either",
            record.election.as_str()
        ))
        .hint(format!("`tenure resume {election}`, then free it again")),
        None => Because::new(format!("the store does not give the election away: it is {state}"))
            .hint(format!("`tenure status {election}` shows why; try again")),
    }
}
