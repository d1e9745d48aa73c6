//! How a bid becomes a lease, in three writes that may each be the last one of a process.

use std::time::Duration;

use super::entries::{Found, Held, Keys, Seen};
use super::{CONFLICTS, Shared};
use crate::name::ElectionName;
use crate::store::record::parts::{Asked, Kept, Slot, encode};
use crate::store::record::{self, Decision};
use crate::store::ttl_store::TtlStore;
use crate::store::{Acquisition, Bid, StoreError};

impl<S: TtlStore> Shared<S> {
    pub(super) async fn acquire(
        &self,
        election: &ElectionName,
        bid: &Bid,
    ) -> Result<Acquisition, StoreError> {
        for _ in 0..CONFLICTS {
            let mut seen = self.look(election, "acquire").await?;
            if let Some(Slot::Asked(asked)) = seen.slot.as_ref().map(Found::value) {
                // Somebody was stopped, or is just now, between two of its steps.
                let (asked, ttl) = (asked.clone(), self.rest(asked, &seen));
                self.complete(&asked, &mut seen, ttl).await?;
                continue;
            }
            if let Some(left) = seen.parts().unrecorded() {
                // Likewise between two steps of a release: the place may be had, but only after it is recorded.
                self.settle(left, &seen, "acquire").await?;
                continue;
            }
            let sight = self.sight(&seen);
            let parts = seen.parts();
            if parts.blocked().is_some() {
                // A lease that does not belong to the record is nobody's, but it is not free either.
                if let Some(view) = parts.view(&sight) {
                    return Ok(Acquisition::Refused(Box::new(view)));
                }
            }
            match record::acquire(parts.record(&sight).as_ref(), election, bid, &sight) {
                Decision::Keep(answer) => return Ok(answer),
                Decision::Write(..) => {}
            }
            if let Some(acquired) = self.take(bid, &mut seen).await? {
                return Ok(acquired);
            }
        }
        Err(self.conflict(election, "acquire"))
    }

    /// Takes the place for a bid that may have it, and completes it. `None`: look again.
    async fn take(&self, bid: &Bid, seen: &mut Seen) -> Result<Option<Acquisition>, StoreError> {
        let election = seen.parts().election.clone();
        let asked = Asked::new(bid);
        let slot = Slot::Asked(asked.clone());
        let bytes = encode(&election, &slot);
        let over = seen.slot.as_ref().map(Found::bytes);
        let key = Keys::of(&election).lease;
        if !self.put(&key, over, bytes.clone(), Some(asked.ttl())).await? {
            return Ok(None);
        }
        seen.slot = Some(Found::new(slot, bytes));
        // The whole ttl again with the third step: the store then ends the lease later than the candidate, who counts
        // from before the first.
        match self.complete(&asked, seen, asked.ttl()).await {
            Ok(true) => Ok(self.acquired(bid, seen)),
            Ok(false) => Ok(None),
            Err(error) => {
                if !error.is_retryable() {
                    // Definitely not acquired, so the place is given back; if that fails too, it ends with its ttl.
                    let _ = self.withdraw(seen).await;
                }
                Err(error)
            }
        }
    }

    /// Answers a bid that was just completed, and remembers what was written.
    fn acquired(&self, bid: &Bid, seen: &Seen) -> Option<Acquisition> {
        let sight = self.sight(seen);
        let parts = seen.parts();
        let Decision::Keep(acquired @ Acquisition::Acquired(_)) =
            record::acquire(parts.record(&sight).as_ref(), parts.election, bid, &sight)
        else {
            return None;
        };
        if let Some(slot) = seen.slot.clone() {
            let kept = seen.kept.clone();
            self.remember(parts.election, Held { kept, slot });
        }
        Some(acquired)
    }

    /// Draws a token for a bid that has the place, and puts it into the lease; tells whether that made it whole.
    ///
    /// Anybody may do it, at any time: each write expects exactly what was judged, and both say the same whoever does
    /// them. On the way out `seen` shows what was written.
    async fn complete(&self, asked: &Asked, seen: &mut Seen, ttl: Duration) -> Result<bool, StoreError> {
        let election = seen.parts().election.clone();
        let Some(place) = seen.slot.clone() else {
            return Ok(false);
        };
        for _ in 0..CONFLICTS {
            let drawn = seen.kept.as_ref().and_then(|kept| kept.value().drawn(asked));
            if let Some(slot) = drawn {
                return self.put_token(slot, &place, seen, ttl).await;
            }
            match seen.parts().draw(asked, &self.sight(seen)) {
                Decision::Write(record, _) => {
                    let present = seen.kept.as_ref();
                    let next = Kept::after(present.map(Found::value), *record);
                    if self.keep(&election, present, &next).await? {
                        let bytes = encode(&election, &next);
                        seen.kept = Some(Found::new(next, bytes));
                        continue;
                    }
                }
                // The bid is spent, the election is paused, or the numbers have run out.
                Decision::Keep(_) => {
                    self.withdraw(seen).await?;
                    return Ok(false);
                }
            }
            *seen = self.look(&election, "acquire").await?;
            if seen.slot.as_ref().map(Found::bytes) != Some(place.bytes()) {
                return Ok(false);
            }
        }
        Err(self.conflict(&election, "acquire"))
    }

    async fn put_token(
        &self,
        slot: Slot,
        place: &Found<Slot>,
        seen: &mut Seen,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let election = seen.parts().election.clone();
        let bytes = encode(&election, &slot);
        let key = Keys::of(&election).lease;
        let expected = Some(place.bytes());
        if !self.put(&key, expected, bytes.clone(), Some(ttl)).await? {
            return Ok(false);
        }
        seen.slot = Some(Found::new(slot, bytes));
        Ok(true)
    }

    /// Gives the place of a bid without token back.
    async fn withdraw(&self, seen: &Seen) -> Result<(), StoreError> {
        let key = Keys::of(seen.parts().election).lease;
        if let Some(place) = &seen.slot {
            self.store.compare_and_delete(&key, place.bytes()).await?;
        }
        Ok(())
    }

    /// What a bid that was found half made still has, so that completing it extends nothing.
    ///
    /// A grain more, since the store may have rounded: a lease must not end before its holder counts on it.
    fn rest(&self, asked: &Asked, seen: &Seen) -> Duration {
        let left = seen.slot.as_ref().map_or(Duration::ZERO, |slot| slot.progress.left(asked.ttl()));
        // Not nothing: no store takes that for a ttl.
        left.saturating_add(self.store.guarantees().ttl_grain).max(Duration::from_millis(1)).min(asked.ttl())
    }
}
