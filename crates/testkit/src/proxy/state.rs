//! What a proxy knows and decides. No I/O here: every decision is one step under one lock.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use super::{Direction, Fault, Protocol, Requests, Then};

/// How many requests of a connection are remembered, and how much of each.
const REMEMBERED: usize = 256;
const REMEMBERED_BYTES: usize = 256;

/// What a proxy has seen and done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were accepted to serve them.
    pub connections: u64,
    /// Connections that were accepted only to be reset.
    pub turned_away: u64,
    /// Connections that were reset later.
    pub cut: u64,
    /// Requests that arrived from candidates.
    pub requests: u64,
    /// Requests that never reached the server.
    pub requests_lost: u64,
    /// Requests that were held back, delivered later or not.
    pub requests_held: u64,
    /// Requests that were delivered late.
    pub requests_delivered: u64,
    /// Answers, and other things that the server said.
    pub replies: u64,
    /// Answers and other things that never reached whom they were for.
    pub replies_lost: u64,
}

impl Counts {
    /// Counts requests, answers and connections that met trouble.
    #[must_use]
    pub fn troubled(&self) -> u64 {
        self.turned_away + self.cut + self.requests_lost + self.requests_held + self.replies_lost
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            connections: self.connections + other.connections,
            turned_away: self.turned_away + other.turned_away,
            cut: self.cut + other.cut,
            requests: self.requests + other.requests,
            requests_lost: self.requests_lost + other.requests_lost,
            requests_held: self.requests_held + other.requests_held,
            requests_delivered: self.requests_delivered + other.requests_delivered,
            replies: self.replies + other.replies,
            replies_lost: self.replies_lost + other.replies_lost,
        }
    }
}

/// Who is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Door {
    #[default]
    Open,
    /// Nobody listens.
    Shut,
    /// Whoever comes is reset.
    TurningAway,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) door: Door,
    /// What the listener has come to; a command waits for that.
    pub(super) door_in_force: Door,
    pub(super) closing: bool,
    pub(super) counts: Counts,
    pub(super) links: BTreeMap<u64, Link>,
    all: Troubles,
    last: u64,
}

/// The faults of one connection, or of all.
#[derive(Default)]
struct Troubles {
    delays: [Duration; 2],
    silent: [bool; 2],
    black_hole: bool,
    rules: Vec<Rule>,
}

struct Rule {
    requests: Requests,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    LoseRequest(Then),
    LoseAnswer(Then),
    HoldBack,
}

/// A connection: its front to the candidate, its back to the server.
pub(super) struct Link {
    pub(super) peer: SocketAddr,
    /// Whether the candidate still has its side.
    pub(super) front_open: bool,
    /// Its front is to be reset.
    pub(super) cut: bool,
    /// The last requests, cut short.
    pub(super) sent: VecDeque<Vec<u8>>,
    pub(super) requests: u64,
    /// In order of arrival; not empty means that all that follows is held back, too.
    pub(super) held: VecDeque<Vec<u8>>,
    pub(super) deliver: bool,
    /// The number of the last answer to what was delivered late.
    late: u64,
    /// The candidate says nothing more.
    left: bool,
    /// The server has gone, and the candidate is not to know.
    server_gone: bool,
    own: Troubles,
    /// Directions in which something is missing from the middle: nothing may follow.
    dead: [bool; 2],
    /// Dead for ever: not even the end of all faults cuts it.
    stranded: bool,
    asked: u64,
    answered: u64,
    /// The numbers of answers that are not to come back.
    doomed: VecDeque<(u64, Then)>,
}

/// What to do with a request or a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Pass,
    Swallow,
}

impl State {
    /// Lets a connection in, unless the door is not open.
    pub(super) fn open(&mut self, peer: SocketAddr) -> Option<u64> {
        if self.door != Door::Open {
            self.counts.turned_away += 1;
            return None;
        }
        self.last += 1;
        self.counts.connections += 1;
        self.links.insert(self.last, Link::new(peer));
        Some(self.last)
    }

