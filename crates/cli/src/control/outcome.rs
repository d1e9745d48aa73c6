//! How it is told what became of a request.

use std::io::Write;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure::store::{Action, LeaseRecord};
use tenure::{CandidateId, ElectionName};

use super::asking::{Asked, Fate, NotAsked};
use crate::reading::{self, Failure, Output, Reader, Verdict};
use crate::show::{json, words};
use crate::{duration, talk};

/// What became of what an operator wanted.
#[derive(Serialize)]
pub(crate) struct Outcome<'a> {
    pub(crate) election: &'a ElectionName,
    pub(crate) outcome: &'static str,
    pub(crate) reason: Option<String>,
    pub(crate) former: Option<json::Leader<'a>>,
    pub(crate) successor: Option<&'a CandidateId>,
    pub(crate) took_ms: Option<u64>,
    pub(crate) taken_over_ms: Option<u64>,
    #[serde(serialize_with = "json::maybe_rfc_3339")]
    pub(crate) may_act_until: Option<SystemTime>,
    pub(crate) leader: Option<json::Leader<'a>>,
}

/// Why something was not done, and what to do next.
#[derive(Debug)]
pub(crate) struct Because {
    pub(crate) reason: String,
    pub(crate) hint: Option<String>,
}

impl Because {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn say(&self) {
        talk::say(&self.reason);
        if let Some(hint) = &self.hint {
            talk::hint(hint);
        }
    }
}

impl<'a> Outcome<'a> {
    /// Begins with an election of which nothing was asked.
    pub(crate) fn not_asked(election: &'a ElectionName) -> Self {
        Self {
            election,
            outcome: "not_asked",
            reason: None,
            former: None,
            successor: None,
            took_ms: None,
            taken_over_ms: None,
            may_act_until: None,
            leader: None,
        }
    }

    /// Writes that there is no such election.
    pub(crate) fn write_unknown(
        reader: &Reader,
        election: &'a ElectionName,
        json: bool,
        output: &mut Output,
    ) -> Result<Verdict, Failure> {
        reader.say_unknown(election);
        if json {
            let reason = Some(format!("there is no election {:?}", election.as_str()));
            reading::write_json(output, &Self { reason, ..Self::not_asked(election) })?;
        }
        Ok(Verdict::No)
    }

    /// Tells that the leader that `before` shows leads on, since nothing was asked of it.
    pub(crate) fn leads_on(before: &'a LeaseRecord) -> Self {
        let leader = || json::leader(before);
        Self { former: leader(), leader: leader(), ..Self::not_asked(&before.election) }
    }

    /// Tells what became of a request to the leader that `before` shows.
    pub(crate) fn of(before: &'a LeaseRecord, action: &'a Action, asked: &'a Asked) -> Self {
        let was_asked = !matches!(asked.fate, Fate::NotAsked(_));
        Self {
            outcome: match asked.fate {
                Fate::Done => "done",
                Fate::NotAsked(_) => "not_asked",
                Fate::Refused(_) => "refused",
                Fate::Unanswered => "unanswered",
                Fate::Ended(_) => "ended",
            },
            former: json::leader(before),
            successor: json::action(action).1,
            took_ms: was_asked.then(|| json::ms(asked.took)),
            taken_over_ms: asked.taken_over.map(json::ms),
            leader: asked.after.as_ref().and_then(json::leader),
            ..Self::not_asked(&before.election)
        }
    }

    /// Writes that it was done, for people as `sentence`.
    pub(crate) fn write_done(
        self,
        sentence: &str,
        json: bool,
        output: &mut Output,
    ) -> Result<Verdict, Failure> {
        if json {
            reading::write_json(output, &self)?;
        } else {
            writeln!(output, "{sentence}")?;
        }
        Ok(Verdict::Yes)
    }

