//! Mistakes of stores and of resources, made on purpose.

/// How a store can be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A conditional write does not look at its condition.
    IgnoresCondition,
    /// A release deletes the record, and the last token with it.
    ForgetsTokens,
    /// A bid's floor is not looked at, and the server's time neither.
    IgnoresFloor,
    /// A renewal is granted to whoever names bid and token.
    IgnoresNonce,
    /// An operator's request makes the lease young again.
    RequestRenews,
    /// A lease is judged by the ttl of whoever asks.
    OwnTtlForTheirs,
    /// A reservation keeps nobody out.
    IgnoresReservation,
    /// A reservation lasts for ever.
    ReservesForEver,
    /// A bid whose term has ended is granted again.
    GrantsSpentBids,
    /// A bid is answered before it is written, and the write is lost at times.
    AnswersBeforeCommit,
    /// A request is handed to whatever term rules.
    RequestToAnyTerm,
    /// A caller holds a lock that all others need, from its request until it has read the answer.
    LocksOutside,
    /// Two copies of one process draw the same nonces.
    ClonesDrawAlike,
    /// The resource lets every write in.
    NoFence,
    /// An age is the difference of two stamps, whatever clocks they are from.
    TrustsTwoClocks,
    /// Whoever comes over the connection that has the lock has the lock.
    LockOfConnection,
    /// Each machine draws a token of its own, and the highest one counts.
    TokenOfEachMachine,
    /// Half of the machines is taken for a majority.
    HalfIsEnough,
    /// Votes of a bid that has lost are kept.
    KeepsLostVotes,
    /// A lease counts as renewed while nobody has said that its session is gone.
    TrustsOpenSession,
    /// A lease counts as renewed while its session lives.
    RenewIsKeepAlive,
    /// Keys without a campaign are left in the queue.
    LeavesGhosts,
    /// A named successor leads although others are before it in the queue.
    JumpsTheQueue,
}
