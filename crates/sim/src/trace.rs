//! What happened in a run, in order: all that the invariants get to see.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_core::elector::Timing;
use tenure_core::{Attempt, BidId, FencingToken, Moment, RequestId};
use tenure_testkit::VirtualClock;

/// A simulated process, by the order of its start. Never by its name: that differs between two runs of one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who(pub u16);

impl Who {
    /// The world itself: servers, operators, the weather.
    pub const WORLD: Self = Self(u16::MAX);
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::WORLD { f.write_str("--") } else { write!(f, "c{}", self.0) }
    }
}

/// A call to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A bid.
    Acquire,
    /// A renewal.
    Renew,
    /// A release.
    Release,
    /// A look.
    Read,
    /// A report of a watch.
    Watch,
    /// Something an operator does.
    Operate,
}

/// How a call was answered, as the elector hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// `Acquired`, `Renewed` or `Released`.
    Yes,
    /// `Refused`, `Lost` or `NotHeld`.
    No,
    /// An error.
    Unknown,
}

/// Who may lead, by the server's own judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Somebody holds the lease.
    Held,
    /// Somebody has the place, but no token yet.
    Asked,
    /// Kept for a successor (or for nobody).
    Reserved,
    /// Paused by an operator.
    Paused,
    /// Anybody.
    Free,
}

/// The record in the server, after something changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which server, where there are several.
    pub server: u8,
    /// Who may lead.
    pub state: State,
    /// The highest token.
    pub token: FencingToken,
    /// The holder's bid and its last applied attempt.
    pub holder: Option<(BidId, Attempt)>,
    /// How long the lease still lives; `None` where the server cannot tell, because observers time it.
    pub left: Option<Duration>,
    /// The request that waits.
    pub request: Option<RequestId>,
    /// The request that was answered last.
    pub answered: Option<RequestId>,
}

/// Why a term ended, as the event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The elector was stopped.
    Stopped,
    /// The work ended by itself.
    WorkEnded,
    /// Given up.
    Resigned,
    /// Given to a successor.
    HandedOff(Who),
    /// Taken away.
    Lost,
    /// No answer in time.
    DeadlinePassed,
    /// A callback failed.
    CallbackFailed,
}

/// An event of an elector, without its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The leader changed.
    LeaderChanged,
    /// Nobody is elected now.
    Waiting,
    /// A bid failed.
    BidFailed,
    /// This candidate leads.
    Elected(FencingToken),
    /// A renewal failed.
    RenewFailed(FencingToken),
    /// An operator's request arrived.
    Requested(FencingToken, RequestId),
    /// A clone renewed the lease.
    IdentityShared(FencingToken),
    /// A callback failed.
    CallbackFailed(FencingToken),
    /// Work did not stop in time.
    Overrun(FencingToken),
    /// The lease was lost while the work of the term was being stopped.
    LostWhileDraining(FencingToken),
    /// The term ended.
    TermEnded(FencingToken, Reason),
    /// A release failed.
    ReleaseFailed(FencingToken),
    /// Too many short terms.
    Flapping,
    /// The elector has stopped.
    Stopped,
    /// The listener missed events.
    Missed(u64),
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A process started to take part; `trust` is how long it may lead after a send, `ttl` what it asks for.
    Started {
        /// How long after a send its deadline is: ttl × (1 − drift) − latency − drain.
        trust: Duration,
        /// What it asks for.
        ttl: Duration,
        /// What waking up may cost.
        latency: Duration,
        /// The first process of the same name: itself, unless it is a twin.
        named: Who,
    },
    /// The process is gone for ever.
    Crashed,
    /// Nothing of the process runs for this long.
    Paused(Duration),
    /// A call enters the store's door; the moment is the process's own.
    Sent {
        /// Which call.
        verb: Verb,
        /// For which bid.
        bid: BidId,
        /// Under which nonce.
        attempt: Attempt,
        /// When, on the clocks of the process.
        moment: Moment,
        /// The highest token that the bid says it has seen; for a release and a renewal the term's token.
        token: FencingToken,
    },
    /// A release names a successor, and how long the others have to wait.
    Reserved {
        /// The term that is given away.
        token: FencingToken,
        /// Who is named.
        successor: Who,
        /// How long the others wait.
        window: Duration,
    },
    /// The call's answer reached the process.
    Answered {
        /// Which call.
        verb: Verb,
        /// For which bid.
        bid: BidId,
        /// Under which nonce.
        attempt: Attempt,
        /// What it said.
        outcome: Outcome,
    },
    /// The record in the server has changed.
    Stored(Stored),
    /// A call waited at the server for this long.
    Waited(Verb, Duration),
    /// `on_elected` was called.
    Elected {
        /// The term.
        token: FencingToken,
        /// Until when.
        deadline: Option<Moment>,
    },
    /// The work asked for permission.
    Asked {
        /// The term.
        token: FencingToken,
        /// The answer.
        answer: bool,
        /// Until when.
        deadline: Option<Moment>,
    },
    /// This process would be told that it leads, if it asked now; written down when another one is elected.
    Valid(FencingToken),
    /// The work acted.
    Acted {
        /// The term.
        token: FencingToken,
        /// The process was paused between the question and the act.
        overtaken: bool,
        /// The term had ended before; the work was stopping.
        draining: bool,
        /// The fence let the write in.
        accepted: bool,
    },
    /// The work of a term (or a part of it) has ended.
    WorkEnded(FencingToken),
    /// `on_term_end` was called.
    EndCalled,
    /// `on_term_end` is over.
    EndOver,
    /// The elector published an event.
    Told(u64, Told),
    /// The elector was told to stop.
    Stopping,
    /// An operator left a request for a term.
    Requested(FencingToken, RequestId),
    /// The process was told to resign or to hand off.
    Commanded(FencingToken),
    /// Something went wrong on purpose.
    Fault(&'static str),
    /// A scenario's own statement did not hold.
    Unexpected(&'static str),
    /// From here on nothing goes wrong any more.
    Calm,
    /// The process was told that it leads, in the calm.
    Leads,
    /// The run is over.
    End,
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// True time since the start of the run.
    pub at: Duration,
    /// Whose it is.
    pub who: Who,
    /// What happened.
    pub what: What,
}

/// What the store of a scenario promises, and so what its invariants demand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promises {
    /// Never two leaders by true time.
    pub exclusion: bool,
    /// Tokens rise.
    pub tokens: bool,
    /// Where exclusion is not promised: the longest overlap, in ttls.
    pub overlap_ttls: f64,
    /// The longest that a message is under way.
    pub longest_call: Duration,
    /// The longest ttl of all candidates.
    pub ttl: Duration,
}