    /// Adds a fault of one connection, or of all.
    pub(super) fn inject(&mut self, scope: Option<u64>, fault: Fault) {
        let troubles = match scope {
            None => &mut self.all,
            Some(id) => match self.links.get_mut(&id) {
                Some(link) => &mut link.own,
                None => return,
            },
        };
        let (requests, what) = match fault {
            Fault::Delay(direction, by) => return troubles.delays[direction as usize] = by,
            Fault::Silence(direction) => return troubles.silent[direction as usize] = true,
            Fault::BlackHole => return troubles.black_hole = true,
            Fault::LoseRequests(requests, then) => (requests, What::LoseRequest(then)),
            Fault::LoseAnswers(requests, then) => (requests, What::LoseAnswer(then)),
            Fault::HoldBack(requests) => (requests, What::HoldBack),
        };
        troubles.rules.push(Rule { requests, what });
    }

    /// Ends the faults of one connection, or of all, and tells which connections must be cut, since something is missing
    /// from their middle.
    pub(super) fn clear(&mut self, scope: Option<u64>) -> Vec<u64> {
        if scope.is_none() {
            self.all = Troubles::default();
            self.door = Door::Open;
        }
        let mut broken = Vec::new();
        for (&id, link) in self.links.iter_mut().filter(|(id, _)| scope.is_none_or(|scope| scope == **id)) {
            link.own = Troubles::default();
            if !link.stranded && (link.dead != [false; 2] || !link.held.is_empty()) {
                broken.push(id);
            }
        }
        broken
    }

    /// Marks connections as to be cut. Returns those that are there.
    pub(super) fn cut(&mut self, wanted: impl Fn(u64) -> bool) -> Vec<u64> {
        let mut cut = Vec::new();
        for (&id, link) in self.links.iter_mut().filter(|(id, link)| wanted(**id) && link.front_open) {
            self.counts.cut += u64::from(!link.cut);
            link.cut = true;
            cut.push(id);
        }
        cut
    }

    /// Lets no present connection have anything any more.
    pub(super) fn strand(&mut self) {
        for link in self.links.values_mut() {
            link.dead = [true; 2];
            link.stranded = true;
        }
    }

    /// Tells whether a new connection is not to reach the server; then it never will.
    pub(super) fn falls_into_black_hole(&mut self, id: u64) -> bool {
        let Some(link) = self.links.get_mut(&id).filter(|_| self.all.black_hole) else { return false };
        link.dead = [true; 2];
        true
    }

    /// Takes note that the candidate says nothing more. Tells whether the server is not to know.
    pub(super) fn hides_end_of_requests(&mut self, id: u64) -> bool {
        let silent = self.is_silent(id, Direction::ToServer);
        let Some(link) = self.links.get_mut(&id) else { return true };
        link.left = true;
        silent || !link.held.is_empty()
    }

    /// Tells whether nobody listens to the server any more.
    pub(super) fn has_left(&self, id: u64) -> bool {
        self.links.get(&id).is_none_or(|link| link.left)
    }

    /// Tells whether the candidate is not to know that the server is gone; then nothing can come any more.
    pub(super) fn hides_end_of_replies(&mut self, id: u64) -> bool {
        let silent = self.is_silent(id, Direction::FromServer);
        if let Some(link) = self.links.get_mut(&id).filter(|_| silent) {
            link.dead[Direction::FromServer as usize] = true;
            link.server_gone = true;
        }
        silent
    }

    /// Takes note that the candidate's side is closed. Tells whether something is, or was, to be delivered late.
    pub(super) fn leave(&mut self, id: u64) -> bool {
        let Some(link) = self.links.get_mut(&id) else { return false };
        link.front_open = false;
        !link.held.is_empty() || !link.is_delivered()
    }

    /// Tells whether nothing is left to be delivered late.
    pub(super) fn is_all_delivered(&self, id: u64) -> bool {
        self.links.get(&id).is_none_or(|link| link.held.is_empty() && link.is_delivered())
    }

    /// Tells how long what arrives now is on its way.
    pub(super) fn delay(&self, id: u64, direction: Direction) -> Duration {
        let own = self.links.get(&id).map(|link| link.own.delays[direction as usize]);
        own.unwrap_or_default().max(self.all.delays[direction as usize])
    }

    /// Takes note of a request that has arrived, whatever becomes of it.
    pub(super) fn arrived(&mut self, id: u64, request: &[u8]) {
        self.counts.requests += 1;
        let Some(link) = self.links.get_mut(&id) else { return };
        link.requests += 1;
        link.sent.push_back(request[..request.len().min(REMEMBERED_BYTES)].to_vec());
        if link.sent.len() > REMEMBERED {
            link.sent.pop_front();
        }
    }

