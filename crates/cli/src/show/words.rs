//! What people read.

use std::borrow::Cow;
use std::time::Duration;

use tenure::store::{Action, ExpiryClock, Guarantees, LeaseRecord, RecordState, TermEnd, TokenOrder, Wake};

use super::colour::Tone;
use super::json;
use crate::duration;

/// Stands where there is nothing to say.
pub(crate) const NONE: &str = "-";

/// Says why nobody is elected in a store that began lately.
pub(crate) const RECOVERING: &str = "the store began lately and may have forgotten a lease that still lives";

/// Takes out of a text what could move a terminal's cursor: others wrote it.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let one = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(one).collect())
}

/// Tells an election's state.
pub(crate) fn state(record: &LeaseRecord) -> String {
    let state = json::state(&record.state);
    let paused = record.pause.is_some() && record.state != RecordState::Paused;
    if paused { format!("{state}, paused") } else { state.to_owned() }
}

/// Tells how a state looks.
pub(crate) fn tone(state: &RecordState) -> Tone {
    match state {
        RecordState::Held => Tone::Good,
        RecordState::Reserved { .. } | RecordState::Paused | RecordState::Recovering => Tone::Kept,
        RecordState::Free => Tone::Plain,
    }
}

/// Names whoever leads.
pub(crate) fn leader(record: &LeaseRecord) -> Option<String> {
    let leader = record.leader()?;
    Some(match &leader.identity {
        Some(identity) => format!("{} ({identity})", leader.candidate),
        None if leader.is_foreign() => format!("{} (other software)", leader.candidate),
        None => leader.candidate.to_string(),
    })
}

/// Tells how a term ended.
pub(crate) fn end(end: TermEnd) -> &'static str {
    match end {
        TermEnd::Released => "released",
        TermEnd::Succeeded => "succeeded",
        TermEnd::Expired => "expired",
        TermEnd::Superseded => "superseded",
    }
}

/// Tells what a leader is asked to do.
pub(crate) fn action(action: &Action) -> String {
    match action {
        Action::Resign => "resign".into(),
        Action::HandOff { to } => format!("hand off to {to}"),
    }
}

/// Tells what a store promises and what it takes for granted, in sentences.
pub(crate) fn guarantees(guarantees: &Guarantees) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut say = |sentence: String| sentences.push(sentence);
    say(match guarantees.linearizable {
        true => "Each answer reflects all writes before it.".into(),
        false => "An answer may be older than the last write.".into(),
    });
    say(match guarantees.survives_restart {
        true => "Leases are kept over a restart of the store.".into(),
        false => "Leases are not kept over a restart of the store.".into(),
    });
    match guarantees.survives_failover {
        Some(true) => say("Leases are kept when another server takes over.".into()),
        Some(false) => say("Leases can be lost when another server takes over.".into()),
        None => {}
    }
    say(match guarantees.clock {
        ExpiryClock::Machine => "The machine's boot clock ends a lease.".into(),
        ExpiryClock::Store(step) => format!("The store's clock ends a lease: {step}."),
        ExpiryClock::Observer => "Each observer times a lease on its own clock.".into(),
    });
    say(match guarantees.tokens {
        TokenOrder::Strict => "Tokens always rise.".into(),
        TokenOrder::StrictWithin(Duration::ZERO) => {
            "Tokens always rise, unless the store lost data and its clock was set back.".into()
        }
        TokenOrder::StrictWithin(skew) => format!(
            "Tokens always rise, unless the store lost data and its servers' clocks differ by more than {}.",
            duration::show(skew)
        ),
        TokenOrder::None => "Tokens can repeat or go back.".into(),
    });
    say(match guarantees.wake {
        Wake::Push => "Followers are told of every change.".into(),
        Wake::Look(interval) => format!("Followers look every {}.", duration::show(interval)),
    });
    sentences.extend(guarantees.assumptions.iter().map(|assumption| format!("Assumes: {assumption}.")));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_cannot_move_the_cursor() {
        assert_eq!(harmless("größe 1"), "größe 1");
        assert_eq!(harmless("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }

    #[test]
    fn every_promise_has_its_sentence() {
        let weak = Guarantees {
            store: "weak",
            scope: "everybody".into(),
            linearizable: false,
            survives_restart: true,
            survives_failover: Some(false),
            clock: ExpiryClock::Store("a step forward ends leases early"),
            tokens: TokenOrder::StrictWithin(Duration::from_secs(2)),
            min_ttl: Duration::from_secs(1),
            ttl_grain: Duration::from_secs(1),
            wake: Wake::Look(Duration::from_secs(3)),
            assumptions: vec!["nobody writes by hand"],
        };
        let text = guarantees(&weak).join(" ");
        for words in [
            "may be older",
            "are kept over a restart",
            "lost when another server",
            "a step forward ends leases early",
            "more than 2s",
            "look every 3s",
            "Assumes: nobody writes by hand.",
        ] {
            assert!(text.contains(words), "{words:?} is not in {text}");
        }
    }
}
