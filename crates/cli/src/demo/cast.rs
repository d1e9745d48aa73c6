//! The three candidates together: what can be done to them, and what they say.

use std::io;
use std::time::Duration;

use rustix::process::Signal;
use tenure::store::{Action, ControlRequest, LeaseStore, Requested};
use tenure::{Attempt, ClockExt, ElectionName, FencingToken, Random, RequestId, SystemClock};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::candidate::{Candidate, Role};
use super::event::{Happened, What};
use super::place::Place;
use super::process::{Heard, Process};
use crate::talk;

/// What they contest.
pub(super) const ELECTION: &str = "demo";

pub(super) const SEATS: usize = 3;

/// How long the store, a directory of this machine, may take to answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the end waits for processes that were killed.
const LAST_WAIT: Duration = Duration::from_secs(10);

pub(super) struct Cast {
    // Before the place that they use: the first go first.
    candidates: [Candidate; SEATS],
    place: Place,
    ttl: Duration,
    random: Random,
    ears: UnboundedSender<(usize, Heard)>,
    heard: UnboundedReceiver<(usize, Heard)>,
}

/// Done, or why not.
pub(super) type Done = Result<Happened, String>;

impl Cast {
    pub(super) fn new(place: Place, ttl: Duration) -> Self {
        let (ears, heard) = mpsc::unbounded_channel();
        let candidates = ['A', 'B', 'C'].map(Candidate::new);
        Self { candidates, place, ttl, random: Random::from_os(), ears, heard }
    }

    pub(super) fn candidates(&self) -> &[Candidate; SEATS] {
        &self.candidates
    }

    pub(super) fn letter(&self, seat: usize) -> char {
        self.candidates[seat].letter
    }

    /// Lets two candidates change their names.
    pub(super) fn swap_letters(&mut self, one: usize, other: usize) {
        let (a, b) = (self.letter(one), self.letter(other));
        (self.candidates[one].letter, self.candidates[other].letter) = (b, a);
    }

    /// Returns who leads, or still holds the lease, in which term.
    pub(super) fn leader(&self) -> Option<(usize, FencingToken)> {
        self.candidates.iter().enumerate().find_map(|(seat, candidate)| match candidate.role {
            Role::Leading(token) => Some((seat, token)),
            _ => None,
        })
    }

    pub(super) fn start(&mut self, seat: usize) -> Done {
        let letter = self.letter(seat);
        if self.candidates[seat].is_there() {
            return Err(format!("{letter} is there already."));
        }
        if self.candidates[seat].process.is_some() {
            return Err(format!("{letter} is not gone yet."));
        }
        let started = self.place.connect(seat).and_then(|()| {
            let (way, folder) = (self.place.way(seat), self.place.folder());
            Process::start(seat, &way, folder, self.ttl, self.ears.clone())
        });
        let process = started.map_err(|error| format!("{letter} cannot be started: {error}"))?;
        self.candidates[seat].become_new(Role::Starting);
        self.candidates[seat].process = Some(process);
        Ok(Happened { seat, what: What::Started })
    }

    pub(super) fn kill(&mut self, seat: usize) -> Done {
        self.signal(seat, Signal::KILL)?;
        self.candidates[seat].become_new(Role::Gone);
        Ok(Happened { seat, what: What::Killed })
    }

    pub(super) fn stop(&mut self, seat: usize) -> Done {
        let candidate = &self.candidates[seat];
        // Until it speaks it may not be tied to us yet: stopped now, it would outlive us.
        if candidate.is_there() && candidate.id.is_none() {
            return Err(format!("{} has not begun yet.", candidate.letter));
        }
        self.signal(seat, Signal::STOP)?;
        self.candidates[seat].is_stopped = true;
        Ok(Happened { seat, what: What::Stopped })
    }

    pub(super) fn continue_(&mut self, seat: usize) -> Done {
        self.signal(seat, Signal::CONT)?;
        self.candidates[seat].is_stopped = false;
        Ok(Happened { seat, what: What::Continued })
    }

    /// Tells it to stop its command, to give the lease back and to end.
    pub(super) fn tell_to_end(&mut self, seat: usize) -> Done {
        self.signal(seat, Signal::TERM)?;
        Ok(Happened { seat, what: What::Told })
    }

    pub(super) fn cut_off(&mut self, seat: usize) -> Done {
        self.lead(seat, Place::cut_off)?;
        self.candidates[seat].is_cut_off = true;
        Ok(Happened { seat, what: What::CutOff })
    }

    pub(super) fn connect(&mut self, seat: usize) -> Done {
        self.lead(seat, Place::connect)?;
        self.candidates[seat].is_cut_off = false;
        Ok(Happened { seat, what: What::Connected })
    }