    /// Decides about a request. Nothing else happens between the decision and the count of the answer that it gets.
    pub(super) fn request(&mut self, id: u64, request: &[u8], protocol: &dyn Protocol) -> Decision {
        let silent = self.is_silent(id, Direction::ToServer);
        let Some(link) = self.links.get_mut(&id) else { return Decision::Swallow };
        if silent {
            link.dead[Direction::ToServer as usize] = true;
            self.counts.requests_lost += 1;
            return Decision::Swallow;
        }
        if !link.held.is_empty() {
            return self.hold(id, request);
        }
        let mut rules = link.own.rules.iter_mut().chain(&mut self.all.rules);
        let what = rules.find_map(|rule| rule.requests.take(request).then_some(rule.what));
        match what {
            Some(What::HoldBack) => return self.hold(id, request),
            Some(What::LoseRequest(then)) => {
                link.dead[Direction::ToServer as usize] = true;
                self.counts.requests_lost += 1;
                self.end_by(id, then);
                return Decision::Swallow;
            }
            Some(What::LoseAnswer(then)) => {
                link.expect(protocol.answers(request));
                link.doomed.push_back((link.asked, then));
            }
            None => link.expect(protocol.answers(request)),
        }
        Decision::Pass
    }

    fn hold(&mut self, id: u64, request: &[u8]) -> Decision {
        if let Some(link) = self.links.get_mut(&id) {
            link.held.push_back(request.to_vec());
            self.counts.requests_held += 1;
        }
        Decision::Swallow
    }

    /// Takes what was held back on a connection, if it is to be delivered now.
    pub(super) fn delivery(&mut self, id: u64, protocol: &dyn Protocol) -> Vec<Vec<u8>> {
        let Some(link) = self.links.get_mut(&id).filter(|link| link.deliver) else { return Vec::new() };
        link.deliver = false;
        let held: Vec<_> = link.held.drain(..).collect();
        for request in &held {
            link.expect(protocol.answers(request));
        }
        link.late = link.asked;
        self.counts.requests_delivered += held.len() as u64;
        held
    }

    /// Decides about what the server said.
    pub(super) fn reply(&mut self, id: u64, reply: &[u8], protocol: &dyn Protocol) -> Decision {
        self.counts.replies += 1;
        let silent = self.is_silent(id, Direction::FromServer);
        let Some(link) = self.links.get_mut(&id) else { return Decision::Swallow };
        let mut doomed = None;
        if protocol.is_answer(reply) {
            link.answered += 1;
            if link.doomed.front().is_some_and(|(number, _)| *number <= link.answered) {
                doomed = link.doomed.pop_front();
            }
        }
        if !silent && doomed.is_none() && link.front_open {
            return Decision::Pass;
        }
        link.dead[Direction::FromServer as usize] = true;
        self.counts.replies_lost += 1;
        if let Some((_, then)) = doomed {
            self.end_by(id, then);
        }
        Decision::Swallow
    }

    fn end_by(&mut self, id: u64, then: Then) {
        if then == Then::Cut {
            self.cut(|other| other == id);
        }
    }

    /// Tells whether nothing passes in a direction, now or for ever.
    fn is_silent(&self, id: u64, direction: Direction) -> bool {
        let of = |troubles: &Troubles| troubles.black_hole || troubles.silent[direction as usize];
        let link = self.links.get(&id);
        of(&self.all) || link.is_some_and(|link| of(&link.own) || link.dead[direction as usize])
    }
}

impl Link {
    fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            front_open: true,
            cut: false,
            sent: VecDeque::new(),
            requests: 0,
            held: VecDeque::new(),
            deliver: false,
            late: 0,
            left: false,
            server_gone: false,
            own: Troubles::default(),
            dead: [false; 2],
            stranded: false,
            asked: 0,
            answered: 0,
            doomed: VecDeque::new(),
        }
    }

    /// Counts the answers that a request gets. Where nobody can tell, the next thing that comes is the answer.
    fn expect(&mut self, answers: Option<u64>) {
        self.asked = match answers {
            Some(answers) => self.asked + answers,
            None => self.answered + 1,
        };
    }

    /// Tells whether the server has dealt with what was to be delivered late so far.
    pub(super) fn is_delivered(&self) -> bool {
        self.server_gone || !self.deliver && self.answered >= self.late
    }
}
