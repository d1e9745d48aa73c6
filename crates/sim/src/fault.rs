//! The names of what goes wrong on purpose: each is counted, and a scenario whose own faults never happen fails.

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
    };
}

faults! {
    /// A request did not arrive.
    REQUEST_LOST = "request lost";
    /// A reply did not arrive.
    REPLY_LOST = "reply lost";
    /// A watch's report did not arrive.
    WATCH_LOST = "watch report lost";
    /// A request was held back.
    LATE = "request held back";
    /// A request arrived twice.
    DUPLICATE = "request twice";
    /// A call failed at once.
    ERROR = "call failed";
    /// A process was paused between stamping a request and sending it.
    PAUSED_BEFORE_SEND = "paused before a send";
    /// A process was paused when a reply was there.
    PAUSED_AT_REPLY = "paused at a reply";
    /// A process was paused between asking for permission and acting.
    PAUSED_BEFORE_ACT = "paused before an act";
    /// A process was paused for longer than its ttl.
    PAUSED_PAST_TTL = "leader paused past its ttl";
    /// A process was paused.
    PAUSED = "paused";
    /// A machine was suspended.
    SUSPENDED = "suspended";
    /// A process was cut off.
    PARTITION = "cut off";
    /// A process vanished.
    CRASH = "crash";
    /// A process was started again.
    RESTART = "restart";
    /// A wall clock was set.
    WALL_STEP = "wall clock stepped";
    /// A clock ran wrong within the allowed drift.
    SLEWED = "clock slewed";
    /// The store's clock jumped.
    STORE_CLOCK_STEP = "store clock stepped";
    /// A guest's clocks stood still.
    CLOCK_STOOD_STILL = "clocks stood still";
    /// The store lost its data.
    DATA_LOST = "store lost its data";
    /// The store went back to older data.
    OLD_STATE = "old state revived";
    /// Another server took over.
    FAILOVER = "failover";
    /// One record was thrown away.
    EVICTED = "record evicted";
    /// An operator freed a lease by hand.
    FORCED = "lease freed by hand";
    /// A leader was told to hand off.
    HANDOFF = "handoff";
    /// The named successor died.
    SUCCESSOR_DIED = "successor died";
    /// A leader was told to resign.
    RESIGN = "resign";
    /// An operator left a request.
    REQUEST = "operator request";
    /// An operator's request named a term that had ended.
    STALE_REQUEST = "stale request";
    /// A request was left for a leader that was dead.
    REQUEST_TO_DEAD = "request to a dead leader";
    /// An operator paused the election.
    ELECTION_PAUSED = "election paused";
    /// An elector was stopped while a bid was under way.
    STOP_IN_BID = "stop during a bid";
    /// A one-shot call was dropped in mid-flight.
    CALL_DROPPED = "call dropped";
    /// A process was cloned.
    CLONED = "process cloned";
    /// Two processes took part under one name.
    SAME_NAME = "one name twice";
    /// Work did not stop when told to.
    STUBBORN_WORK = "work ignored its end";
    /// Work failed at once.
    WORK_FAILED = "work failed";
    /// An answer came after its own lease had ended.
    LATE_WIN = "won after its own end";
    /// The answer to an old term came in a later one.
    STALE_ANSWER = "answer to an old term";
    /// A bid was found out by repeating it.
    FOUND_BY_RETRY = "bid found by repeating it";
    /// A late write of an old term reached a store in a new one.
    LATE_WRITE = "late write into a new term";
    /// A lease had another ttl than its follower.
    OTHER_TTL = "other ttl";
    /// A process was stopped between the read and the write of one change.
    STOPPED_INSIDE = "stopped inside a change";
    /// A record looked older than it was, because two clocks had stamped it.
    LOOKED_OLDER = "record looked older than it was";
    /// A pooler gave the leader's connection to somebody else.
    HANDED_ON = "leader's connection handed on";
    /// A term was won with a majority that shares one machine with the one before.
    OTHER_MAJORITY = "another majority";
    /// A machine of several was out of reach.
    MACHINE_AWAY = "machine out of reach";
    /// Somebody got votes, but no majority.
    VOTES_SPLIT = "votes split";
    /// A server freed the session of a leader that could not hear of it.
    SESSION_FREED = "session freed unheard";
    /// A leader's key was removed while its session lived.
    KEY_REMOVED = "key removed by hand";
    /// A process found a key of its own that nobody asked for.
    GHOST_KEY = "ghost key";
    /// A handoff named somebody who was not next in the queue.
    OUT_OF_ORDER = "successor not next";
    /// A state directory was copied, alone or with its machine.
    STATE_COPIED = "state directory copied";
    /// An identity was asked for that a live process had.
    IDENTITY_IN_USE = "identity in use";
}
