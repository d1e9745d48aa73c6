//! `tenure status`: who leads, for how long, and what the store promises.

use std::io;
use std::process::ExitCode;

use serde::Serialize;
use tenure::ElectionName;
use tenure::store::{ErrorKind, Guarantees, LeaseRecord, RecordState, StoreError};

use crate::args::StatusArgs;
use crate::reading::{self, Failure, Output, Reader, Verdict};
use crate::show::colour::{self, Tone, paint};
use crate::show::table::Table;
use crate::show::{json, time, words};
use crate::{duration, talk};

#[derive(Serialize)]
struct Status<'a> {
    store: json::Store,
    elections: Vec<json::Election<'a>>,
}

/// An election, or why it cannot be read.
type Seen = (ElectionName, Result<LeaseRecord, StoreError>);

pub(crate) fn main(args: &StatusArgs) -> ExitCode {
    reading::answer(&args.read, args.election.as_slice(), async |reader, output| {
        let seen = match &args.election {
            Some(election) => see_one(reader, election).await?,
            None => see_all(reader).await?,
        };
        if seen.is_empty() {
            match &args.election {
                Some(election) => reader.say_unknown(election),
                None => reader.say_nothing("no elections"),
            }
        }
        let guarantees = reader.store.guarantees();
        if args.read.json {
            let elections = seen.iter().map(as_json).collect();
            reading::write_json(output, &Status { store: json::store(guarantees), elections })?;
        } else if let (Some(_), [(_, Ok(record))]) = (&args.election, seen.as_slice()) {
            write_detail(output, record, &guarantees)?;
        } else if !seen.is_empty() {
            write_table(output, &seen)?;
        }
        Ok(judge(args, &seen))
    })
}

async fn see_one(reader: &Reader, election: &ElectionName) -> Result<Vec<Seen>, Failure> {
    Ok(match reader.read(election).await {
        Ok(record) => record.map(|record| (election.clone(), Ok(record))).into_iter().collect(),
        Err(error) => vec![tell(election.clone(), error)?],
    })
}

async fn see_all(reader: &Reader) -> Result<Vec<Seen>, Failure> {
    let names = reader.list("").await?;
    let mut seen = Vec::new();
    for (election, answer) in reader.read_all(&names).await {
        match answer {
            Ok(Some(record)) => seen.push((election, Ok(record))),
            // Gone since it was listed.
            Ok(None) => {}
            Err(error) => seen.push(tell(election, error)?),
        }
    }
    Ok(seen)
}

/// Keeps the error of one election whose record is broken, so that the others are shown; any other error is the store's.
fn tell(election: ElectionName, error: StoreError) -> Result<Seen, Failure> {
    if error.kind() != ErrorKind::Corrupt {
        return Err(error.into());
    }
    talk::error(&error);
    reading::hint_for(&error).map(talk::hint);
    Ok((election, Err(error)))
}

fn judge(args: &StatusArgs, seen: &[Seen]) -> Verdict {
    if seen.iter().any(|(_, record)| record.is_err()) {
        Verdict::Incomplete
    } else if seen.is_empty() && args.election.is_some() {
        Verdict::No
    } else {
        Verdict::Yes
    }
}

fn as_json((election, record): &Seen) -> json::Election<'_> {
    match record {
        Ok(record) => json::election(record),
        Err(error) => json::unreadable(election, error),
    }
}

fn write_table(output: &mut Output, seen: &[Seen]) -> io::Result<()> {
    let coloured = colour::wanted();
    let none = || words::NONE.to_owned();
    let mut table = Table::new(["ELECTION", "STATE", "LEADER", "TOKEN", "SINCE", "LEFT", "RENEWALS"]);
    for (election, record) in seen {
        let Ok(record) = record else {
            let state = paint("unreadable".into(), Tone::Bad, coloured);
            table.row([election.to_string(), state, none(), none(), none(), none(), none()]);
            continue;
        };
        table.row([
            election.to_string(),
            paint(words::state(record), words::tone(&record.state), coloured),
            words::leader(record).unwrap_or_else(none),
            record.token.to_string(),
            json::term_length(record).map_or_else(none, duration::brief),
            record.leader().and(record.time_left).map_or_else(none, duration::brief),
            record
                .leader()
                .filter(|leader| !leader.is_foreign())
                .map_or_else(none, |leader| leader.renew_count.to_string()),
        ]);
    }
    table.write(output)
}

