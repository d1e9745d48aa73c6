//! How a lease is renewed and given back.

use futures_util::future;

use super::entries::{Found, Held, Keys, Seen};
use super::{CONFLICTS, SUCCESS_KEPT, Shared};
use crate::name::ElectionName;
use crate::store::record::parts::{Asking, Kept, Left, Slot, Success, encode};
use crate::store::record::{self, Decision, Record};
use crate::store::ttl_store::TtlStore;
use crate::store::{ErrorKind, Release, Released, Renew, Renewal, Requested, StoreError};

impl<S: TtlStore> Shared<S> {
    pub(super) async fn renew(&self, renewal: &Renew) -> Result<Renewal, StoreError> {
        let election = &renewal.lease.election;
        let renewed = self.renew_known(renewal).await;
        let renewed = match renewed {
            Ok(None) => self.renew_found(renewal).await,
            Ok(Some(renewed)) => Ok(renewed),
            Err(error) => Err(error),
        };
        if !matches!(renewed, Ok(Renewal::Renewed(..))) {
            self.forget(election);
        }
        match renewed {
            // Renewing over something that is not our own bid is a loss, also if it cannot be read.
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Renewal::Lost(None)),
            renewed => renewed,
        }
    }

    /// Renews over what was last written here, which is still there most of the time. `None`: look.
    async fn renew_known(&self, renewal: &Renew) -> Result<Option<Renewal>, StoreError> {
        let election = &renewal.lease.election;
        // What an answer is about has to be looked at.
        let Some(held) = self.known_of(election).filter(|_| renewal.answer.is_none()) else {
            return Ok(None);
        };
        let seen = Seen::of(election, held);
        let sight = self.sight(&seen);
        let present = seen.parts().record(&sight);
        let Decision::Write(next, renewed) = record::renew(present.as_ref(), renewal, &sight) else {
            return Ok(None);
        };
        let Some(slot) = self.put_renewed(&next, &seen).await? else {
            return Ok(None);
        };
        let Renewal::Renewed(lease, _) = renewed else {
            return Ok(Some(renewed));
        };
        let (followed, request) =
            future::join(self.follow(renewal, &next, seen.kept, &slot), self.request_of(election, "renew"))
                .await;
        let kept = followed?;
        let mut seen = Seen::of(election, Held { kept, slot });
        // A request that cannot be read now comes with the next renewal.
        seen.request = request.unwrap_or_default();
        let request = seen.parts().view(&sight).and_then(|view| view.request);
        Ok(Some(Renewal::Renewed(lease, request.map(Box::new))))
    }

    async fn renew_found(&self, renewal: &Renew) -> Result<Renewal, StoreError> {
        let election = &renewal.lease.election;
        for _ in 0..CONFLICTS {
            let seen = self.look_as_holder(election, "renew").await?;
            let sight = self.sight(&seen);
            let present = seen.parts().record(&sight);
            let (next, renewed) = match record::renew(present.as_ref(), renewal, &sight) {
                Decision::Keep(Renewal::Lost(_)) => {
                    let seen = self.look(election, "renew").await?;
                    return Ok(Renewal::Lost(seen.parts().view(&self.sight(&seen)).map(Box::new)));
                }
                Decision::Keep(renewed) => return Ok(renewed),
                Decision::Write(next, renewed) => (next, renewed),
            };
            if let Some(slot) = self.put_renewed(&next, &seen).await? {
                self.follow(renewal, &next, seen.kept, &slot).await?;
                return Ok(renewed);
            }
        }
        Err(self.conflict(election, "renew"))
    }

    /// Writes the renewal itself; `None` if something else is there by now.
    async fn put_renewed(&self, next: &Record, seen: &Seen) -> Result<Option<Found<Slot>>, StoreError> {
        let (Some(slot), Some(present)) = (Slot::held(next), &seen.slot) else {
            return Ok(None);
        };
        let election = seen.parts().election;
        let bytes = encode(election, &slot);
        let key = Keys::of(election).lease;
        let ttl = Some(slot.lasts());
        let put = self.put(&key, Some(present.bytes()), bytes.clone(), ttl).await?;
        Ok(put.then(|| Found::new(slot, bytes)))
    }

    /// Lets the record follow a renewal that has happened; returns it if it is known then.
    async fn follow(
        &self,
        renewal: &Renew,
        next: &Record,
        kept: Option<Found<Kept>>,
        slot: &Found<Slot>,
    ) -> Result<Option<Found<Kept>>, StoreError> {
        let election = &renewal.lease.election;
        match self.record_renewal(election, next, kept).await {
            Ok(kept) => {
                let held = Held { kept: kept.clone(), slot: slot.clone() };
                self.remember(election, held);
                Ok(kept)
            }
            // An answer that is not recorded is lost; the renewal is repeated, with the answer.
            Err(error) if renewal.answer.is_some() || error.kind() == ErrorKind::Corrupt => Err(error),
            // For people only: the next renewal records this one too.
            Err(_) => {
                self.forget(election);
                Ok(None)
            }
        }
    }

    async fn record_renewal(
        &self,
        election: &ElectionName,
        next: &Record,
        mut kept: Option<Found<Kept>>,
    ) -> Result<Option<Found<Kept>>, StoreError> {
        for _ in 0..CONFLICTS {
            let renewed = match &kept {
                None => Some(Kept::after(None, next.clone())),
                Some(kept) => kept.value().renewed(next),
            };
            // Another term rules in the record by now: this one has ended since it was renewed.
            let Some(renewed) = renewed else { return Ok(kept) };
            if self.keep(election, kept.as_ref(), &renewed).await? {
                let bytes = encode(election, &renewed);
                return Ok(Some(Found::new(renewed, bytes)));
            }
            kept = self.get(election, &Keys::of(election).record, "renew").await?;
        }
        Err(self.conflict(election, "renew"))
    }

    pub(super) async fn release(&self, release: &Release) -> Result<Released, StoreError> {
        self.forget(&release.lease.election);
        match self.release_found(release).await {
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Released::NotHeld),
            released => released,
        }
    }

    async fn release_found(&self, release: &Release) -> Result<Released, StoreError> {
        let election = &release.lease.election;
        for _ in 0..CONFLICTS {
            let mut seen = self.look_as_holder(election, "release").await?;
            let left = seen.parts().unrecorded();
            if left.is_some_and(|left| left.release == release.attempt) {
                return self.released(&seen).await;
            }
            let sight = self.sight(&seen);
            let Some(present) = seen.parts().record(&sight) else {
                return Ok(Released::NotHeld);
            };
            match record::release(Some(&present), release, &sight) {
                Decision::Keep(answer) => return Ok(answer),
                Decision::Write(..) => {}
            }
            // The lease ends here, in one step with the beginning of whatever window comes after it.
            let (Some(slot), Some(over)) = (Slot::given_back(&present, release), &seen.slot) else {
                return Ok(Released::NotHeld);
            };
            let bytes = encode(election, &slot);
            let key = Keys::of(election).lease;
            let ttl = Some(slot.lasts());
            if self.put(&key, Some(over.bytes()), bytes.clone(), ttl).await? {
                seen.slot = Some(Found::new(slot, bytes));
                return self.released(&seen).await;
            }
        }
        Err(self.conflict(election, "release"))
    }

    /// Answers a release that has happened, once it is recorded.
    async fn released(&self, seen: &Seen) -> Result<Released, StoreError> {
        let Some(left) = seen.parts().unrecorded() else {
            return Ok(Released::Released);
        };
        match self.settle(left, seen, "release").await {
            // Unknown: the same release again finds its entry and records it.
            Err(error) if error.is_retryable() => Err(error),
            // This candidate cannot record it, now or later, but the lease is given back: whoever bids next records it.
            Ok(()) | Err(_) => Ok(Released::Released),
        }
    }

    /// Records a release that has happened; whoever finds one that is not recorded does it.
    pub(super) async fn settle(
        &self,
        left: &Left,
        seen: &Seen,
        operation: &'static str,
    ) -> Result<(), StoreError> {
        let election = seen.parts().election;
        // Before the record, since nobody can have the place before that is written: the next leader sees both.
        if left.succeeded {
            self.note_success(election, left).await?;
        }
        // Not the one that was seen: it may have come while the lease was being given back.
        let request = self.request_of(election, operation).await?;
        let request = request.as_ref().map(|found| &found.value().request);
        let mut kept = seen.kept.clone();
        for _ in 0..CONFLICTS {
            let present = kept.as_ref().map(Found::value);
            if present.is_some_and(|kept| kept.knows_release(left)) {
                return Ok(());
            }
            let Some(next) = left.record(present, election, request, &self.sight(seen)) else {
                // The entry ended before anybody recorded it, and another term rules by now.
                return Ok(());
            };
            if self.keep(election, kept.as_ref(), &next).await? {
                return Ok(());
            }
            kept = self.get(election, &Keys::of(election).record, operation).await?;
        }
        Err(self.conflict(election, operation))
    }

    /// Tells whether the term that a request names had ended before it was written; then it is taken away.
    ///
    /// A lease that is still held now is given back later, and whoever records that finds the request. One that ended
    /// before may have been recorded without it: nobody would ever answer.
    pub(super) async fn ended_before(
        &self,
        election: &ElectionName,
        asking: &Asking,
    ) -> Result<Option<Requested>, StoreError> {
        let seen = self.look(election, "request").await?;
        let sight = self.sight(&seen);
        // It may have ended *because* of the request.
        let answer = seen.parts().view(&sight).and_then(|view| view.answer);
        if answer.is_some_and(|answer| answer.id == asking.request.id) {
            return Ok(None);
        }
        let present = seen.parts().record(&sight);
        match record::request(present.as_ref(), &asking.request, asking.write, &sight) {
            Decision::Keep(ended @ (Requested::NoHolder | Requested::WrongTerm(_))) => {
                let key = Keys::of(election).request;
                self.store.compare_and_delete(&key, &encode(election, asking)).await?;
                Ok(Some(ended))
            }
            _ => Ok(None),
        }
    }

    async fn note_success(&self, election: &ElectionName, left: &Left) -> Result<(), StoreError> {
        let key = Keys::of(election).success;
        let success = Success { token: left.token(), release: left.release };
        let bytes = encode(election, success);
        for _ in 0..CONFLICTS {
            let present = match self.get::<Success>(election, &key, "release").await {
                Ok(present) => present,
                // Somebody else's value: what it said is lost either way, and it must not keep the term from ending.
                Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(()),
                Err(error) => return Err(error),
            };
            // Noted already, by the release itself or by whoever was first; or a later term has succeeded since.
            if present.as_ref().is_some_and(|found| found.value().token >= left.token()) {
                return Ok(());
            }
            let over = present.as_ref().map(Found::bytes);
            if self.put(&key, over, bytes.clone(), Some(SUCCESS_KEPT)).await? {
                return Ok(());
            }
        }
        Err(self.conflict(election, "release"))
    }
}
