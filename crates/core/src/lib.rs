//! Tenure's contract, elector and embedded stores.

pub mod clock;
pub mod elections;
pub mod elector;
pub mod embedded;
pub mod fence;
#[cfg(feature = "flaws")]
pub mod flaw;
#[cfg(not(feature = "flaws"))]
pub(crate) mod flaw;
pub mod identity;
pub mod name;
pub mod random;
pub mod store;
pub mod token;

pub use clock::{Clock, ClockExt, ManualClock, Moment, Sleep, SystemClock};
pub use elections::{Elections, ElectionsBuilder, LeadError};
pub use elector::{Elector, ElectorHandle, Leadership, Settings};
pub use fence::{Fence, FenceError};
pub use identity::{IdentityError, StableIdentity};
pub use name::{Attempt, BidId, CandidateId, ElectionName, Identity, RequestId};
pub use random::Random;
pub use token::FencingToken;