    fn lead(&self, seat: usize, change: impl Fn(&Place, usize) -> io::Result<()>) -> Result<(), String> {
        let letter = self.letter(seat);
        if !self.candidates[seat].is_there() {
            return Err(format!("{letter} is gone."));
        }
        change(&self.place, seat).map_err(|error| format!("the way of {letter} cannot be changed: {error}"))
    }

    fn signal(&self, seat: usize, signal: Signal) -> Result<(), String> {
        let candidate = &self.candidates[seat];
        let process = candidate.process.as_ref().filter(|_| candidate.is_there());
        process.ok_or_else(|| format!("{} is gone.", candidate.letter))?.signal(signal);
        Ok(())
    }

    /// Asks the leader to hand off to the candidate of a seat, as an operator does: through the store.
    pub(super) async fn hand_off(&self, to: usize) -> Done {
        let (leader, token) = self.leader().ok_or("Nobody leads: there is nothing to hand off.")?;
        let successor = &self.candidates[to];
        if leader == to {
            return Err(format!("{} leads already: choose who shall lead next.", successor.letter));
        }
        let id = successor.id.clone().ok_or_else(|| format!("{} is not there.", successor.letter))?;
        let request = ControlRequest {
            id: RequestId::new(&self.random),
            token,
            by: "tenure demo".into(),
            action: Action::HandOff { to: id },
            // What has not been done until then was asked of one who could not hear it.
            expires_in: self.ttl,
        };
        match self.request(request).await? {
            Requested::Accepted(_) => Ok(Happened { seat: leader, what: What::Asked(to) }),
            Requested::NoHolder => Err("Nobody leads: there is nothing to hand off.".into()),
            Requested::WrongTerm(token) => Err(format!("Term {token} has begun meanwhile.")),
            Requested::Busy(_) => Err(format!("{} has been asked already.", self.letter(leader))),
        }
    }

    async fn request(&self, request: ControlRequest) -> Result<Requested, String> {
        let election = ElectionName::new(ELECTION).map_err(|error| talk::chain(&error))?;
        let operator = self.place.store.operator().ok_or("The store carries no requests.")?;
        tokio::select! {
            biased;
            answer = operator.request(&election, Attempt::new(&self.random), request) => {
                answer.map_err(|error| talk::chain(&error))
            }
            () = SystemClock.sleep(CALL_TIMEOUT) => Err("The store gives no answer.".into()),
        }
    }

    /// Waits until something happens. Nothing is lost if this is dropped.
    pub(super) async fn next(&mut self) -> Happened {
        loop {
            // There is always one who could still speak: we ourselves.
            let Some((seat, heard)) = self.heard.recv().await else { std::future::pending().await };
            if let Some(what) = self.take_in(seat, &heard) {
                return Happened { seat, what };
            }
        }
    }

    fn take_in(&mut self, seat: usize, heard: &Heard) -> Option<What> {
        let candidate = &mut self.candidates[seat];
        let what = match heard {
            Heard::Line(line) => candidate.hear(line)?,
            Heard::End => {
                let code = candidate.process.take()?.reap();
                let unexpected = candidate.is_there();
                candidate.become_new(Role::Gone);
                unexpected.then_some(What::Ended(code))?
            }
        };
        if let What::Elected(_) = what {
            // One that is stopped does not know it yet.
            let others = self.candidates.iter_mut().enumerate().filter(|(other, _)| *other != seat);
            for (_, other) in others.filter(|(_, other)| matches!(other.role, Role::Leading(_))) {
                other.role = Role::Past;
            }
        }
        Some(match what {
            What::Says(text) => What::Says(self.in_letters(text)),
            what => what,
        })
    }

    /// Calls candidates by their letters.
    fn in_letters(&self, text: String) -> String {
        self.candidates.iter().fold(text, |text, candidate| match &candidate.id {
            Some(id) => text.replace(id.as_str(), &candidate.letter.to_string()),
            None => text,
        })
    }

    /// Kills everybody, and waits until they and all that they started are gone.
    pub(super) async fn end(&mut self) {
        for candidate in &self.candidates {
            candidate.process.iter().for_each(|process| process.signal(Signal::KILL));
        }
        let mut limit = SystemClock.sleep(LAST_WAIT);
        while self.candidates.iter().any(|candidate| candidate.process.is_some()) {
            tokio::select! {
                biased;
                Some((seat, heard)) = self.heard.recv() => {
                    self.take_in(seat, &heard);
                }
                () = &mut limit => return,
            }
        }
    }
}