    /// Writes why it was not done.
    pub(crate) fn write_not(
        self,
        because: Because,
        json: bool,
        output: &mut Output,
    ) -> Result<Verdict, Failure> {
        because.say();
        if json {
            reading::write_json(output, &Self { reason: Some(because.reason), ..self })?;
        }
        Ok(Verdict::No)
    }
}

/// Names the leader that a record shows.
pub(crate) fn leader(record: &LeaseRecord) -> String {
    words::leader(record).unwrap_or_else(|| "nobody".into())
}

/// Tells who leads now.
pub(crate) fn now(after: Option<&LeaseRecord>) -> String {
    match after {
        Some(record) if record.leader().is_some_and(|leader| !leader.is_foreign()) => {
            format!("{} leads now, term {}", leader(record), record.token)
        }
        Some(record) if record.leader().is_some() => format!("{} holds the lease now", leader(record)),
        Some(record) if record.pause.is_some() => "nobody leads: the election is paused".into(),
        _ => "nobody leads yet".into(),
    }
}

/// Says why nobody was asked to do something, or did not do it; `None` if it was done.
pub(crate) fn because(before: &LeaseRecord, asked: &Asked, timeout: Duration) -> Option<Because> {
    let (election, former, after) = (&before.election, leader(before), asked.after.as_ref());
    let waited = duration::show(asked.took);
    Some(match &asked.fate {
        Fate::Done => return None,
        Fate::NotAsked(why) => not_asked(before, why),
        Fate::Refused(why) => {
            let leads_on = after.is_some_and(|record| record.token == before.token && record.leader().is_some());
            let then = if leads_on { "it leads on".into() } else { now(after) };
            Because::new(format!("{former} refused after {waited}: {}; {then}", words::harmless(why)))
        }
        Fate::Unanswered => Because::new(format!(
            "{former} has not answered within {}, and the request stands no more; {}",
            duration::show(timeout),
            now(after)
        ))
        .hint(format!(
            "it hangs, is cut off from the store, or its work takes longer to stop (--timeout); `tenure release {} \
             --force` waits until its lease has run out",
            quoted(election)
        )),
        Fate::Ended(how) => {
            let how = how.map_or("unknown how", words::end);
            Because::new(format!(
                "term {} of {former} ended without an answer after {waited} ({how}); {}",
                before.token,
                now(after)
            ))
        }
    })
}

fn not_asked(before: &LeaseRecord, why: &NotAsked) -> Because {
    let election = &before.election;
    match why {
        NotAsked::NobodyLeads => Because::new(format!(
            "nobody leads election {:?}: it is {}",
            election.as_str(),
            words::state(before)
        )),
        NotAsked::Foreign => Because::new(format!(
            "{} holds the lease of election {:?}: it takes no requests",
            leader(before),
            election.as_str()
        ))
        .hint(match before.time_left {
            Some(left) => format!("end it there, or wait for {}", duration::brief(left)),
            None => "end it there: its lease has no end".into(),
        }),
        NotAsked::Busy(waiting) => {
            let what = waiting.as_ref().map_or_else(String::new, |request| {
                let (action, by) = (words::action(&request.action), words::harmless(&request.by));
                format!(": {action}, asked by {by}, for {}", duration::brief(request.expires_in))
            });
            Because::new(format!("another request waits for {} already{what}", leader(before)))
                .hint("ask again when it is answered or has run out")
        }
        NotAsked::AnotherTerm(token) => Because::new(format!(
            "term {token} of election {:?} began meanwhile: nothing was asked of its leader",
            election.as_str()
        ))
        .hint(format!("`tenure status {}` shows who leads; then ask again", quoted(election))),
    }
}

/// Writes an election's name as a shell takes it.
pub(crate) fn quoted(election: &ElectionName) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:@%+=,".contains(c);
    let name = election.as_str();
    if name.chars().all(plain) && !name.starts_with('-') {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_a_shell_takes_them() {
        let quoted = |name: &str| quoted(&ElectionName::new(name).unwrap());
        assert_eq!(quoted("team-a/größe"), "team-a/größe");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