/// A finished trace and what was promised.
#[derive(Clone, Debug)]
pub struct Trace {
    /// What happened.
    pub entries: Vec<Entry>,
    /// What the store promised.
    pub promises: Promises,
}

/// A trace being written.
#[derive(Clone)]
pub struct Recording {
    time: VirtualClock,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Recording {
    /// Begins a trace on the true time of `time`.
    #[must_use]
    pub fn new(time: VirtualClock) -> Self {
        Self { time, entries: Arc::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line.
    pub fn add(&self, who: Who, what: What) {
        let at = self.time.true_now();
        self.entries().push(Entry { at, who, what });
    }

    /// Takes what was written.
    #[must_use]
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.entries())
    }
}

impl Trace {
    /// Counts what the run is made of: faults by name, terms, takeovers.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        let mut leader = None;
        for entry in &self.entries {
            match &entry.what {
                What::Fault(name) => *counts.entry(*name).or_default() += 1,
                What::Elected { .. } => {
                    *counts.entry("term").or_default() += 1;
                    if leader.is_some_and(|leader| leader != entry.who) {
                        *counts.entry("takeover").or_default() += 1;
                    }
                    leader = Some(entry.who);
                }
                What::Told(_, Told::Overrun(_)) => *counts.entry("overrun").or_default() += 1,
                What::Told(_, Told::Flapping) => *counts.entry("flapping").or_default() += 1,
                What::Told(_, Told::IdentityShared(_)) => {
                    *counts.entry("clone noticed").or_default() += 1;
                }
                What::Answered { verb: Verb::Acquire, outcome: Outcome::No, .. } => {
                    *counts.entry("bid refused").or_default() += 1;
                }
                What::Acted { accepted: false, .. } => *counts.entry("write fenced off").or_default() += 1,
                _ => {}
            }
        }
        counts
    }

    /// Sums the trace up in a number: equal for equal traces.
    #[must_use]
    pub fn digest(&self) -> u64 {
        /// FNV-1a over what is printed, so that nothing has to be hashed by hand.
        struct Fnv(u64);
        impl fmt::Write for Fnv {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for byte in text.bytes() {
                    self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
                Ok(())
            }
        }
        let mut fnv = Fnv(0xcbf2_9ce4_8422_2325);
        // Writing into a number cannot fail.
        let _ = fmt::write(&mut fnv, format_args!("{self}"));
        fnv.0
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { at, who, what } in &self.entries {
            writeln!(f, "{:>11.6}  {who:<3} {what}", at.as_secs_f64())?;
        }
        Ok(())
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent { verb, bid, attempt, moment, token } => {
                let (boot, raw) = (moment.boot().as_secs_f64(), moment.raw().as_secs_f64());
                write!(f, "sent {verb:?} bid {bid:?} attempt {attempt:?} {token:?} boot {boot} raw {raw}")
            }
            Self::Answered { verb, bid, attempt, outcome } => {
                write!(f, "answered {verb:?} bid {bid:?} attempt {attempt:?}: {outcome:?}")
            }
            Self::Stored(stored) => write!(f, "{stored}"),
            Self::Elected { token, deadline } => write!(f, "ELECTED {token:?} until {}", Until(*deadline)),
            Self::Asked { token, answer, deadline } => {
                write!(f, "asked {token:?}: {answer} until {}", Until(*deadline))
            }
            Self::Fault(name) => write!(f, "FAULT {name}"),
            Self::Unexpected(what) => write!(f, "UNEXPECTED {what}"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stored[{}] {:?} {:?}", self.server, self.state, self.token)?;
        if let Some((bid, attempt)) = self.holder {
            write!(f, " bid {bid:?} attempt {attempt:?} left {:?}", self.left)?;
        }
        if let Some(request) = self.request {
            write!(f, " request {request:?}")?;
        }
        if let Some(answered) = self.answered {
            write!(f, " answered {answered:?}")?;
        }
        Ok(())
    }
}

struct Until(Option<Moment>);

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(moment) => {
                write!(f, "boot {} raw {}", moment.boot().as_secs_f64(), moment.raw().as_secs_f64())
            }
            None => f.write_str("never"),
        }
    }
}

/// How long after a send the deadline of a candidate with this timing is.
#[must_use]
pub fn trust(timing: &Timing) -> Duration {
    let zero = Moment::new(timing.ttl, timing.ttl);
    timing.deadline(zero, timing.ttl).boot().saturating_sub(zero.boot())
}
