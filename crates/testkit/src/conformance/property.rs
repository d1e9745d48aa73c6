//! The list of properties.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::cx::{Checked, Cx};

macro_rules! properties {
    ($($variant:ident $id:literal $module:ident $title:literal,)*) => {
        /// One line of the list of what every store must show.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Property {
            $(
                #[doc = $title]
                $variant,
            )*
        }

        impl Property {
            /// All of them, in order.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the property's short name, such as `A16b`.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Self::$variant => $id,)* }
            }

            /// Returns what must hold, in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            pub(super) fn check(self, cx: Arc<Cx>) -> BoxFuture<'static, Checked> {
                match self { $(Self::$variant => Box::pin(super::$module::check(cx)),)* }
            }
        }
    };
}

properties! {
    A1 "A1" a01_one_winner "Of many concurrent bids exactly one wins.",
    A2 "A2" a02_second_refused "A second candidate is refused and changes nothing.",
    A3 "A3" a03_free_again "Free at once after a release, and after expiry, not before.",
    A4 "A4" a04_names "Elections of any name are independent and listed exactly.",
    A5 "A5" a05_counter "A counter under the lease loses nothing.",
    A6 "A6" a06_tokens_rise "Tokens rise from term to term.",
    A7 "A7" a07_repeated_bid "A repeated bid answers its term, then nothing.",
    A8 "A8" a08_renew_extends "A renewal extends the lease and counts.",
    A9 "A9" a09_renew_holder_only "Nobody but the holder renews.",
    A10 "A10" a10_release_holder_only "Nobody but the holder releases.",
    A11 "A11" a11_overwritten "An overwritten lease is lost, and the foreign value kept.",
    A12 "A12" a12_corrupt "What cannot be understood is corrupt, not free.",
    A13 "A13" a13_answer_lost "A lost answer is found out.",
    A14 "A14" a14_request_lost "A lost request is repeated with success.",
    A15 "A15" a15_outage "An outage ends each call in time, and nothing after it.",
    A16 "A16" a16_refusals "A store that must refuse says why.",
    A16b "A16b" a16b_late_writes "Late writes change nothing of a later term.",
    A17 "A17" a17_watch "A watch reports releases and new holders.",
    A18 "A18" a18_list "Lists are complete.",
    A19 "A19" a19_successor "Successors, cool-downs and pauses are respected.",
    A20 "A20" a20_renew_many "A thousand renewals answer each in its place.",
    A21 "A21" a21_duplicates "Delayed duplicates do nothing.",
    A22 "A22" a22_applied_attempt "A found-out write says which attempt was applied.",
    A23 "A23" a23_lost_release "A lost release touches no later term.",
    A24 "A24" a24_floor "A token is above the bid's floor.",
    A25 "A25" a25_clones "Of two holders of one bid at most one goes on.",
    A26 "A26" a26_requests "Requests and pauses do what they say, once.",
    A27 "A27" a27_frozen "A frozen participant stops nobody.",
    A28 "A28" a28_abandoned "An abandoned call leaves no lease behind.",
    A29 "A29" a29_previous "The previous term is right or unknown.",
    A30 "A30" a30_session "A session keeps nothing alive that nobody wants.",
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}
