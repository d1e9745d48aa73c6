//! A candidate as the demonstration knows it: from what it said, and from what was done to it.

use serde_json::Value;
use tenure::{CandidateId, FencingToken};

use super::event::{End, What};
use super::process::Process;

pub(super) struct Candidate {
    pub(super) letter: char,
    pub(super) process: Option<Process>,
    pub(super) id: Option<CandidateId>,
    pub(super) role: Role,
    pub(super) is_stopped: bool,
    pub(super) is_cut_off: bool,
}

/// What a candidate does, by its own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Not started, killed, or ended.
    Gone,
    Starting,
    StandingBy,
    Leading(FencingToken),
    /// Its term is over, and it has not said yet that it stands by again.
    Past,
}

impl Candidate {
    pub(super) fn new(letter: char) -> Self {
        Self { letter, process: None, id: None, role: Role::Gone, is_stopped: false, is_cut_off: false }
    }

    pub(super) fn is_there(&self) -> bool {
        self.role != Role::Gone
    }

    /// Forgets what was true of the process before, or of one that is gone.
    pub(super) fn become_new(&mut self, role: Role) {
        (self.id, self.role, self.is_stopped, self.is_cut_off) = (None, role, false, false);
    }

    /// Takes in a line that it wrote, and tells what is new by it.
    pub(super) fn hear(&mut self, line: &str) -> Option<What> {
        // Its last words may come after its death.
        if !self.is_there() {
            return None;
        }
        let Ok(said) = serde_json::from_str::<Value>(line) else {
            // It could not begin, and says why.
            return Some(What::Says(line.to_owned()));
        };
        if self.id.is_none() {
            self.id = said["candidate"].as_str().and_then(|id| CandidateId::new(id).ok());
        }
        let token = said["token"].as_u64().map(FencingToken);
        match (said["event"].as_str()?, token) {
            ("elected", Some(token)) => {
                self.role = Role::Leading(token);
                Some(What::Elected(token))
            }
            ("leader_changed", _) if said["leader"].is_string() => {
                let before = std::mem::replace(&mut self.role, Role::StandingBy);
                (before != Role::StandingBy).then_some(What::StandsBy)
            }
            ("term_ended", Some(token)) => {
                self.role = Role::Past;
                let end = match said["reason"].as_str() {
                    Some("stopped") => End::GivenBack,
                    Some(reason) if reason.starts_with("handed off") => End::HandedOff,
                    _ => End::Over,
                };
                Some(What::TermEnded(token, end))
            }
            ("store_failed", _) => Some(What::Unreachable),
            ("flapping" | "unkillable" | "guardian_died" | "overrun" | "identity_shared", _) => {
                said["message"].as_str().map(|text| What::Says(text.to_owned()))
            }
            _ => None,
        }
    }

    /// Says in a few words what it does.
    pub(super) fn state(&self) -> String {
        match (self.role, self.is_stopped, self.is_cut_off) {
            // Its guardian still has to see to it that nothing of it is left.
            (Role::Gone, ..) if self.process.is_some() => "killed".into(),
            (Role::Gone, ..) => "gone".into(),
            (Role::Leading(token), true, _) => format!("stopped in term {token}"),
            (_, true, _) => "stopped".into(),
            (Role::Leading(token), _, true) => format!("cut off in term {token}"),
            (_, _, true) => "cut off".into(),
            (Role::Leading(token), ..) => format!("leads, term {token}"),
            (Role::StandingBy | Role::Past, ..) => "stands by".into(),
            (Role::Starting, ..) => "starts".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_it_says() {
        let mut a = Candidate::new('A');
        assert_eq!(a.hear(r#"{"event":"elected","token":1}"#), None, "the dead say nothing");
        a.become_new(Role::Starting);
        assert_eq!(a.hear(r#"{"event":"started","candidate":"h_1_x"}"#), None);
        assert_eq!(a.id, Some(CandidateId::new("h_1_x").unwrap()));
        let leads = r#"{"event":"leader_changed","leader":"h_2_y","token":1}"#;
        assert_eq!(a.hear(leads), Some(What::StandsBy));
        assert_eq!(a.hear(leads), None, "once");
        assert_eq!(a.state(), "stands by");
        let token = FencingToken(2);
        assert_eq!(a.hear(r#"{"event":"elected","token":2}"#), Some(What::Elected(token)));
        assert_eq!(a.state(), "leads, term 2");
        (a.is_cut_off, a.is_stopped) = (true, false);
        assert_eq!(a.state(), "cut off in term 2");
        (a.is_cut_off, a.is_stopped) = (true, true);
        assert_eq!(a.state(), "stopped in term 2");
        let ended = r#"{"event":"term_ended","token":2,"reason":"handed off to h_2_y"}"#;
        assert_eq!(a.hear(ended), Some(What::TermEnded(token, End::HandedOff)));
        assert_eq!((a.role, a.state().as_str()), (Role::Past, "stopped"));
        assert_eq!(a.hear(r#"{"event":"release_failed","message":"m"}"#), None);
        assert_eq!(a.hear("error: no"), Some(What::Says("error: no".into())));
        a.become_new(Role::Gone);
        assert_eq!(a.state(), "gone");
    }
}
