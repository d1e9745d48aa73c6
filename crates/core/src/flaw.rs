//! Known mistakes that the simulator can switch on, to show that it would find them. For the simulator only.
//!
//! Without the cargo feature `flaws` the question whether one is active is a constant `false`: shipped builds contain
//! nothing of it. With the feature a flaw is active in the thread that asked for it, for as long as its guard lives.

/// A mistake that others have made, or that a careless change would make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "flaws"), allow(unreachable_pub))] // Public with the feature only.
pub enum Flaw {
    /// The deadline counts from the answer instead of the send.
    ReplyAnchoredDeadline,
    /// A bid that was found out by a repetition counts from the repetition.
    RetryAnchoredDeadline,
    /// Permission is a flag that the loop takes down, not a comparison of clocks.
    FlagInsteadOfClock,
    /// A late renewal brings back a permission that was seen to have ended.
    PermissionWithoutLatch,
    /// The lease is given back before the work has stopped.
    ReleaseBeforeDrain,
    /// A bid that was answered after its own deadline is led on as if it were fresh.
    LateAcquireLedOn,
    /// A candidate that finds its own name in a record takes that lease for its own again.
    GhostLed,
    /// Of two events that meet in the queue only the second is kept.
    MergedEvents,
    /// A token at or below one that was seen is led.
    OldTokenLed,
    /// Work goes on for the drain time although the lease is known to be lost.
    LostGivenGrace,
    /// A candidate stands again beside work that overran.
    StandsBesideOverrun,
    /// The campaign ends with the first error of the store.
    GivesUpOnError,
    /// Stopping forgets about bids that are under way.
    StopForgetsBids,
    /// The answer to an earlier attempt of the bid that is led is taken for a lease that nobody waits for.
    LateAnswerReleases,
    /// Attempts get ever shorter towards the deadline and stay so after it.
    RenewalStorm,
    /// An observer times a record from the send of its read.
    ObserverAnchoredAtSend,
    /// A renewal writes the same bytes again, without a mark of its own.
    SameBytesTwice,
    /// A lease under one's own identity is taken for one's own, without proof that its process is gone.
    IdentityWithoutProof,
}

#[cfg(feature = "flaws")]
mod active {
    use std::cell::Cell;

    use super::Flaw;

    thread_local! {
        static ACTIVE: Cell<Option<Flaw>> = const { Cell::new(None) };
    }

    /// Keeps a flaw switched on in this thread.
    #[derive(Debug)]
    pub struct Active(());

    impl Active {
        /// Switches `flaw` on in this thread, in place of any other.
        #[must_use]
        pub fn new(flaw: Option<Flaw>) -> Self {
            ACTIVE.set(flaw);
            Self(())
        }
    }

    impl Drop for Active {
        fn drop(&mut self) {
            ACTIVE.set(None);
        }
    }

    pub(crate) fn flawed(flaw: Flaw) -> bool {
        ACTIVE.get() == Some(flaw)
    }
}

#[cfg(feature = "flaws")]
pub use active::Active;
#[cfg(feature = "flaws")]
pub(crate) use active::flawed;

#[cfg(not(feature = "flaws"))]
#[inline(always)]
pub(crate) const fn flawed(_flaw: Flaw) -> bool {
    false
}
