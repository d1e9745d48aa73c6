//! What the processes tell each other.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tenure::clock::Moment;

use super::alarm::moment;
use crate::args::Isolate;

/// From the wrapper down to the guardian.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum ToGuardian {
    /// The first message; brings the life file and the terminal along.
    Hello(Hello),
    /// Starts the command.
    Start {
        term: u64,
        env: Vec<(String, String)>,
        #[serde(with = "moment")]
        deadline: Moment,
        #[serde(with = "moment")]
        must_stop: Moment,
        record: Option<serde_json::Value>,
    },
    /// Moves deadline and must-stop; answered by `Acknowledged`.
    Extend {
        term: u64,
        #[serde(with = "moment")]
        deadline: Moment,
        #[serde(with = "moment")]
        must_stop: Moment,
    },
    /// SIGTERM now, SIGKILL at `kill_at`.
    Stop {
        #[serde(with = "moment")]
        kill_at: Moment,
    },
    /// SIGKILL now.
    Kill,
    /// Passes a signal on to the command's process group.
    Signal { signal: i32 },
    /// The wrapper has recorded the successful end of the command.
    Recorded,
}

#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Hello {
    #[serde(with = "IsolateForm")]
    pub(super) isolate: Isolate,
    pub(super) life: bool,
    /// The wrapper's process group, if the command gets the terminal.
    pub(super) terminal_home: Option<i32>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Isolate")]
enum IsolateForm {
    Auto,
    On,
    Off,
}

/// From the guardian up to the wrapper.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum FromGuardian {
    /// Everything is in place, a keeper included.
    Ready {
        isolation: String,
        cgroup: Option<PathBuf>,
    },
    /// It cannot be had; the guardian exits.
    Failed {
        reason: String,
    },
    /// An extension has arrived. Whether it was heeded does not matter to the wrapper: after the deadline it was not.
    Acknowledged,
    Started {
        pid: i32,
    },
    /// The terminal stopped the command.
    Stopped {
        signal: i32,
    },
    /// The command itself has ended; `stopped` if it was being stopped before.
    Ended {
        ending: Ending,
        stopped: bool,
    },
    /// A sign of life while it kills.
    Killing,
    Unkillable {
        left: Vec<Survivor>,
    },
    /// Everything below the guardian is reaped.
    Gone,
}

/// From the guardian down to the keeper.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum ToKeeper {
    /// The first message; brings the life file and the terminal along.
    Hello(KeeperHello),
    Start {
        env: Vec<(String, String)>,
        #[serde(with = "moment")]
        deadline: Moment,
        #[serde(with = "moment")]
        must_stop: Moment,
    },
    Extend {
        #[serde(with = "moment")]
        must_stop: Moment,
    },
    Signal {
        signal: i32,
    },
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct KeeperHello {
    /// Whether the command gets a PID namespace of its own.
    pub(super) namespace: bool,
    pub(super) life: bool,
    pub(super) terminal_home: Option<i32>,
    pub(super) surroundings: Surroundings,
}

/// From the keeper to the init of its namespace.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum ToInit {
    /// The first message; brings the terminal along.
    Furnish {
        in_user_namespace: bool,
        surroundings: Surroundings,
    },
    Start {
        env: Vec<(String, String)>,
        #[serde(with = "moment")]
        deadline: Moment,
        /// Whether the command becomes the terminal's foreground group.
        foreground: bool,
    },
    Signal {
        signal: i32,
        foreground: bool,
    },
}

/// What the stub restores, and where it goes.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct Surroundings {
    pub(super) cgroup: Option<PathBuf>,
    /// As the wrapper had it.
    pub(super) oom_score: Option<i32>,
    /// The signals that the wrapper had blocked.
    pub(super) blocked: Vec<i32>,
}

/// From the keeper up to the guardian, and from the init to the keeper. That all is gone is said by the exit.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum FromKeeper {
    Ready {
        isolation: String,
    },
    Failed {
        reason: String,
    },
    /// The init does not know which number its keeper sees, and says none.
    Started {
        pid: Option<i32>,
    },
    Stopped {
        signal: i32,
    },
    Ended(Ending),
}

/// To the stub.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum ToStub {
    /// The first message; brings the terminal along. Everything that takes time is done before it matters.
    Prepare {
        /// The one that must be the stub's parent.
        parent: i32,
        surroundings: Surroundings,
    },
    /// Becomes the command.
    Go {
        env: Vec<(String, String)>,
        #[serde(with = "moment")]
        deadline: Moment,
        /// Whether it becomes the foreground group of the terminal.
        foreground: bool,
    },
}

/// From the stub. That it has become the command is said by the end of file.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum FromStub {
    Ready,
    Failed(Ending),
}

/// How the command ended.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Code(i32),
    Signal(i32),
    /// The deadline had passed before the command could be started.
    Late,
    NotFound {
        reason: String,
    },
    NotExecutable {
        reason: String,
    },
    /// It could not be started for a reason of the machine's, such as no more processes.
    NotStarted {
        reason: String,
    },
}

/// A process that SIGKILL does not end.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Survivor {
    pub(crate) pid: i32,
    pub(crate) name: String,
}
