//! What happened, for people and for programs.

use serde::Serialize;
use tenure::FencingToken;

/// Something that happened to the candidate of a seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Happened {
    pub(super) seat: usize,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Started,
    StandsBy,
    Elected(FencingToken),
    TermEnded(FencingToken, End),
    /// It cannot reach the store.
    Unreachable,
    Killed,
    Stopped,
    Continued,
    CutOff,
    Connected,
    /// The leader was asked to hand off to the candidate of this seat.
    Asked(usize),
    /// It was told to end.
    Told,
    /// It has ended, with this code.
    Ended(Option<i32>),
    /// Something else that it says.
    Says(String),
}

/// How a term ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    GivenBack,
    HandedOff,
    /// Its deadline passed, or somebody else leads.
    Over,
}

impl Happened {
    /// Says it in a sentence.
    pub(super) fn message(&self, letter: impl Fn(usize) -> char) -> String {
        let who = letter(self.seat);
        match &self.what {
            What::Started => format!("{who} is started."),
            What::StandsBy => format!("{who} stands by."),
            What::Elected(token) => format!("{who} leads, term {token}."),
            What::TermEnded(token, End::GivenBack) => {
                format!("{who} has ended its command and gives the lease back: term {token} is over.")
            }
            What::TermEnded(token, End::HandedOff) => {
                format!("{who} has ended its command and hands off: term {token} is over.")
            }
            What::TermEnded(token, End::Over) => {
                format!("{who} knows that its term {token} is over; its command has been stopped.")
            }
            What::Unreachable => format!("{who} cannot reach the store."),
            What::Killed => format!("{who} is killed (SIGKILL)."),
            What::Stopped => format!("{who} is stopped (SIGSTOP)."),
            What::Continued => format!("{who} is continued (SIGCONT)."),
            What::CutOff => format!("{who} is cut off from the store."),
            What::Connected => format!("{who} is connected to the store again."),
            What::Asked(to) => format!("{who} is asked to hand off to {}.", letter(*to)),
            What::Told => format!("{who} is told to end (SIGTERM)."),
            What::Ended(Some(code)) if *code != 0 && *code != 128 + 15 => {
                format!("{who} has ended, with code {code}.")
            }
            What::Ended(_) => format!("{who} has ended."),
            What::Says(text) => format!("{who}: {text}"),
        }
    }

    /// Says it to programs.
    pub(super) fn json(&self, letter: impl Fn(usize) -> char) -> String {
        let (event, token, successor) = match &self.what {
            What::Started => ("started", None, None),
            What::StandsBy => ("standing_by", None, None),
            What::Elected(token) => ("elected", Some(*token), None),
            What::TermEnded(token, _) => ("term_ended", Some(*token), None),
            What::Unreachable => ("store_failed", None, None),
            What::Killed => ("killed", None, None),
            What::Stopped => ("stopped", None, None),
            What::Continued => ("continued", None, None),
            What::CutOff => ("cut_off", None, None),
            What::Connected => ("connected", None, None),
            What::Asked(to) => ("requested", None, Some(letter(*to))),
            What::Told => ("stopping", None, None),
            What::Ended(_) => ("ended", None, None),
            What::Says(_) => ("said", None, None),
        };
        let line =
            Line { event, candidate: letter(self.seat), token, successor, message: self.message(&letter) };
        // It has nothing that could not be written.
        serde_json::to_string(&line).unwrap_or_default()
    }
}

/// Every name here stands in docs/json.md and stays.
#[derive(Serialize)]
struct Line {
    event: &'static str,
    candidate: char,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<FencingToken>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<char>,
    message: String,
}