fn write_detail(output: &mut Output, record: &LeaseRecord, guarantees: &Guarantees) -> io::Result<()> {
    let mut table = Table::plain();
    let mut say = |what: &str, text: String| table.row([what.to_owned(), text]);
    say("election", record.election.to_string());
    say("state", paint(words::state(record), words::tone(&record.state), colour::wanted()));
    say_leader(record, &mut say);
    say("token", record.token.to_string());
    say_openings(record, &mut say);
    if let Some(last) = json::terms(record).into_iter().rfind(|term| term.end.is_some()) {
        let how = last.end.map_or("", words::end);
        let when = last.ended.map(|ended| format!(", {}", time::seconds(ended))).unwrap_or_default();
        say("last term", format!("{}: {}, {how}{when}", last.token, last.candidate));
    }
    if let Some(age) = record.last_success {
        say("last success", format!("{} ago", duration::brief(age)));
    }
    say("store", format!("{}: {}", guarantees.store, guarantees.scope));
    for sentence in words::guarantees(guarantees) {
        say("", sentence);
    }
    table.write(output)
}

fn say_leader(record: &LeaseRecord, say: &mut impl FnMut(&str, String)) {
    let Some(leader) = record.leader() else {
        say("leader", "nobody".into());
        return;
    };
    say("leader", leader.candidate.to_string());
    if let Some(identity) = &leader.identity {
        say("identity", identity.to_string());
    }
    if leader.is_foreign() {
        say("since", "unknown: other software holds the lease, outside of all terms".into());
        let left = record.time_left.map_or("without end".into(), duration::brief);
        say("time left", left);
    } else {
        let length = json::term_length(record).map_or_else(String::new, duration::brief);
        say("since", format!("{} ({length})", time::seconds(leader.acquired_at)));
        if let Some(left) = record.time_left {
            say("time left", format!("{} of {}", duration::brief(left), duration::brief(leader.ttl)));
        }
        say("renewals", format!("{} in this term, {} in all", leader.renew_count, record.renew_total));
    }
    let mut label = "metadata";
    for (name, value) in &leader.metadata {
        say(label, format!("{} = {}", words::harmless(name), words::harmless(value)));
        label = "";
    }
}

/// Says what keeps others from being elected, and what waits for the leader.
fn say_openings(record: &LeaseRecord, say: &mut impl FnMut(&str, String)) {
    if let RecordState::Reserved { successor } = &record.state {
        let whom = successor.as_ref().map_or("nobody, to cool down".into(), ToString::to_string);
        say("reserved", format!("for {whom}, for {}", duration::brief(record.opens_in.unwrap_or_default())));
    }
    if record.state == RecordState::Recovering {
        let time = duration::brief(record.opens_in.unwrap_or_default());
        say("waits", format!("for {time}: {}", words::RECOVERING));
    }
    if let Some(pause) = &record.pause {
        say("paused", format!("by {}, for {}", words::harmless(&pause.by), duration::brief(pause.ends_in)));
    }
    if let Some(request) = &record.request {
        let (by, action) = (words::harmless(&request.by), words::action(&request.action));
        say("request", format!("{action}, asked by {by}, for {}", duration::brief(request.expires_in)));
    }
    if let Some(answered) = &record.answer {
        let (answer, reason) = json::answer(&answered.answer);
        let reason = reason.map(|reason| format!(": {}", words::harmless(reason))).unwrap_or_default();
        say("last request", format!("{answer}{reason}"));
    }
}
