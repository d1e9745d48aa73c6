//! Tenure's contract, elector and embedded stores.

pub mod clock;
pub mod embedded;
pub mod fence;
pub mod name;
pub mod random;
pub mod store;
pub mod token;

pub use clock::{Clock, ManualClock, Moment, Sleep, SystemClock};
pub use name::{Attempt, BidId, CandidateId, ElectionName, Identity, RequestId};
pub use random::Random;
pub use token::FencingToken;
